"""Our scorings beside the published models, as Markdown for the page *Published tasks* and for the README.

The first scoring of a task with a recipe counts; the last one stands beside it.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.published.contest import RECIPES
from benchmarks.published.tasks import TASKS
from forecast.common.tables import table

RECORD = Path("benchmarks/records/published/scores.csv")
PUBLISHED = RECORD.with_name("fev_bench.csv")
AS_OF = "2026-11-24"
"""Date of the published scores."""

GENERAL = "general"
"""The recipe as which tasks with columns known ahead train in one that starts pretrained."""

NAIVE, THIS = "Seasonal Naive", "this program"
MARK = "†"
"""Sign of a model that had seen the data of a task in its own training."""

SCORES_BEGIN = (
    "<!-- scores: written by python -m benchmarks.published --recipe joined --write docs/measurements/published.md -->"
)
SCORES_END = "<!-- /scores -->"
HEADLINE_BEGIN = "<!-- published: written by python -m benchmarks.published --recipe joined --write README.md -->"
HEADLINE_END = "<!-- /published -->"

BEST = 3
"""Published models at the top of the short table."""


def published() -> pd.DataFrame:
    """Return the published scores, one row for each task and model."""
    rows = pd.read_csv(PUBLISHED).rename(columns={"task_name": "task", "model_name": "model"})
    rows["seen"] = rows["trained_on_this_dataset"].astype(bool)
    return rows


def rows_of(rows: pd.DataFrame, recipe: str) -> pd.DataFrame:
    """Return the scorings of a recipe; of tasks that it trains as `GENERAL`, the scorings of that."""
    own = rows["recipe"] == recipe
    if RECIPES[recipe].starts:
        own |= (rows["recipe"] == GENERAL) & rows["task"].isin([name for name, task in TASKS.items() if task.known])
    return rows[own]


def place_of(score: float, task: str) -> str:
    """Return the place of a scaled quantile loss among the published models that had not seen the data."""
    rows = published()
    fair = rows[(rows["task"] == task) & ~rows["seen"]]
    return f"{1 + int((fair['SQL'] < score).sum())} of {1 + len(fair)}"


def summary(rows: pd.DataFrame) -> str:
    """Return a row for each task and recipe: the loss of its first scoring beside the best published, and of its last.

    Minutes are of the first scoring.
    """
    others = published()
    cells = []
    for _, scorings in rows.groupby(["task", "recipe"], sort=False):
        row, last = scorings.iloc[0], scorings.iloc[-1]
        fair = others[(others["task"] == row["task"]) & ~others["seen"]].set_index("model")
        naive = float(fair["SQL"][NAIVE])
        best, trained = (each["SQL"] for each in (fair, fair[fair["training_time_s"] > 0]))
        values = [f"{row['SQL']:.3f}", f"{row['SQL'] / naive:.3f}", place_of(row["SQL"], row["task"])]
        values += [f"{each.min():.3f} {each.idxmin()}" for each in (best, trained)]
        minutes = row["training_minutes"] + row["forecast_minutes"]
        again = [str(len(scorings)), f"{last['SQL']:.3f}"]
        cells.append([row["task"], row["recipe"], *values, f"{minutes:.1f}", *again])
    headings = ("task", "recipe", "SQL", "/ seasonal naive", "place", "best published", "best trained", "minutes")
    return table((*headings, "times scored", "last SQL"), cells)


def ranking(rows: pd.DataFrame, recipe: str) -> pd.DataFrame:
    """Return our recipe, by its first scoring of each task, and the published models there, the best first.

    Columns: `ratio`, the geometric mean over the tasks of SQL relative to the seasonal naive forecast; `place`, the
    mean place among the models that had not seen the data; `seen`, the number of tasks whose data it had seen; `hours`
    of training. Models without a score on one of the tasks are left out.
    """
    own = rows_of(rows, recipe).drop_duplicates("task").assign(model=THIS, seen=False)
    own["training_time_s"] = 60 * own["training_minutes"].astype(float)
    others = published()
    both = pd.concat([own, others[others["task"].isin(own["task"])]], ignore_index=True)[
        ["task", "model", "SQL", "seen", "training_time_s"]
    ]
    naive = both[both["model"] == NAIVE].set_index("task")["SQL"]
    both["log"] = np.log(both["SQL"].astype(float) / both["task"].map(naive))
    both["place"] = both[~both["seen"]].groupby("task")["SQL"].rank(method="min")
    models = both.groupby("model").agg(
        ratio=("log", lambda logs: float(np.exp(logs.mean()))),
        place=("place", "mean"),
        seen=("seen", "sum"),
        hours=("training_time_s", lambda seconds: seconds.sum() / 3600),
        tasks=("task", "nunique"),
    )
    return models[models["tasks"] == own["task"].nunique()].sort_values("ratio")


def _cores(machine: str, trainings: int) -> str:
    """Return the machine with the number of cores that its trainings at once take; a GPU has no threads."""
    name, _, threads = machine.rpartition(", ")
    count = threads.removesuffix(" threads")
    return f"{name}, {trainings * int(count)} cores" if count.isdigit() else machine


def standing(rows: pd.DataFrame, recipe: str, *, short: bool = False) -> str:
    """Return the ranking as Markdown; `short`: the best, the trained ones, this program and the naive, no places."""
    models, own = ranking(rows, recipe), rows_of(rows, recipe)
    first = own.drop_duplicates("task")
    machines = "; ".join(dict.fromkeys(map(_cores, first["machine"], first["trainings_at_once"])))
    fair = models[(models["seen"] == 0) & (models.index != THIS)]
    if short:
        trained = fair[(fair["hours"] > 0) & (fair["ratio"] < 1)].index
        keep = [*fair.index[:BEST], *trained, THIS, NAIVE]
        models = models[models.index.isin(keep)]
    cells = []
    for name, row in models.iterrows():
        title = f"**{THIS}**, {machines}" if name == THIS else f"{name}{f' {MARK}' if row['seen'] else ''}"
        hours = f"{row['hours']:.1f}" if row["hours"] else "none"
        place = [] if short else [f"{row['place']:.1f}"]
        cells.append([title, f"{row['ratio']:.3f}", *place, hours])
    places = [] if short else ["mean place"]
    text = table(("model", "SQL / seasonal naive", *places, "hours of training"), cells)
    notes = [
        f"Geometric mean over {len(first)} tasks, quantiles 0.1 to 0.9; lower is better, 1 is no gain.",
        f"Published scores as of {AS_OF}; hours of others on their machines; none: no training on the task.",
    ]
    if not short:
        notes.append(f"Mean place: among models new to the data. {MARK}: the model had seen the data of a task.")
        if len(own) > len(first):
            last = float(ranking(own.drop_duplicates("task", keep="last"), recipe)["ratio"][THIS])
            notes.append(f"Each task counts with its first scoring; with the last, this program has {last:.3f}.")
    return f"{text}\n\n{' '.join(notes)}"
