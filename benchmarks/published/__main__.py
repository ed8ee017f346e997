"""Score this program on tasks of fev-bench: `python -m benchmarks.published --tasks epf_np`.

Every training and forecast is one public command. The check of the data runs first: the seasonal naive forecast must
have its published MASE, to six digits. Run the same command again to continue; `--again` scores once more.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from benchmarks.published.contest import JUDGED_BY, RECIPES, Entry, row_of
from benchmarks.published.record import add_row, read_rows
from benchmarks.published.tables import (
    GENERAL,
    HEADLINE_BEGIN,
    HEADLINE_END,
    RECORD,
    SCORES_BEGIN,
    SCORES_END,
    place_of,
    standing,
    summary,
)
from benchmarks.published.tasks import TASKS, check_data, data_folder
from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.common.tables import Row, write_between
from forecast.runs.results import commit

FOLDER = Path("outputs/published")
KEY = ("task", "recipe")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.published", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--recipe", choices=list(RECIPES), default="general", help="(default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="check the data only; train and score nothing")
    parser.add_argument("--again", action="store_true", help="score a task again although it has a row")
    parser.add_argument("--record", type=Path, default=RECORD, help="file of the rows (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the runs (default: %(default)s)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the tables between their marks in this file")
    options = parser.parse_args(arguments)
    return finish(lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    if options.write is not None:
        rows = read_rows(options.record, *KEY)
        if not (rows["recipe"] == options.recipe).any():
            raise InputError(f"{options.record} has no row of {options.recipe}: name another --recipe")
        _write(options.write, rows, options.recipe)
        return
    folder = data_folder()
    tables = {name: TASKS[name].table(folder) for name in options.tasks}
    for name, data in tables.items():
        print(
            f"{name}: MASE of the seasonal naive forecast {check_data(TASKS[name], data):.6f}, as published", flush=True
        )
    if options.check:
        return
    _check_ready()
    for name, data in tables.items():
        rows = read_rows(options.record, *KEY)
        of_task = rows[rows["task"] == name]
        if not options.again and (of_task["recipe"] == options.recipe).any():
            print(f"{name}: already scored with {options.recipe}")
            continue
        if RECIPES[options.recipe].starts and TASKS[name].known:
            print(f"{name}: trains as {GENERAL}, since the pretrained network reads no columns known ahead")
            continue
        again = f"_{len(of_task) + 1}" if options.again else ""
        entry = Entry(TASKS[name], data, options.recipe, options.folder / f"{name}_{options.recipe}{again}")
        row = row_of(entry)
        add_row(options.record, partial(_counted, row))
        print(f"{name}: SQL {row['SQL']:.3f}, place {place_of(row['SQL'], name)}", flush=True)
    print(summary(read_rows(options.record, *KEY)))


def _check_ready() -> None:
    """Raise InputError if a score could not be computed, or its row could not name its commit."""
    if find_spec("fev") is None:
        raise InputError("the package fev is not installed: pip install -e '.[benchmark]'")
    if str(commit(JUDGED_BY)).endswith("+changes"):
        raise InputError("the program or a recipe has changes: commit them first, since a score names its commit")


def _counted(row: Row, rows: pd.DataFrame) -> Row:
    """Return the row with the number of times that its task has been scored."""
    return {**row, "times_scored": 1 + int((rows["task"] == row["task"]).sum()) if len(rows) else 1}


def _write(path: Path, rows: pd.DataFrame, recipe: str) -> None:
    """Write the tables of the recipe's scores between their marks in a file."""
    if path.is_file() and HEADLINE_BEGIN in path.read_text(encoding="utf-8"):
        write_between(path, HEADLINE_BEGIN, HEADLINE_END, standing(rows, recipe, short=True))
    else:
        write_between(path, SCORES_BEGIN, SCORES_END, f"{summary(rows)}\n\n{standing(rows, recipe)}")


if __name__ == "__main__":
    sys.exit(main())
