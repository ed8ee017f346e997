"""Filling the record: what is missing, one run after another."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.accuracy.cell import Cell
from benchmarks.accuracy.child import TrainingFailed, train_in_child
from benchmarks.accuracy.rows import Record, append, key_of, read_record, row_of
from forecast.common.errors import InputError
from forecast.common.files import folder_lock, read_json
from forecast.runs.run import RESULT


@dataclass(frozen=True)
class Filling:
    """How runs are made: the record's file, the folder of the runs, threads of each, minutes for new ones."""

    record: Path
    folder: Path
    threads: int | None = None
    minutes: float | None = None


def missing(cells: Sequence[Cell], record: Path) -> list[Cell]:
    """Return the cells that the record has no row of."""
    there = {key_of(row) for row in read_record(record)}
    return [cell for cell in cells if cell.key not in there]


def fill(cells: Sequence[Cell], filling: Filling) -> int:
    """Make the rows of `cells` that are missing, in their order, and give how many failed.

    A run that failed is one line, and the next begins; its row stays missing. Several processes may fill one
    record side by side: each run is made by one of them.
    """
    started, failed = time.monotonic(), 0
    for cell in missing(cells, filling.record):
        if filling.minutes is not None and time.monotonic() - started >= 60 * filling.minutes:
            print(f"{filling.minutes:g} minutes are over: the same command goes on with what is missing")
            break
        with _held(cell, filling.folder) as held:
            if held and missing([cell], filling.record):  # it may have been made meanwhile
                failed += not _add(cell, filling)
    return failed


@contextmanager
def _held(cell: Cell, folder: Path) -> Iterator[bool]:
    """Say whether this process may make the run, and keep others from it until it is made."""
    place = folder / "cells" / "_".join(cell.key).replace("+", "-")
    place.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            stack.enter_context(folder_lock(place))
        except InputError:
            print(f"{cell.name}: another process is at it", flush=True)
            yield False
            return
        yield True


def _add(cell: Cell, filling: Filling) -> bool:
    """Make a row and say whether that went well; an average whose runs are not all there is left for later."""
    if absent := missing(cell.members, filling.record):
        print(f"{cell.name}: waits for seed {', '.join(member.seed for member in absent)}")
        return True
    print(f"{cell.name}: {cell.command}", flush=True)
    try:
        row = _make(cell, filling)
    except (TrainingFailed, InputError) as error:
        print(f"failed: {cell.name}: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
        return False
    append(filling.record, row)
    print(f"  {_told(row)}", flush=True)
    return True


def _make(cell: Cell, filling: Filling) -> Record:
    members = cell.members
    runs = [train_in_child(each.words, filling.folder, filling.threads) for each in members or [cell]]
    if not members:
        return row_of(cell, read_json(runs[0].path / RESULT))
    from benchmarks.accuracy.ensemble import score_ensemble  # which imports Lightning

    return row_of(cell, score_ensemble(runs))


def _told(row: Record) -> str:
    ours, ridge = (f"MSE {float(row[f'{name}_mse']):.4f} MAE {float(row[f'{name}_mae']):.4f}" for name in WHOSE)
    return f"test {ours}; ridge {ridge}; {int(row['windows']):,} windows; {float(row['seconds']):,.0f} s of training"


WHOSE = ("test", "linear")
"""What the columns of the run's own scores begin with, and those of its ridge."""
