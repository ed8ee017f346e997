"""Forecast the steps after a table: `python -m forecast.predict --run latest --input new.csv --output next.csv`."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.common.files import check_place, replacing, sha256

if TYPE_CHECKING:
    from forecast.predict.ensemble import Ensemble
    from forecast.predict.forecast import Question
    from forecast.predict.forecaster import Forecaster
    from forecast.predict.known import MissingKnown
    from forecast.predict.output import Outcome
    from forecast.predict.panel import PanelForecaster
    from forecast.tables.series import Series

PRETRAINED = "pretrained"
"""The name of the network of the package, as a run."""

COLUMNS_SHOWN = 12
"""Largest number of column names in a message."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m forecast.predict",
        description="Forecast the steps after the last row of a table, with dates, in original units; draw a picture.",
    )
    parser.add_argument(
        "--run",
        action="append",
        default=[],
        help="folder of a finished run (default: latest, the finished run under outputs/ that started last); give it "
        "several times for the mean of the forecasts; pretrained: the network of the package, without a training",
    )
    parser.add_argument(
        "--model",
        type=Path,
        help="file written by forecast.export, used instead of a run; with --run, it must be exported from that run. A "
        ".pt2 file is a program: use it only from a source that you trust",
    )
    parser.add_argument(
        "--input",
        required=True,
        type=Path,
        help="file with the columns of training: CSV, a workbook, Parquet, Feather or Arrow; or a folder of Parquet "
        "files of many series, forecast in blocks to a folder --output",
    )
    parser.add_argument(
        "--known",
        action="append",
        default=[],
        type=Path,
        help="file with known covariates of the horizon; without it, they are read from the rows of "
        "--input after the last target value; of several files, the first with a value counts",
    )
    parser.add_argument(
        "--output",
        default=Path("forecast.csv"),
        type=Path,
        help=".csv, .xlsx, .parquet, .feather or .arrow file (default: forecast.csv); a picture (.png) and a "
        "description (.json) are written next to it",
    )
    parser.add_argument(
        "--horizon", type=int, help="with --run pretrained: number of steps (default: follows from the table)"
    )
    _add_intervals(parser)
    _add_engine(parser)
    parser.add_argument(
        "--ids", nargs="+", default=[], metavar="ID", help="series of a long table to forecast (default: all)"
    )
    parser.add_argument("--picture", metavar="NAME=ID", help="series of a long table to draw (default: nine)")
    parser.add_argument(
        "--attention", help="use the weights with another self-attention, such as full or probsparse:factor=9"
    )
    return parser


def _add_engine(parser: argparse.ArgumentParser) -> None:
    """Add the options on the processes that forecast a folder."""
    parser.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="of a folder: local forecasts one block after the other, ray several side by side (default: local)",
    )
    parser.add_argument("--workers", type=int, help="processes of --engine ray, one CPU each (default: all CPUs)")
    parser.add_argument("--address", help="running cluster for --engine ray (default: one on this machine)")


def _add_intervals(parser: argparse.ArgumentParser) -> None:
    """Add the options on intervals, quantiles and layout."""
    parser.add_argument(
        "--levels",
        nargs="+",
        default=[],
        type=float,
        metavar="PERCENT",
        help="central intervals, such as 80 95: the ends of each are columns of the table",
    )
    values = parser.add_mutually_exclusive_group()
    values.add_argument("--quantile", type=float, help="forecast this quantile, such as 0.9, not the point forecast")
    values.add_argument(
        "--cost",
        nargs=2,
        metavar=("over=A", "under=B"),
        help="forecast the quantile that is cheapest if a unit too high costs A and a unit too low costs B",
    )
    parser.add_argument(
        "--adaptive",
        action="store_true",
        help="refuse an input without enough rows for intervals that follow the errors of earlier forecasts; "
        "intervals of a long table follow them with this word alone",
    )
    parser.add_argument(
        "--beyond-training",
        action="store_true",
        help="accept known covariates more than ten widths of the range of training from its middle",
    )
    parser.add_argument(
        "--layout",
        choices=("wide", "long"),
        default="wide",
        help="wide: a row per date, columns load, load_lower_80, …; long: a row per date and series (default: wide)",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    options = _parser().parse_args(arguments)
    asked = Asked(
        tuple(options.levels),
        options.quantile,
        options.cost,
        options.adaptive,
        options.layout,
        options.beyond_training,
        tuple(options.ids),
        options.picture,
        options.horizon,
    )
    in_blocks = options.input.is_dir() and not options.output.suffix
    if in_blocks or options.engine != "local" or options.workers is not None or options.address:
        return finish(lambda: _predict_folder(options, asked))
    return finish(
        lambda: predict(
            options.run,
            options.input,
            options.output,
            options.model,
            options.attention,
            known=options.known,
            asked=asked,
        )
    )


@dataclass(frozen=True)
class Asked:
    """The options on intervals, quantiles and layout, as typed."""

    levels: tuple[float, ...] = ()
    quantile: float | None = None
    cost: Sequence[str] | None = None
    adaptive: bool = False
    layout: str = "wide"
    beyond_training: bool = False
    ids: tuple[str, ...] = ()
    picture: str | None = None
    horizon: int | None = None

    def question(self) -> "Question":
        """Return the question to the model; raise InputError if an option is out of range."""
        from forecast.predict.forecast import Question, cheapest_quantile
        from forecast.predict.output import parse_cost

        quantile = self.quantile if self.cost is None else cheapest_quantile(*parse_cost(self.cost))
        return Question(self.levels, quantile, self.adaptive, self.beyond_training)


def predict(
    runs: Sequence[str],
    source: Path,
    output: Path,
    model: Path | None = None,
    attention: str | None = None,
    *,
    known: Sequence[Path] = (),
    asked: Asked | None = None,
) -> None:
    """Write the forecast of the steps after `source` to `output`, with a picture and a description next to it.

    `runs` are run folders, by default the latest under outputs/; several give the mean of their forecasts. `attention`
    replaces the self-attention of training. `known` are tables with known covariates of the horizon. If some are
    missing, a template of the missing rows is written next to `output`. `asked` are the options on intervals.
    """
    from forecast.tables.writing import check_output

    check_output(output)
    picture, sidecar = output.with_suffix(".png"), output.with_suffix(".json")
    check_place(output, picture, sidecar)
    for option, path in (("--input", source), *(("--known", path) for path in known)):
        if any(other.exists() and path.exists() and other.samefile(path) for other in (output, picture, sidecar)):
            raise InputError(f"{output}: --output and {option} are the same file: choose another output")
        if not path.exists():  # before the seconds that torch takes to import
            raise InputError(f"{path}: no such file: check the path")
    from forecast.predict.known import MissingKnown
    from forecast.predict.output import Outcome
    from forecast.predict.panel import PanelForecaster
    from forecast.runs.ensemble import with_members
    from forecast.runs.run import check_not_of_a_run

    check_not_of_a_run(output, picture, sidecar)
    asked = Asked() if asked is None else asked
    question = asked.question()
    if list(runs) == [PRETRAINED]:
        _predict_untrained(source, output, known, model, attention, asked)
        return
    if asked.horizon is not None:
        raise InputError(
            f"--horizon {asked.horizon}: a trained model has its own: leave it out, or use --run pretrained"
        )
    runs = [str(path) for path in with_members(runs)]
    if not runs and model is None:
        runs = ["latest"]
    forecaster = _load(runs, model, attention)
    if isinstance(forecaster, PanelForecaster):
        _predict_panel(forecaster, source, output, known, asked)
        return
    if asked.ids or asked.picture is not None:
        raise InputError("--ids and --picture: the model has one series: leave them out")
    forecaster.check_question(question)
    if attention is not None:
        _announce(forecaster.path, attention)
    hashes = _hashes(source, *known)
    series = _read(forecaster, source, known, chosen=model is None and list(runs) == ["latest"])
    _print_notes(source, series)
    try:
        forecast = forecaster.answer(series, question)
    except MissingKnown as error:
        raise InputError(_with_template(error, output, [source, *known])) from None
    outcome = Outcome(forecaster, series, source, known, question, forecast, forecaster.warnings(series), hashes)
    outcome.write(output, asked.layout)
    _report(outcome, output, picture, asked.layout, f", ensemble mean of {len(runs)} runs" if len(runs) > 1 else "")


def _predict_folder(options: argparse.Namespace, asked: Asked) -> None:
    """Write the forecasts of all series in a folder of Parquet files to the folder `--output`."""
    source, output = options.input, options.output
    if not source.is_dir():
        raise InputError(f"--engine, --workers and --address: {source} is no folder: name one, or leave them out")
    single = {"model": options.model, "known": options.known, "ids": asked.ids, "picture": asked.picture}
    single |= {"attention": options.attention, "adaptive": asked.adaptive, "layout": asked.layout != "wide"}
    if given := [name for name, value in single.items() if value]:
        raise InputError(f"--{given[0]}: does not apply to a folder of series ({source}): leave it out")
    if len(options.run) > 1:
        raise InputError(f"--run: {len(options.run)} runs, but the series of a folder are forecast by one: name one")
    if options.engine == "local" and (options.workers is not None or options.address):
        raise InputError("--workers and --address: apply to --engine ray: add it, or leave them out")
    if options.workers is not None and options.workers < 1:
        raise InputError(f"--workers {options.workers}: must be at least 1")
    if output.suffix or (output.exists() and not output.is_dir()):
        raise InputError(f"{output}: the forecasts of a folder go to a folder: name one with --output")
    if source.resolve() in (output.resolve(), *output.resolve().parents):
        raise InputError(f"{output}: --output is in the folder --input: choose another output")
    from forecast.predict.blocks import Blocks
    from forecast.runs.run import Run

    run = Run.open_and_say(*(options.run or ["latest"])).path.absolute()
    blocks = Blocks(str(run), str(source.absolute()), str(output.absolute()), asked.question())
    series, files, now, left_out = blocks.forecast(options.engine, options.workers, options.address)
    earlier = f", {files - now:,} of them from earlier" if now < files else ""
    if left_out is not None:
        print(f"{source}: {left_out}")
    print(f"{output}: {series:,} series in {files:,} files{earlier}")


def _predict_untrained(
    source: Path, output: Path, known: Sequence[Path], model: Path | None, attention: str | None, asked: Asked
) -> None:
    """Write the forecast of the pretrained network for a table that it was not trained on."""
    from forecast.overview.understanding import understand
    from forecast.predict.zero_shot import forecast_without_training
    from forecast.predict.zero_shot_output import ZeroShotOutcome

    given = {
        "--known": known,
        "--model": model,
        "--attention": attention,
        "--ids": asked.ids,
        "--picture": asked.picture,
        "--adaptive": asked.adaptive,
        "--beyond-training": asked.beyond_training,
    }
    if wrong := [name for name, value in given.items() if value]:
        raise InputError(f"{wrong[0]}: not with --run {PRETRAINED}, which reads the past of each column: leave it out")
    question, hashes = asked.question(), _hashes(source)
    seen = understand(source)
    for word in seen.words:
        print(f"{source}: read with {word}")
    _print_notes(source, seen.series)
    found = forecast_without_training(seen, asked.horizon, question)
    ZeroShotOutcome(found, source, question, hashes).write(output, asked.layout)


def _hashes(*paths: Path) -> dict[Path, str]:
    """Return the SHA-256 of the files, before they are read: a file may grow."""
    return {path: sha256(path) for path in paths if path.is_file()}


def _print_notes(source: Path, series: "Series") -> None:
    """Print the changes to the input and to the tables of known covariates."""
    for name, notes in ((source, series.notes), *((table.source, table.notes) for table in series.ahead)):
        for note in notes:
            print(f"{name}: {note}")


def _predict_panel(
    forecaster: "PanelForecaster", source: Path, output: Path, known: Sequence[Path], asked: Asked
) -> None:
    """Write the forecasts of all series of a long table, with a sheet of nine and a description next to them."""
    from forecast.predict.facts import starts_line
    from forecast.predict.known import MissingKnown
    from forecast.predict.panel_output import PanelOutcome

    if asked.layout != "wide":
        raise InputError(f"--layout {asked.layout}: the forecast of a long table has a column per target: leave it out")
    question = asked.question()
    forecaster.check_question(question)
    if forecaster.attention is not None:
        _announce(forecaster.path, forecaster.attention)
    hashes = _hashes(source, *known)
    series = forecaster.read(source, known, asked.ids)
    _print_notes(source, series)
    try:
        kept, forecast = forecaster.answered(series, question, asked.ids)
    except MissingKnown as error:
        raise InputError(_with_template(error, output, [source, *known])) from None
    for note in kept.notes[len(series.notes) :]:
        print(f"{source}: {note}")
    outcome = PanelOutcome(forecaster, kept, source, known, question, forecast, hashes)
    drawn = None if asked.picture is None else outcome.place_of(asked.picture)
    outcome.write(output)
    picture = output.with_suffix(".png")
    outcome.draw(picture, drawn)
    outcome.complete(output, picture)
    first, count = min(dates[0] for dates in forecast.dates), len(forecaster.members)
    mean = f", ensemble mean of {count} runs" if count > 1 else ""
    steps = f"{len(forecast.ids):,} series of {forecaster.horizon} steps, from {first} on"
    print(f"{output}: {steps}{mean}; picture: {picture}")
    starts = starts_line([member.facts for member in forecaster.members])
    _print_lines(outcome.warnings, starts, outcome.interval_line(), outcome.ended_earlier())


def _report(outcome: "Outcome", output: Path, picture: Path, layout: str, ensemble: str) -> None:
    """Draw the picture, and print what was written, the intervals and the warnings."""
    from forecast.common.pictures import draw_forecast, not_drawn  # imported here: the forecast is written first
    from forecast.predict.output import value_name

    values = outcome.forecast.values
    quantile = "" if outcome.question.quantile is None else f", {value_name(outcome.question)}"
    draw_forecast(
        picture,
        outcome.series.measured,
        values,
        title=f"{outcome.source.name}: {len(values)} steps from {values.index[0]}{quantile}{ensemble}",
        ends=outcome.forecast.ends,
        naive=outcome.naive,
    )
    outcome.complete(output, layout, picture)
    steps = f"{len(values)} steps, {values.index[0]} to {values.index[-1]}"
    print(f"{output}: {steps}{quantile}{ensemble}; picture: {picture}")
    drawn = not_drawn(picture, list(values.columns))
    _print_lines(outcome.warnings, outcome.starts_line(), outcome.interval_line(), drawn)


def _print_lines(warnings: Sequence[str], *lines: str | None) -> None:
    """Print the lines that are not None, then the warnings."""
    for text in (*filter(None, lines), *(f"WARNING: {warning}" for warning in warnings)):
        print(text)


def _load(runs: Sequence[str], model: Path | None, attention: str | None) -> "Forecaster | Ensemble | PanelForecaster":
    from forecast.predict.ensemble import load_exported, load_run, mean_of_runs
    from forecast.runs.run import Run

    if model is not None and attention is not None:
        raise InputError(
            f"--attention {attention}: the attention of an exported file is fixed: give --run instead of --model"
        )
    if len(runs) > 1:
        if model is not None:
            raise InputError(f"--model {model}: belongs to one run: give one --run, or leave out --model")
        if attention is not None:
            raise InputError(f"--attention {attention}: needs one run: give one --run, or leave out --attention")
        return mean_of_runs([Run.open_and_say(run).path for run in runs])
    if model is not None:
        return load_exported(model, runs[0] if runs else None)
    return load_run(Run.open_and_say(runs[0]).path, attention)


def _with_template(error: "MissingKnown", output: Path, inputs: Sequence[Path]) -> str:
    """Write the template of missing known covariates next to the output, and return the message that names it.

    A file of this name with another content, such as a template that was filled in, is not overwritten.
    """
    from forecast.common.spreadsheet import write_frame

    template = output.with_name(f"{output.stem}-known.csv")
    if template.exists() and any(template.samefile(path) for path in inputs):
        return str(error)  # the file that lacks them is an earlier template
    content = BytesIO()
    write_frame(content, error.template)
    option = f"--known {shlex.quote(str(template))}"
    if template.exists() and (not template.is_file() or template.read_bytes() != content.getvalue()):
        return f"{error}; {template} exists and is unchanged: add {option}, or remove it to get a new template"
    with replacing(template) as file:
        file.write(content.getvalue())
    return f"{error}, or fill in {template}, which has these rows, and add {option}"


def _read(forecaster: "Forecaster | Ensemble", source: Path, known: Sequence[Path], *, chosen: bool) -> "Series":
    """Read the input. If columns are missing and the program chose the run, add its training file to the error."""
    from forecast.predict.forecaster import Forecaster
    from forecast.predict.input import MissingColumns

    try:
        return forecaster.read(source, known)
    except MissingColumns as error:
        if not chosen or not isinstance(forecaster, Forecaster):
            raise
        trained = f"the latest run, {forecaster.path}, was trained on {_file_of(forecaster)}"
        columns = ", ".join(forecaster.columns[:COLUMNS_SHOWN])
        raise InputError(f"{error}; {trained} (columns {columns}): name another run with --run") from None


def _file_of(forecaster: "Forecaster") -> str:
    """Return the name of the file or data set of a run's training."""
    from forecast.common.files import read_json
    from forecast.runs.run import RESULT

    data = read_json(forecaster.path / RESULT)["data"]
    return str(data["name"] if data["path"] is None else Path(data["path"]).name)


def _announce(path: Path | None, attention: str) -> None:
    """Print a line about the attention that replaces that of training."""
    from forecast.predict.transplanted import trained_attention
    from forecast.runs.run import Run

    assert path is not None
    run = Run(path)
    unchanged = (
        "; the forecast does not change: it is the linear path alone" if run.load_model().mixing_weight == 0 else ""
    )
    print(f"attention: {attention} instead of {trained_attention(run)}, used to train {run.path}{unchanged}")


if __name__ == "__main__":
    sys.exit(main())
