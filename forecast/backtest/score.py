"""Score a forecast that was made earlier: `forecast score --forecast forecast.csv --truth later.csv`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.common.files import PARQUET, TEXT, check_place

if TYPE_CHECKING:
    import pandas as pd


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m forecast.backtest.score",
        description="Compare a forecast that was made earlier with what came: its error beside the naive forecast, the "
        "coverage of its intervals, and whether the error grows along the horizon.",
    )
    parser.add_argument(
        "--forecast", required=True, type=Path, metavar="file", help="a table that forecast predict wrote"
    )
    parser.add_argument(
        "--truth", required=True, type=Path, metavar="file", help="a table with the values that came, as for a training"
    )
    parser.add_argument(
        "--mark",
        type=Path,
        metavar="file",
        help=".csv or .parquet file to write: each row with its truth, and where it is outside an interval",
    )
    options = parser.parse_args(arguments)
    return finish(lambda: score(options.forecast, options.truth, options.mark))


def score(forecast: Path, truth: Path, mark: Path | None = None) -> None:
    """Print how a forecast did, and write its rows with their truth to `mark`."""
    for path in (forecast, truth):
        if not path.exists():
            raise InputError(f"{path}: no such file: check the path")
    if mark is not None:
        if mark.suffix.lower() not in (TEXT, PARQUET[0]):
            raise InputError(f"{mark}: --mark must end in {TEXT} or {PARQUET[0]}")
        check_place(mark)
        if any(mark.exists() and mark.samefile(path) for path in (forecast, truth)):
            raise InputError(f"{mark}: --mark would replace an input: choose another file")
    from forecast.backtest.later import came, lines, marked, read_forecast
    from forecast.backtest.scores import Errors, levels_of

    earlier = read_forecast(forecast)
    if mark is not None and not levels_of(earlier.rows):
        raise InputError(f"{forecast}: has no intervals to mark by: forecast with --levels 80, or leave out --mark")
    table = came(earlier, truth)
    for line in lines(Errors.of(table), table):
        print(line)
    if mark is not None:
        _write(mark, marked(table))


def _write(path: Path, table: "pd.DataFrame") -> None:
    """Write the marked rows, and print how many are outside their intervals."""
    from forecast.tables.writing import write_table

    write_table(path, table, index=False)
    outside = [
        f"{int((table[name] != '').sum()):,} outside their {str(name).removeprefix('outside_')} % interval"
        for name in table
        if str(name).startswith("outside_")
    ]
    print(f"{path}: {len(table):,} rows, {', '.join(outside)}")


if __name__ == "__main__":
    sys.exit(main())
