"""Forecast the steps after a file: `python -m forecast.predict --run latest --input new.csv --output forecast.csv`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.common.files import check_place, replacing

if TYPE_CHECKING:
    from forecast.data.series import Series
    from forecast.predict.ensemble import Ensemble
    from forecast.predict.forecaster import Forecaster
    from forecast.runs.run import Run

FORMATS = (".csv", ".parquet")

COLUMNS_SHOWN = 12
"""Most column names in a message."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Forecast as the command line says; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m forecast.predict",
        description="Forecast the steps after a file's last row, dated and in original units, with a picture.",
    )
    parser.add_argument(
        "--run",
        action="append",
        default=[],
        help="folder of a finished run; latest, the default: the one begun last under outputs/. Several: the mean of "
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
    parser.add_argument(
        "--attention", help="run the weights under another self-attention, such as full or probsparse:factor=9"
    )
    options = parser.parse_args(arguments)
    return finish(lambda: predict(options.run, options.input, options.output, options.model, options.attention))


def predict(
    runs: Sequence[str], source: Path, output: Path, model: Path | None = None, attention: str | None = None
) -> None:
    """Write the forecast that follows `source` to `output`, and a picture beside it.

    `runs` are folders: without one, the newest under outputs/; of several, the mean of their forecasts. `attention` is
    another self-attention than that of training.
    """
    if output.suffix.lower() not in FORMATS:
        raise InputError(f"{output}: --output must end in {' or '.join(FORMATS)}")
    picture = output.with_suffix(".png")
    check_place(output, picture)
    if output.exists() and source.exists() and output.samefile(source):
        raise InputError(f"{output}: --output is the file of --input: choose another")
    from forecast.common.spreadsheet import write_frame  # here, since it reads pandas

    if not runs and model is None:
        runs = ["latest"]
    forecaster = _load(runs, model, attention)
    series = _read(forecaster, source, chosen=list(runs) == ["latest"])
    for note in series.notes:
        print(f"{source}: {note}")
    forecast = forecaster.predict(series)
    with replacing(output) as file:
        if output.suffix.lower() == ".csv":
            write_frame(file, forecast)
        else:
            forecast.to_parquet(file)
    from forecast.common.pictures import (  # here, since the forecast need not wait for what draws it
        draw_forecast,
        not_drawn,
    )

    averaged = f", ensemble: the mean of {len(runs)} runs" if len(runs) > 1 else ""
    draw_forecast(
        picture,
        series.measured,
        forecast,
        title=f"{source.name}: {len(forecast)} steps from {forecast.index[0]}{averaged}",
    )
    print(f"{output}: {len(forecast)} steps, {forecast.index[0]} to {forecast.index[-1]}{averaged}; picture: {picture}")
    if text := not_drawn(picture, list(forecast.columns)):
        print(text)


def _load(runs: Sequence[str], model: Path | None, attention: str | None) -> "Forecaster | Ensemble":
    from forecast.predict.forecaster import Forecaster
    from forecast.runs.run import Run

    if model is not None and attention is not None:
        raise InputError(
            f"--attention {attention}: an exported file has its attention built in: give --run in its place"
        )
    if len(runs) > 1:
        if model is not None:
            raise InputError(f"--model {model}: is of one run: give one --run, or leave out --model to average runs")
        if attention is not None:
            raise InputError(
                f"--attention {attention}: is for one run: give one --run, or leave it out to average runs"
            )
        from forecast.predict.ensemble import Ensemble

        return Ensemble.load([Run.open_and_say(run).path for run in runs])
    if model is not None:
        return Forecaster.load_exported(model, runs[0] if runs else None)
    folder = Run.open_and_say(runs[0])
    return Forecaster.load(folder.path) if attention is None else _transplanted(folder, attention)


def _read(forecaster: "Forecaster | Ensemble", source: Path, *, chosen: bool) -> "Series":
    """Read the input; if the program chose the run and columns are missing, add its training file to the error."""
    from forecast.predict.forecaster import Forecaster
    from forecast.predict.input import OtherColumns

    try:
        return forecaster.read(source)
    except OtherColumns as error:
        if not chosen or not isinstance(forecaster, Forecaster):
            raise
        trained = f"the run begun last, {forecaster.path}, was trained on {_file_of(forecaster)}"
        columns = ", ".join(forecaster.columns[:COLUMNS_SHOWN])
        raise InputError(f"{error}; {trained} (columns {columns}): name another run with --run") from None


def _file_of(forecaster: "Forecaster") -> str:
    """Return the name of the file or data set that a run was trained on."""
    from forecast.common.files import read_json
    from forecast.runs.run import RESULT

    assert forecaster.path is not None
    data = read_json(forecaster.path / RESULT)["data"]
    return str(data["name"] if data["path"] is None else Path(data["path"]).name)


def _transplanted(folder: "Run", attention: str) -> "Forecaster":
    """Return the forecaster of a run under another attention, and print a line about it."""
    from forecast.predict.forecaster import Forecaster
    from forecast.predict.transplanted import trained_attention

    forecaster = Forecaster.load(folder.path, attention)
    alike = ": the forecast is the linear path's alone, and stays as it is" if folder.load_model().share == 0 else ""
    print(
        f"attention: {attention}, in place of {trained_attention(folder)}, which {folder.path} was trained with{alike}"
    )
    return forecaster


if __name__ == "__main__":
    sys.exit(main())
