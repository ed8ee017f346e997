"""Explain one forecast: `forecast explain --run latest --input my.csv`."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.common.files import PARQUET, TEXT, check_place

if TYPE_CHECKING:
    from forecast.predict.explanation import Explained


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m forecast.predict.explain",
        description="Say what each column, each part of the past and each known column contributed to one forecast: "
        "Shapley values, which sum to the forecast minus a reference, the forecast from a flat past.",
    )
    parser.add_argument("--run", default="latest", help="folder of a finished run or ensemble (default: latest)")
    parser.add_argument("--input", required=True, type=Path, help="CSV or Parquet file with the columns of training")
    parser.add_argument(
        "--known", action="append", default=[], type=Path, help="file with known covariates of the horizon"
    )
    parser.add_argument("--target", metavar="column", help="column whose forecast is explained (default: the first)")
    parser.add_argument("--ids", nargs="+", default=[], metavar="ID", help="the series of a long table")
    parser.add_argument(
        "--output",
        default=Path("explain.csv"),
        type=Path,
        help=".csv or .parquet file (default: explain.csv); a picture (.png) is written next to it",
    )
    options = parser.parse_args(arguments)
    return finish(
        lambda: explain(options.run, options.input, options.output, options.target, options.known, options.ids)
    )


def explain(
    run: str,
    source: Path,
    output: Path,
    target: str | None = None,
    known: Sequence[Path] = (),
    ids: Sequence[str] = (),
) -> None:
    """Write the contributions to the forecast of the steps after `source`, draw them, and print the largest."""
    if output.suffix.lower() not in (TEXT, PARQUET[0]):
        raise InputError(f"{output}: --output must end in {TEXT} or {PARQUET[0]}")
    picture = output.with_suffix(".png")
    check_place(output, picture)
    for path in (source, *known):
        if not path.exists():
            raise InputError(f"{path}: no such file: check the path")
        if output.exists() and output.samefile(path):
            raise InputError(f"{output}: --output and --input are the same file: choose another output")
    from forecast.predict.explanation import draw, lines
    from forecast.runs.run import check_not_of_a_run
    from forecast.tables.writing import write_table

    check_not_of_a_run(output, picture)
    explained = _explained(run, source, known, ids)
    table = explained.table(target)
    write_table(output, table, index=False)
    name = explained.contract.targets[0] if target is None else target
    draw(picture, table, f"{source.name}: {name}")
    print(*lines(table, name), sep="\n")
    print(f"{shlex.quote(str(output))}; picture: {shlex.quote(str(picture))}")


def _explained(run: str, source: Path, known: Sequence[Path], ids: Sequence[str]) -> "Explained":
    from forecast.predict.ensemble import load
    from forecast.predict.input import ids_of
    from forecast.predict.panel import PanelForecaster
    from forecast.runs.run import Run

    model = load(Run.open_and_say(run).path if run == "latest" else run)
    if isinstance(model, PanelForecaster):
        series = model.read(source, known, ids)
        for line in ids_of(series).left_out:
            print(f"{source}: {line}")
        return model.explained(series)
    if ids:
        raise InputError("--ids: the model has one series: leave it out")
    return model.explained(model.read(source, known))


if __name__ == "__main__":
    sys.exit(main())
