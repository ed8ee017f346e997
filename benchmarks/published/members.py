"""Scores of each training of a recipe and of their mean, on rows before the published windows.

`python -m benchmarks.published.members --tasks ETT_1H`. The table of a task ends where that of
`benchmarks.published.choices` ends. Its last fifth, at most a hundred windows, takes the place of the published ones.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.published.choices import PARTS
from benchmarks.published.contest import JUDGED_BY, RECIPES, Entry, quantiles_of
from benchmarks.published.record import add_row, read_rows
from benchmarks.published.tasks import LEVELS, TASKS, Floats, data_folder, seasonal_error, windows_of
from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.common.tables import Row
from forecast.predict.ensemble import load
from forecast.predict.panel import PanelForecaster
from forecast.runs.results import commit, device_name

RECORD = Path("benchmarks/records/published/members.csv")
FOLDER = Path("outputs/members")

MOST_WINDOWS = 100
"""Most windows of a task."""


def entry_of(name: str, recipe: str, folder: Path) -> Entry:
    """Return a task on the rows before its windows."""
    task = TASKS[name]
    table = task.table(data_folder()).iloc[: PARTS[name].rows]
    windows = min(MOST_WINDOWS, len(table) // 5 // task.horizon)
    return Entry(replace(task, windows=windows), table, recipe, folder / f"{name}_{recipe}")


def sql(entry: Entry, forecast: Callable[[int], Floats]) -> float:
    """Return the scaled quantile loss of forecasts (h, C, 9) by the number of their window."""
    levels, scores = np.array(LEVELS), []
    for number, (past, future) in enumerate(windows_of(entry.task, entry.table)):
        error = future[..., None] - forecast(number)
        losses = 2 * np.maximum(levels * error, (levels - 1) * error).mean(-1)
        scores.append(np.nanmean(losses / seasonal_error(past, entry.task.season)))
    return float(np.mean(scores))


def rows_of(entry: Entry) -> list[Row]:
    """Train, and return a row for each forecast that the recipe averages and for the mean of all."""
    entry.train()
    (end,) = {end for end, _ in entry.jobs}
    targets = entry.task.targets(entry.table)
    each: list[list[Floats]] = []
    for run in entry.runs(end):
        model = load(run)
        assert not isinstance(model, PanelForecaster)
        each.append([quantiles_of(entry.window(model, cutoff), targets) for cutoff in entry.trainings])
    names = [" ".join((*words, f"seed={seed}")) for seed, words in entry.members.items()]
    if entry.joins:
        each.append([quantiles_of(entry.window(None, cutoff), targets) for cutoff in entry.trainings])
        names.append("without training")
    means = [np.mean(parts, axis=0) for parts in zip(*each, strict=True)]
    named = dict(zip(names, each, strict=True))
    return [
        {
            "task": entry.task.name,
            "recipe": entry.name,
            "member": name,
            "SQL": round(sql(entry, quantiles.__getitem__), 5),
            "windows": entry.task.windows,
            "minutes": round(entry.training_minutes, 2),
            "commit": commit(),
            "machine": device_name(torch.device("cpu")),
        }
        for name, quantiles in {**named, "mean": means}.items()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.published.members",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tasks", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--recipe", choices=[name for name, one in RECIPES.items() if one.steps], default="started")
    parser.add_argument("--record", type=Path, default=RECORD, help="file of the rows (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the runs (default: %(default)s)")
    options = parser.parse_args(arguments)
    return finish(lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    if str(commit(JUDGED_BY)).endswith("+changes"):
        raise InputError("the program or a recipe has changes: commit them first, since a score names its commit")
    for name in options.tasks:
        rows = read_rows(options.record, "task", "recipe")
        if ((rows["task"] == name) & (rows["recipe"] == options.recipe)).any():
            print(f"{name}: the record has {options.recipe}")
            continue
        for row in rows_of(entry_of(name, options.recipe, options.folder)):
            add_row(options.record, row)
            print(f"{name}: {row['member']}: SQL {row['SQL']:.4f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
