"""Fill and show the record of measured accuracy: `python -m benchmarks.accuracy`."""

import argparse
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from benchmarks.accuracy.fill import Filling, fill, missing
from benchmarks.accuracy.recipes import Cell, all_cells
from benchmarks.accuracy.record import read_record
from benchmarks.accuracy.tables import write_tables
from forecast.common.cli import finish
from forecast.common.errors import InputError

RECORD = Path("benchmarks/records/accuracy/results.csv")
FILTERS = ("dataset", "horizon", "attention", "seed", "recipe")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do as the command line says; return the exit code, 1 where a run failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy",
        description="Run what the record lacks, as sweeps, or write the README's tables from it. The same command "
        "goes on where it was ended. Exit code 0: done; 1: a run failed, each in a line of its own; 2: input.",
    )
    parser.add_argument("--record", type=Path, default=RECORD, help="the file (%(default)s)")
    for name in FILTERS:
        parser.add_argument(f"--{name}", nargs="+", metavar="WORD", help=f"only rows of such a {name}, * for anything")
    parser.add_argument("--dry-run", action="store_true", help="list what is missing, with its commands; run nothing")
    parser.add_argument("--minutes", type=float, help="begin no run after so many")
    parser.add_argument("--threads", type=int, help="of each run; left out: as many as torch takes")
    parser.add_argument("--output-dir", type=Path, help="of the runs (outputs/record)")
    parser.add_argument("--write", type=Path, metavar="README.md", help="put the tables between their marks in a file")
    options = parser.parse_args(arguments)
    done: list[bool] = []
    return finish(lambda: done.append(_run(options))) or int(not all(done))


def _run(options: argparse.Namespace) -> bool:
    """Return whether every run that was begun has a row."""
    if not options.record.parent.is_dir():
        raise InputError(f"{options.record.parent}: no such folder: run this in the checkout, or give another --record")
    if options.write is not None:
        return _write(options)
    for name in ("minutes", "threads"):
        if (value := getattr(options, name)) is not None and not value > 0:
            raise InputError(f"--{name} {value}: must be above 0")
    cells = _chosen(options)
    absent = missing(cells, options.record)
    print(f"{options.record}: has {len(cells) - len(absent)} of {len(cells)} rows, {len(absent)} are missing")
    if options.dry_run:
        for cell in absent:
            print(f"{cell.name}: {cell.command}")
        return True
    folder = options.output_dir or Path("outputs/record")
    return fill(absent, Filling(options.record, folder, options.threads, options.minutes))


def _chosen(options: argparse.Namespace) -> list[Cell]:
    """Return the cells that pass all filters, in their order."""
    cells = all_cells()
    for name in FILTERS:
        words = getattr(options, name) or ["*"]
        known = list(dict.fromkeys(str(getattr(cell, name)) for cell in cells))
        for word in words:
            if not any(fnmatchcase(value, word) for value in known):
                raise InputError(f"--{name} {word}: no such row, only of {', '.join(known)}")
        cells = [cell for cell in cells if any(fnmatchcase(str(getattr(cell, name)), word) for word in words)]
    return cells


def _write(options: argparse.Namespace) -> bool:
    if options.dry_run or any(getattr(options, name) for name in (*FILTERS, "minutes", "threads", "output_dir")):
        raise InputError("--write runs nothing and shows the whole record: give it --record alone")
    rows = read_record(options.record)
    write_tables(options.write, rows)
    print(f"{options.write}: {len(rows)} rows of {options.record}")
    return True


if __name__ == "__main__":
    sys.exit(main())
