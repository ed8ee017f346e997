"""Score a run with other attention or look-backs: `python -m forecast.predict.transplant --run latest`."""

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
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m forecast.predict.transplant",
        description="Score the weights of a run on its test windows with other self-attention or look-backs.",
    )
    add = parser.add_argument
    add("--run", default="latest", help="folder of a finished run (default: the last one started)")
    add("--attention", nargs="+", default=[], help="mechanisms, such as full or probsparse:factor=9")
    add("--context-length", nargs="+", type=positive, default=[], help="look-backs, in steps")
    add("--data", type=Path, help="data file of the run, if it is not in data/ or FORECAST_DATA_DIR")
    add("--output", type=Path, help=f"JSON file for the scores (default: {TRANSPLANT} in the run folder)")
    add("--quiet", action="store_true", help="show no progress")
    options = parser.parse_args(arguments)
    return finish(lambda: score_transplants(options))


def score_transplants(options: argparse.Namespace) -> None:
    """Score a run as trained and with every combination of attention and look-back; print and write the scores.

    `scored` in the file is a list of `forecast.predict.transplanted.Scored`, the run as trained first.
    """
    if not options.attention and not options.context_length:
        raise InputError("--attention, --context-length: give at least one of them")
    if options.output is not None:
        check_place(options.output)
    from dataclasses import asdict

    from rich.console import Console

    from forecast.common.files import read_json, write_sealed
    from forecast.common.tables import WIDTH, show
    from forecast.predict.transplanted import score_all, table_of
    from forecast.runs.run import RESULT, Run, check_not_of_a_run
    from forecast.runs.summary import scored_split

    folder = Run.open_and_say(options.run)
    path = folder.path / TRANSPLANT if options.output is None else options.output
    if path.resolve() != (folder.path / TRANSPLANT).resolve():
        check_not_of_a_run(path)
    scored = score_all(folder, options.attention, options.context_length, file=options.data, quiet=options.quiet)
    split = scored_split(read_json(folder.path / RESULT))
    show(Console(width=max(Console().width, WIDTH)), [table_of(folder, scored, split)])
    write_sealed(path, {"scored": [asdict(row) for row in scored]})
    print(f"{path}: scores written")


if __name__ == "__main__":
    sys.exit(main())
