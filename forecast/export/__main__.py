"""Write the model of a run as one file: `python -m forecast.export --run latest --output model.onnx`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from forecast.common.cli import finish
from forecast.common.errors import InputError, ParityError
from forecast.common.files import check_place, replacing

WINDOWS = 32
"""Number of windows on which a file is compared with its run before it is written."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m forecast.export",
        description="Write the model of a run, with scaling, as an ONNX or torch.export file; compare it with the run.",
    )
    parser.add_argument(
        "--run", default="latest", help="folder of a finished run (default: latest, the last one started in outputs/)"
    )
    parser.add_argument("--output", required=True, type=Path, help='.onnx (pip install -e ".[export]") or .pt2 file')
    parser.add_argument(
        "--input",
        type=Path,
        help="table to compare on (default: the data of the run; random rows if its file is not in data/)",
    )
    options = parser.parse_args(arguments)
    return finish(lambda: export(options.run, options.output, options.input))


def export(run: str, output: Path, source: Path | None = None) -> None:
    """Write the model of `run` to `output` after comparing its forecasts with those of the run, on `source` if given.

    Raises
    ------
    InputError
        If the run, `output` or `source` cannot be used. Nothing is written.
    ParityError
        If the forecasts of the file differ from those of the run. Nothing is written.
    """
    from forecast.predict.exported import FORMATS, WRITING, open_bytes, require

    if output.suffix not in FORMATS:
        raise InputError(f"{output}: --output must end in {' or '.join(FORMATS)}")
    check_place(output)
    require(output, WRITING)
    from forecast.export.formats import WRITERS, capture, facts_of
    from forecast.export.parity import BOUND, compared, largest_difference
    from forecast.model.original_units import OriginalUnits, ZScores
    from forecast.predict.ensemble import load_run
    from forecast.predict.facts import encoded
    from forecast.runs.results import start_name
    from forecast.runs.run import CALIBRATION, Architecture, Run

    folder = Run.open_and_say(run)
    forecaster = load_run(folder.path)
    assert isinstance(forecaster.model, OriginalUnits | ZScores)
    manifest = folder.manifest()
    windows, scale, origin = compared(folder, forecaster, source, WINDOWS)
    architecture = Architecture.from_dict(manifest["architecture"])
    captured = capture(forecaster.model, architecture, masked=forecaster.hides_steps)
    calibration = encoded((folder.path / CALIBRATION).read_bytes())
    facts = facts_of(manifest, captured.batch)
    content = WRITERS[output.suffix](captured, facts, calibration)
    exported = open_bytes(content, output)
    difference = largest_difference(forecaster.model, exported, windows, scale, captured.batch)
    result = f"{difference:.1e} standard deviations (bound {BOUND:.0e}) over {len(windows.past)} windows of {origin}"
    if not difference <= BOUND:
        raise ParityError(f"{output}: not written, its forecasts differ from those of {folder.path} by {result}")
    with replacing(output) as file:
        file.write(content)
    batch = "any batch size" if captured.batch is None else "batch size 1"
    is_one_series = isinstance(forecaster.model, OriginalUnits)
    units = "float64 values in original units" if is_one_series else "float32 z-scores of each series"
    print(f"{output}: {batch}, {units}; {len(content) / 1e6:.1f} MB")
    if start := facts["start_from"]:
        card = f"; pretrained on {start['pretrained_on']}" if start["pretrained_on"] else ""
        print(f"training began with {start_name(start)}{card}")
    print(f"largest difference from {folder.path}: {result}")


if __name__ == "__main__":
    sys.exit(main())
