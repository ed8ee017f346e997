"""Score this program on tasks of fev-bench: `python -m benchmarks.published --tasks epf_np --recipe defaults`.

Every training and forecast is one public command. The check of the data runs first: the seasonal naive forecast must
have its published MASE, to six digits. Run the same command again to continue; `--again` scores once more.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from benchmarks.published.contest import RECIPES, Entry, add_row, row_of
from benchmarks.published.tasks import TASKS, check_data, data_folder
from forecast.common.cli import finish
from forecast.common.tables import table

RECORD = Path("benchmarks/records/published/scores.csv")
PUBLISHED = RECORD.with_name("fev_bench.csv")
FOLDER = Path("outputs/published")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.published", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--recipe", choices=list(RECIPES), default="defaults")
    parser.add_argument("--check", action="store_true", help="check the data only; train and score nothing")
    parser.add_argument("--again", action="store_true", help="score a task again although it has a row")
    parser.add_argument("--record", type=Path, default=RECORD, help="file of the rows (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the runs (default: %(default)s)")
    options = parser.parse_args(arguments)
    return finish(lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    folder = data_folder()
    tables = {name: TASKS[name].table(folder) for name in options.tasks}
    for name, data in tables.items():
        print(
            f"{name}: MASE of the seasonal naive forecast {check_data(TASKS[name], data):.6f}, as published", flush=True
        )
    if options.check:
        return
    for name, data in tables.items():
        rows = read(options.record)
        of_task = rows[rows["task"] == name]
        if not options.again and (of_task["recipe"] == options.recipe).any():
            print(f"{name}: already scored with {options.recipe}")
            continue
        entry = Entry(TASKS[name], data, options.recipe, options.folder / f"{name}_{options.recipe}")
        row = row_of(entry, len(of_task))
        add_row(options.record, rows, row)
        print(f"{name}: SQL {row['SQL']:.3f}, place {place_of(row['SQL'], name)}", flush=True)
    print(summary(read(options.record)))


def read(path: Path) -> pd.DataFrame:
    """Return the rows of the record; none if there is no file."""
    return pd.read_csv(path) if path.is_file() else pd.DataFrame(columns=["task", "recipe", "SQL"])


def place_of(score: float, task: str) -> str:
    """Return the place of a scaled quantile loss among the published models that had not seen the data."""
    published = pd.read_csv(PUBLISHED)
    fair = published[(published["task_name"] == task) & ~published["trained_on_this_dataset"].astype(bool)]
    return f"{1 + int((fair['SQL'] < score).sum())} of {1 + len(fair)}"


def summary(rows: pd.DataFrame) -> str:
    """Return the table of the first scorings: our loss beside the best published one and the seasonal naive one."""
    published = pd.read_csv(PUBLISHED).set_index("task_name")
    cells = []
    for row in rows.drop_duplicates(["task", "recipe"]).to_dict("records"):
        others = published.loc[[row["task"]]]
        fair = others[~others["trained_on_this_dataset"].astype(bool)].set_index("model_name")["SQL"]
        best = f"{fair.min():.3f} {fair.idxmin()}"
        naive = float(fair["Seasonal Naive"])
        values = [f"{row['SQL']:.3f}", place_of(row["SQL"], row["task"]), best, f"{naive:.3f}"]
        minutes = row["training_minutes"] + row["forecast_minutes"]
        cells.append([row["task"], row["recipe"], *values, f"{minutes:.1f}", str(row["times_scored"])])
    headings = ("task", "recipe", "SQL", "place", "best published", "seasonal naive", "minutes", "times scored")
    return table(headings, cells)


if __name__ == "__main__":
    sys.exit(main())
