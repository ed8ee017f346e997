"""Predict the time and memory of a training: `python -m forecast.plan data=etth1 context_length=2880`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from forecast.common.cli import finish
from forecast.common.options import gibibytes, positive, seconds
from forecast.common.timing import LEAST_ROUNDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Plan as the command line says; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = options_of(
        "forecast.plan", "Measure a few steps of each mechanism on this machine, and say what a training would take."
    ).parse_intermixed_args(given)
    return finish(lambda: _plan(options, given))


def options_of(module: str, about: str) -> argparse.ArgumentParser:
    """Return the parser of `python -m module` with the options of a plan."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    add = parser.add_argument
    add("overrides", nargs="*", help="the words of train.py, such as data=etth1 context_length=2880")
    add(
        "--mechanisms", nargs="+", default=[], help="words such as linear, or probsparse:factor=3; all if none is named"
    )
    add("--memory-gib", type=gibibytes, help="that a training may take; what the device has free if not given")
    add(
        "--seconds",
        type=seconds,
        default=4.0,
        help="of steps of a mechanism in each round, 6 steps at the least (%(default)s)",
    )
    add("--rounds", type=positive, default=LEAST_ROUNDS, help="in which each mechanism is measured (%(default)s)")
    add("--limit", type=seconds, default=600.0, help="a process that takes more seconds is given up (%(default)s)")
    add("--confirm", action="store_true", help="make one step at each largest batch and largest look-back")
    add("--threads", type=positive, help="of the CPU; torch's own choice if not given")
    add("--output", type=Path, help="a file for the plan, as JSON")
    add("--quiet", action="store_true", help="no progress")
    return parser


def _plan(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    from forecast.plan.planner import run

    run(options, arguments)


if __name__ == "__main__":
    sys.exit(main())
