"""Forecast what follows a file: `python -m forecast.predict --run latest --input new.csv --output forecast.csv`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from forecast.cli import finish
from forecast.errors import InputError

if TYPE_CHECKING:
    from forecast.ensemble import Ensemble
    from forecast.forecaster import Forecaster

FORMATS = (".csv", ".parquet")


def main(arguments: Sequence[str] | None = None) -> int:
    """Forecast as the command line says; give the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m forecast.predict",
        description="Forecast the steps after a file's last row, dated and in original units, with a picture.",
    )
    parser.add_argument(
        "--run",
        action="append",
        default=[],
        help="folder of a finished run; latest, the default: the newest under outputs/. Several: the mean of "
        "their forecasts",
    )
    parser.add_argument(
        "--model",
        type=Path,
        help="a file that forecast.export wrote, in place of a run; with --run: it must be of that run. A .pt2 is a "
        "program: take it only from somebody you trust",
    )
    parser.add_argument("--input", required=True, type=Path, help="CSV or Parquet with the columns of training")
    parser.add_argument(
        "--output", default=Path("forecast.csv"), type=Path, help=".csv or .parquet; a .png goes beside"
    )
    options = parser.parse_args(arguments)
    return finish(lambda: predict(options.run, options.input, options.output, options.model))


def predict(runs: Sequence[str], source: Path, output: Path, model: Path | None = None) -> None:
    """Write the forecast of what follows `source` to `output`, and a picture beside it.

    Parameters
    ----------
    runs
        Run folders: the newest under outputs/ if there is none, the mean of their forecasts if there are several.

    Raises
    ------
    InputError
        If runs, model, input or output cannot be used; nothing is written then.
    """
    if output.suffix.lower() not in FORMATS:
        raise InputError(f"{output}: --output must end in {' or '.join(FORMATS)}")
    if not output.parent.is_dir():
        raise InputError(f"{output.parent}: no such folder: make it, or choose another --output")
    picture = output.with_suffix(".png")
    for path in (output, picture):
        if path.is_dir():
            raise InputError(f"{path}: is a folder: choose another --output")
    if output.exists() and source.exists() and output.samefile(source):
        raise InputError(f"{output}: --output is the file of --input: choose another")
    from forecast.files import replacing

    forecaster = _load(runs, model)
    series = forecaster.read(source)
    for note in series.notes:
        print(f"{source}: {note}")
    forecast = forecaster.predict(series)
    with replacing(output) as file:
        if output.suffix.lower() == ".csv":
            forecast.to_csv(file, lineterminator="\n")
        else:
            forecast.to_parquet(file)
    from forecast.picture import draw_forecast  # here, since the forecast need not wait for what draws it

    averaged = f", ensemble: the mean of {len(runs)} runs" if len(runs) > 1 else ""
    draw_forecast(
        picture,
        series.measured,
        forecast,
        title=f"{source.name}: {len(forecast)} steps from {forecast.index[0]}{averaged}",
    )
    print(f"{output}: {len(forecast)} steps, {forecast.index[0]} to {forecast.index[-1]}{averaged}; picture: {picture}")


def _load(runs: Sequence[str], model: Path | None) -> "Forecaster | Ensemble":
    from forecast.forecaster import Forecaster

    if len(runs) > 1:
        if model is not None:
            raise InputError(f"--model {model}: is of one run: give one --run, or leave out --model to average runs")
        from forecast.ensemble import Ensemble

        return Ensemble.load(runs)
    if model is not None:
        return Forecaster.load_exported(model, runs[0] if runs else None)
    return Forecaster.load(runs[0] if runs else "latest")


if __name__ == "__main__":
    sys.exit(main())
