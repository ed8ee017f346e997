"""Gradient-boosted trees beside recorded models: `python -m benchmarks.studies.trees --tasks epf_np`.

The trees are fitted as `evaluation.baselines=[trees]` fits them, and scored on the validation windows of the runs in
the record of `benchmarks.known_ahead`. Nothing is trained again.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.known_ahead import RUNS, TASKS, read
from benchmarks.published.record import add_row
from forecast.common.cli import finish
from forecast.common.configuration import compose_words, plain_values
from forecast.common.tables import Row
from forecast.data.sources import load_source
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.trees import fit_trees
from forecast.runs.results import commit, device_name
from forecast.runs.settings import Settings
from forecast.training.prepare import make_data

RECORD = Path("benchmarks/records/known-ahead/trees.csv")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.trees", description=__doc__)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--output", type=Path, default=RECORD, help="file of the rows (default: %(default)s)")
    options = parser.parse_args(arguments)
    return finish(lambda: _run(options.tasks, options.output))


def _run(tasks: Sequence[str], record: Path) -> None:
    """Add the row of each task to the record."""
    for task in tasks:
        add_row(record, row_of(task))


def row_of(task: str) -> Row:
    """Return the validation errors of the trees and of the recorded models of a task, on z-scores."""
    words = [f"data={task}", "experiment=known_ahead", *TASKS[task]]
    settings, device = Settings.parse(plain_values(compose_words(words))), torch.device("cpu")
    data = make_data(settings, load_source(settings.data), device)
    trees = fit_trees(data)
    windows = data.parts["validation"]
    scores = evaluate(trees, windows, data.evaluation_batch_size).sums.scaled()
    runs = read(RUNS)
    recorded = runs[(runs["task"] == task) & (runs["arm"] == "full")]
    row: Row = {
        "task": task,
        "windows": len(windows),
        "model_mae": recorded["validation_mae"].mean(),
        "trees_mae": scores["mae"],
        "ridge_mae": recorded["ridge_validation_mae"].mean(),
        "trees_mse": scores["mse"],
        "seeds": len(recorded),
        **trees.facts,
    }
    return {
        **{name: round(value, 5) if isinstance(value, float) else value for name, value in row.items()},
        "command": f"python -m benchmarks.studies.trees --tasks {task}",
        "commit": commit(),
        "machine": device_name(device),
    }


if __name__ == "__main__":
    sys.exit(main())
