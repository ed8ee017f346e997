"""Score a run under other mechanisms or look-backs: `python -m forecast.predict.transplant --run latest`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.common.files import check_place
from forecast.common.options import positive
from forecast.runs.run import TRANSPLANT


def main(arguments: Sequence[str] | None = None) -> int:
    """Score as the command line says; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m forecast.predict.transplant",
        description="Score a run's weights on its test windows under other self-attention and at other look-backs.",
    )
    add = parser.add_argument
    add("--run", default="latest", help="folder of a finished run; latest: the one begun last under outputs/")
    add("--attention", nargs="+", default=[], help="words such as full, or probsparse:factor=9")
    add("--context-length", nargs="+", type=positive, default=[], help="look-backs, in steps")
    add("--data", type=Path, help="the file of the run's training, where it is not in data/ or FORECAST_DATA_DIR")
    add("--output", type=Path, help=f"a file for the scores, as JSON; {TRANSPLANT} in the run folder if not given")
    add("--quiet", action="store_true", help="no progress")
    options = parser.parse_args(arguments)
    return finish(lambda: score_transplants(options))


def score_transplants(options: argparse.Namespace) -> None:
    """Score a run as trained and in every combination of the attentions and look-backs; print and write.

    `scored` in the file lists `forecast.predict.transplanted.Scored` entries, the run as trained first.
    """
    if not options.attention and not options.context_length:
        raise InputError("--attention, --context-length: give at least one of them: what the run is to be scored under")
    if options.output is not None:
        check_place(options.output)
    from dataclasses import asdict

    from rich.console import Console

    from forecast.common.files import write_sealed
    from forecast.common.tables import WIDTH, show
    from forecast.predict.transplanted import score_all, table_of
    from forecast.runs.run import Run

    folder = Run.open_and_say(options.run)
    scored = score_all(folder, options.attention, options.context_length, file=options.data, quiet=options.quiet)
    show(Console(width=max(Console().width, WIDTH)), [table_of(folder, scored)])
    path = folder.path / TRANSPLANT if options.output is None else options.output
    write_sealed(path, {"scored": [asdict(each) for each in scored]})
    print(f"{path}: the scores, as JSON")


if __name__ == "__main__":
    sys.exit(main())
