"""Run the missing rows of the accuracy record, or write its tables: `python -m benchmarks.accuracy`."""

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
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy",
        description="Run the missing rows of the record as sweeps, or write its tables into a Markdown file. Run the "
        "same command again to continue. Exit code 0: done; 1: a run failed, one line each; 2: input; 5: time limit.",
    )
    parser.add_argument("--record", type=Path, default=RECORD, help="the CSV file (%(default)s)")
    for name in FILTERS:
        parser.add_argument(
            f"--{name}", nargs="+", metavar="WORD", help=f"only rows with this {name}; * matches anything"
        )
    parser.add_argument("--dry-run", action="store_true", help="list the missing rows and their commands; run nothing")
    parser.add_argument("--minutes", type=float, help="time after which no run starts")
    parser.add_argument("--threads", type=int, help="threads of each run (default: torch's)")
    parser.add_argument("--output-dir", type=Path, help="folder of the runs (outputs/record)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the tables between their marks in this file")
    options = parser.parse_args(arguments)
    codes: list[int] = []
    return finish(lambda: codes.append(_run(options))) or codes[0]


def _run(options: argparse.Namespace) -> int:
    """Run or write; return the exit code."""
    if not options.record.parent.is_dir():
        raise InputError(
            f"{options.record.parent}: no such folder: run this in the checkout, or choose another --record"
        )
    if options.write is not None:
        return _write(options)
    for name in ("minutes", "threads"):
        if (value := getattr(options, name)) is not None and not value > 0:
            raise InputError(f"--{name} {value}: must be above 0")
    cells = _chosen(options)
    absent = missing(cells, options.record)
    print(f"{options.record}: {len(cells) - len(absent)} of {len(cells)} rows, {len(absent)} missing")
    if options.dry_run:
        for cell in absent:
            print(f"{cell.name}: {cell.command}")
        return 0
    folder = options.output_dir or Path("outputs/record")
    return fill(absent, Filling(options.record, folder, options.threads, options.minutes))


def _chosen(options: argparse.Namespace) -> list[Cell]:
    """Return the cells that pass all filters."""
    cells = all_cells()
    for name in FILTERS:
        words = getattr(options, name) or ["*"]
        known = list(dict.fromkeys(str(getattr(cell, name)) for cell in cells))
        for word in words:
            if not any(fnmatchcase(value, word) for value in known):
                raise InputError(f"--{name} {word}: no row has it: choose from {', '.join(known)}")
        cells = [cell for cell in cells if any(fnmatchcase(str(getattr(cell, name)), word) for word in words)]
    return cells


def _write(options: argparse.Namespace) -> int:
    if options.dry_run or any(getattr(options, name) for name in (*FILTERS, "minutes", "threads", "output_dir")):
        raise InputError("--write runs nothing and uses the whole record: combine it with --record only")
    if not (rows := read_record(options.record)):
        raise InputError(f"{options.record}: no run yet: leave out --write to make some")
    write_tables(options.write, rows)
    print(f"{options.write}: {len(rows)} rows of {options.record}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
