"""Gradient-boosted trees beside the model on the same validation windows: `python -m benchmarks.studies.trees`.

Each of the nine published tasks is trained once on the rows before its windows, with its recipe but `--steps` steps;
Rossmann and Victoria, with the recipes of their experiments. `evaluation.baselines=[trees]` adds the trees and their
mean with the model. A task that the record has is not trained again.
"""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from benchmarks.known_ahead import TASKS as KNOWN_AHEAD
from benchmarks.published.contest import Entry, folder_of, only_run
from benchmarks.published.lanes import Commands
from benchmarks.published.record import add_row, read_rows
from benchmarks.published.rossmann import RECIPE, TIME, cutoffs, full_calendar
from benchmarks.published.tasks import TASKS, data_folder
from forecast.common.cli import finish
from forecast.common.files import look_up, read_json
from forecast.common.tables import Row
from forecast.common.tables import table as as_table
from forecast.runs.run import RESULT

RECORD = Path("benchmarks/records/published/trees.csv")
FOLDER = Path("outputs/trees")

FACTS = {
    "windows": "data.windows.validation",
    "model_mse": "validation.scaled.mse",
    "trees_mse": "baselines.trees.validation.scaled.mse",
    "mean_mse": "baselines.trees.validation.mean_with_model.scaled.mse",
    "ridge_mse": "baselines.linear.validation.scaled.mse",
    "model_mae": "validation.scaled.mae",
    "trees_mae": "baselines.trees.validation.scaled.mae",
    "mean_mae": "baselines.trees.validation.mean_with_model.scaled.mae",
    "ridge_mae": "baselines.linear.validation.scaled.mae",
    "share": "model.mixing_weight",
    "seconds": "speed.fit_seconds",
    "trees": "baselines.trees.fit.trees",
    "trees_seconds": "baselines.trees.fit.seconds",
    "commit": "commit",
    "machine": "device",
}
"""Columns of the record and their paths in `result.json`; errors on z-scores."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.studies.trees",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [*TASKS, "rossmann_1D", "victoria"]
    parser.add_argument("--tasks", nargs="+", choices=names, default=names)
    parser.add_argument("--steps", type=int, default=500, help="training steps (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=RECORD, help="file of the rows (default: %(default)s)")
    options = parser.parse_args(arguments)
    return finish(lambda: _run(options.tasks, options.steps, options.output))


def _run(tasks: Sequence[str], steps: int, record: Path) -> None:
    """Add the row of each task to the record."""
    for task in tasks:
        if (read_rows(record, "task")["task"] == task).any():
            print(f"{task}: the record has it")
            continue
        row = row_of(task, steps)
        add_row(record, row)
        print({name: row[name] for name in ("task", "model_mse", "trees_mse", "mean_mse")}, flush=True)
    print(table_of(read_rows(record, "task")))


def row_of(task: str, steps: int) -> Row:
    """Train on a task, unless that was done, and return its errors on validation."""
    folder = FOLDER / task
    folder.mkdir(parents=True, exist_ok=True)
    words = [*words_of(task, folder), f"training.max_steps={steps}", "evaluation.baselines=[trees]"]
    words = list({word.partition("=")[0].lstrip("+"): word for word in words}.values())  # the last word of a key counts
    runs = folder_of(folder, words)
    if only_run(runs) is None:
        Commands().run(["-m", "forecast.training", *words, f"output_dir={runs}", "training.progress=false"])
    run = only_run(runs)
    assert run is not None
    result = read_json(run / RESULT)
    found = {name: look_up(result, path) for name, path in FACTS.items()}
    rounded = {name: round(value, 5) if isinstance(value, float) else value for name, value in found.items()}
    return {"task": task, "steps": steps, **rounded, "command": shlex.join(["python", "train.py", *words])}


def words_of(task: str, folder: Path) -> list[str]:
    """Return the words of the training of a task, whose rows before its windows are written into `folder`."""
    if task == "victoria":
        return ["data=victoria", "experiment=known_ahead", *KNOWN_AHEAD[task]]
    if task == "rossmann_1D":
        stores, past = full_calendar(pd.read_parquet(data_folder() / "rossmann.parquet")), folder / "past.parquet"
        stores[stores[TIME] < cutoffs(stores)[0]].to_parquet(past, index=False)
        return ["data=rossmann", f"data.path={past}", *RECIPE]
    rows = TASKS[task].table(data_folder())
    entry = Entry(TASKS[task], rows, "general", folder)
    end = entry.task.cutoffs(rows)[0]
    words = entry.words(end, 1)
    (path,) = (Path(word.partition("=")[2]) for word in words if word.startswith("data.path="))
    rows.iloc[:end].to_csv(path, index_label="date")
    return words


def table_of(rows: pd.DataFrame) -> str:
    """Return the table of the page."""
    cells = [
        [f"`{row['task']}`", *(f"{row[name]:.3f}" for name in ("model_mse", "trees_mse", "mean_mse", "ridge_mse"))]
        for row in rows.to_dict("records")
    ]
    return as_table(("data", "model", "trees", "mean of both", "ridge"), cells)


if __name__ == "__main__":
    sys.exit(main())
