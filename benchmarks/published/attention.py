"""What attention contributes to each task: `python -m benchmarks.published.attention --tasks epf_np`.

The recipe `general` with one seed and another mechanism, on the rows of `benchmarks.published.choices`, so no published
window is scored. Run the same command again to continue.
"""

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.published.choices import PARTS, run_of, score
from benchmarks.published.contest import lengths
from benchmarks.published.record import add_row, read_rows
from benchmarks.published.tasks import TASKS, Task, data_folder
from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.common.tables import table, write_between
from forecast.evaluation.significance import mean_interval
from forecast.runs.run import ERRORS

RECORD = Path("benchmarks/records/published/attention.csv")
FOLDER = Path("outputs/attention")

FULL, PATH = "full", "linear path alone"
ARMS: Mapping[str, tuple[str, ...]] = {
    FULL: (),
    "probsparse": ("attention=probsparse",),
    "linear": ("attention=linear",),
    "mean": ("attention=mean",),
    "mean everywhere": ("attention=mean", "attention@cross_attention=mean"),
    PATH: ("training.max_steps=1", "training.mixing_prior=1e12"),  # the mixing weight shrinks to nothing
}
"""Arms, with their words beside the recipe."""

STEPS = 1000
"""Steps of a run. The recipe has 2,000, or 1,500 on wide windows."""

LEVEL = 0.99
"""Confidence level of the differences."""

NUMBERS = ("mean", "low", "high")

BEGIN = "<!-- attention: written by python -m benchmarks.published.attention --write docs/measurements/attention.md -->"
END = "<!-- /attention -->"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.published.attention",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tasks", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--record", type=Path, default=RECORD, help="file of the rows (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the runs (default: %(default)s)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table between its marks in this file")
    options = parser.parse_args(arguments)
    return finish(lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    if options.write is not None:
        if (rows := read_rows(options.record, "task", "arm")).empty:
            raise InputError(f"{options.record}: no run yet: leave out --write to make some")
        write_between(options.write, BEGIN, END, summary(rows))
        return
    data = data_folder()
    for name in options.tasks:
        for arm in dict.fromkeys((FULL, *options.arms)):  # the others are compared with `full`
            rows = read_rows(options.record, "task", "arm")
            if ((rows["task"] == name) & (rows["arm"] == arm)).any():
                print(f"{name}: the record has {arm}")
                continue
            row = row_of(TASKS[name], data, arm, options.folder)
            add_row(options.record, row)
            print(f"{name}, {arm}: SQL {row['SQL']:.4f}", flush=True)
    print(summary(read_rows(options.record, "task", "arm")))


def words_of(task: Task, data: Path, arm: str) -> list[str]:
    """Return the words of an arm beside those of the task's rows; the arm's own come last."""
    frame = task.table(data).iloc[: PARTS[task.name].rows]
    fitted = lengths(task, len(frame), len(task.targets(frame)), STEPS)
    fixed = ("data.split", "training.evaluation_stride", *(word.partition("=")[0] for word in ARMS[arm]))
    return ["experiment=general", *(word for word in fitted if word.partition("=")[0] not in fixed), *ARMS[arm]]


def row_of(task: Task, data: Path, arm: str, folder: Path) -> dict[str, Any]:
    """Train an arm and return its row: the scores, and how much higher its MAE is than that of `full`, in per cent."""
    row = score(task, data, _name(arm), words_of(task, data, arm), folder)
    del row["name"]
    own, full = (errors_of(task, data, each, folder) for each in (arm, FULL))
    overlap = math.ceil(task.horizon / PARTS[task.name].stride)
    interval = mean_interval((own - full).to_numpy(), overlap, level=LEVEL) if arm != FULL else None
    share = 100 / float(full.mean())
    more = {f"more_{name}": None if interval is None else round(share * getattr(interval, name), 3) for name in NUMBERS}
    more["more_capped"] = None if interval is None else interval.capped
    return {"task": row.pop("task"), "arm": arm, "windows": len(own), **more, **row}


def _name(arm: str) -> str:
    return arm.replace(" ", "-")


def errors_of(task: Task, data: Path, arm: str, folder: Path) -> "pd.Series[float]":
    """Return the MAE of each scored window of an arm; train it, unless that was done."""
    _, run = run_of(task, data, _name(arm), words_of(task, data, arm), folder)
    errors = pd.read_parquet(run / ERRORS)
    return errors[errors["part"] == "test"].set_index("origin")["mae"].sort_index()


def summary(rows: pd.DataFrame) -> str:
    """Return the table: SQL of `full` over that of the seasonal naive forecast, and the MAE increase of the others.

    Bold: the interval does not contain 0. An interval from too few windows is perhaps too narrow and never bold; rows
    from before 2026-11-27 do not tell.
    """
    arms = [arm for arm in ARMS if arm != FULL]
    cells = []
    for task, own in rows.groupby("task", sort=False):
        by_arm = {row["arm"]: row for row in own.to_dict("records")}
        full = by_arm[FULL]
        others = [_more(by_arm[arm]) if arm in by_arm else "" for arm in arms]
        cells.append([str(task), f"{full['SQL'] / full['naive_SQL']:.3f}", *others])
    return table(
        ("task", "SQL of `full` / seasonal naive", *(arm if arm == PATH else f"`{arm}`" for arm in arms)), cells
    )


def _more(row: Mapping[Any, Any]) -> str:
    mean, low, high = (row[f"more_{name}"] for name in NUMBERS)
    is_capped = str(row.get("more_capped")) == "True"
    mark = "**" if (low > 0 or high < 0) and not is_capped else ""
    return f"{mark}{mean:+.1f} %{mark} ({low:+.2f} to {high:+.2f}{', perhaps too narrow' if is_capped else ''})"


if __name__ == "__main__":
    sys.exit(main())
