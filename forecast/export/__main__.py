"""Write a run's model as one file for elsewhere: `python -m forecast.export --run latest --output model.onnx`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from forecast.common.cli import finish
from forecast.common.errors import InputError, ParityError
from forecast.common.files import check_place, replacing

WINDOWS = 32
"""Windows on which a file is compared with its run before it is written."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Export as the command line says; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m forecast.export",
        description="Write a run's model, scaling included, as ONNX or for torch.export, and compare it with the run.",
    )
    parser.add_argument(
        "--run", default="latest", help="folder of a finished run; latest: the one begun last under outputs/"
    )
    parser.add_argument("--output", required=True, type=Path, help='.onnx (pip install -e ".[export]") or .pt2')
    parser.add_argument("--input", type=Path, help="rows to compare on; those of the run's training if not given")
    options = parser.parse_args(arguments)
    return finish(lambda: export(options.run, options.output, options.input))


def export(run: str, output: Path, source: Path | None = None) -> None:
    """Write the model of `run` to `output`, after checking its forecasts against the run's, on `source` if given.

    Nothing is written on an `InputError`, or a `ParityError`: the file's forecasts would differ.
    """
    from forecast.predict.exported import FORMATS, WRITING, open_bytes, require

    if output.suffix not in FORMATS:
        raise InputError(f"{output}: --output must end in {' or '.join(FORMATS)}")
    check_place(output)
    require(output, WRITING)
    from forecast.export.formats import WRITERS, capture, facts_of
    from forecast.export.parity import BOUND, largest_difference, series_of, windows_of
    from forecast.model.original_units import OriginalUnits
    from forecast.predict.forecaster import Forecaster
    from forecast.runs.run import Architecture, Run

    folder = Run.open_and_say(run)
    forecaster = Forecaster.load(folder.path)
    assert isinstance(forecaster.model, OriginalUnits)
    manifest = folder.manifest()
    series, said = series_of(folder, forecaster, source)
    windows = windows_of(series, forecaster, WINDOWS)
    architecture = Architecture.from_dict(manifest["architecture"])
    captured = capture(forecaster.model, architecture, masked=forecaster.policies.masks_past)
    content = WRITERS[output.suffix](captured, facts_of(manifest, captured.batch))
    exported = open_bytes(content, output)
    difference = largest_difference(forecaster.model, exported, windows, forecaster.target_scale, captured.batch)
    found = f"{difference:.1e} of a training deviation over {len(windows.past)} windows of {said} (bound {BOUND:.0e})"
    if not difference <= BOUND:
        raise ParityError(f"{output}: not written, it differs from {folder.path} by {found}")
    with replacing(output) as file:
        file.write(content)
    taken = "any number of windows" if captured.batch is None else "one window"
    print(f"{output}: takes {taken} at a time, float64 values in original units; {len(content) / 1e6:.1f} MB")
    print(f"parity with {folder.path}: at most {found}")


if __name__ == "__main__":
    sys.exit(main())
