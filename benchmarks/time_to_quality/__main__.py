"""Minutes until our validation error is that of a finished model of `neuralforecast`.

`python -m benchmarks.time_to_quality --python peer/bin/python` trains both on the same rows, one after the other, each
for at most 30 minutes, and scores the same windows. The peer needs an environment of its own:
`python -m venv peer && peer/bin/pip install neuralforecast==3.3.0 torch==2.13.0`. Minutes count from the start of the
command, imports included. Run it again to continue: a contest with a row of at least these minutes is not held again.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from benchmarks.published.record import add_row, read_rows
from benchmarks.time_to_quality.contests import CAP, CONTESTS, row_of
from forecast.common.cli import finish, positive
from forecast.common.errors import InputError
from forecast.common.tables import table, write_between

RECORD = Path("benchmarks/records/peers/time_to_quality.csv")
FOLDER = Path("outputs/time_to_quality")

BEGIN = (
    "<!-- time to quality: written by python -m benchmarks.time_to_quality --write docs/measurements/published.md -->"
)
END = "<!-- /time to quality -->"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.time_to_quality",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--python", help="interpreter of the peer's environment")
    parser.add_argument("--contests", nargs="+", choices=list(CONTESTS), default=list(CONTESTS))
    parser.add_argument("--minutes", type=positive, default=CAP, help="most minutes of a training (%(default)g)")
    parser.add_argument("--record", type=Path, default=RECORD, help="file of the rows (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the runs (default: %(default)s)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table between its marks in this file")
    options = parser.parse_args(arguments)
    return finish(lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    if options.write is not None:
        if (rows := read_rows(options.record)).empty:
            raise InputError(f"{options.record}: no contest yet: hold some with --python")
        write_between(options.write, BEGIN, END, summary(rows))
        return
    if options.python is None:
        raise InputError("--python is missing: name the interpreter of the peer's environment")
    python = Path(options.python).absolute()  # not resolved: a link of an environment leads out of it
    if not python.is_file():
        raise InputError(f"--python {options.python}: no such file: name the interpreter of the peer's environment")
    for name in options.contests:
        rows = read_rows(options.record, "contest", "most_minutes")
        if ((rows["contest"] == name) & (rows["most_minutes"] >= options.minutes)).any():
            print(f"{name}: the record has it")
            continue
        row = row_of(name, str(python), options.folder / name, options.minutes)
        add_row(options.record, row)
        print(f"{name}: done", flush=True)
    print(summary(read_rows(options.record)))


def summary(rows: pd.DataFrame) -> str:
    """Return the table of the longest of each contest: their minutes and error, and our minutes until we had it."""
    cells = []
    longest = rows.loc[rows.groupby("contest", sort=False)["most_minutes"].idxmax()]
    for row in longest.to_dict("records"):
        reached = row["minutes_to_their_mae"]
        until = "not reached" if pd.isna(reached) else f"{reached:.1f}"
        errors = [f"{row[key]:.4f}" for key in ("their_mae", "our_mae")]
        theirs = [f"{row['their_minutes']:.1f}", f"{row['their_steps']:,}"]
        cells.append([row["contest"], *theirs, until, f"{row['our_minutes']:.1f}", *errors])
    headings = (
        "contest",
        "minutes of the peer",
        "its steps",
        "ours until its MAE",
        "our minutes in all",
        "MAE of the peer",
    )
    return table((*headings, "our MAE"), cells)


if __name__ == "__main__":
    sys.exit(main())
