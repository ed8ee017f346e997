"""Predict the time and memory of a training: `python -m forecast.plan data=etth1 context_length=2880`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from forecast.common.cli import finish, gibibytes, positive, seconds
from forecast.common.timing import LEAST_ROUNDS

STEPS_HELP = "training steps of each mechanism per round, in seconds, at least 6 steps (default: %(default)s)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Plan for the command line; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = options_of(
        "forecast.plan",
        "Measure a few training steps of each attention mechanism on this machine, and predict the time and memory of "
        "a full training.",
    ).parse_intermixed_args(given)
    return finish(lambda: _plan(options, given))


def options_of(module: str, about: str) -> argparse.ArgumentParser:
    """Return the argument parser of `python -m module` with the options of a plan."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    add = parser.add_argument
    add("overrides", nargs="*", help="overrides of train.py, such as data=etth1 context_length=2880")
    add("--mechanisms", nargs="+", default=[], help="such as linear or probsparse:factor=3 (default: all)")
    add(
        "--memory-gib",
        type=gibibytes,
        help="memory limit of a training in GiB (default: the free memory of a GPU, 80 %% of a CPU's)",
    )
    add("--seconds", type=seconds, default=4.0, help=STEPS_HELP)
    add("--rounds", type=positive, default=LEAST_ROUNDS, help="measurements of each mechanism (default: %(default)s)")
    add("--limit", type=seconds, default=600.0, help="time limit of one measurement in seconds (default: %(default)s)")
    add("--confirm", action="store_true", help="run one step at each largest batch and each largest look-back")
    add("--threads", type=positive, help="number of CPU threads (default: torch's choice)")
    add("--output", type=Path, help="JSON file for the plan")
    add("--quiet", action="store_true", help="show no progress")
    return parser


def _plan(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    from forecast.plan.planner import run

    run(options, arguments)


if __name__ == "__main__":
    sys.exit(main())
