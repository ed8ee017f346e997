"""Shared options and command line of the benchmarks of whole models."""

import argparse
import sys
from collections.abc import Callable, Sequence

from forecast.common.cli import finish, positive

PRECISIONS = ("fp32", "bf16")
WINDOWS = [(96, 24), (336, 168)]
PAPER = "informer:start_length=0"


def window(text: str) -> tuple[int, int]:
    """Read a look-back and a horizon, `336:168`."""
    look_back, _, horizon = text.partition(":")
    return positive(look_back), positive(horizon)


window.__name__ = "look-back:horizon"  # in the error messages of argparse


def add_task_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the model, its windows and its precisions."""
    add = parser.add_argument
    add("--windows", nargs="+", type=window, default=WINDOWS, help="look-back:horizon (default: 96:24 336:168)")
    add("--model", default=PAPER, help="a preset, with changes to its options (default: %(default)s)")
    add("--dtypes", nargs="+", choices=PRECISIONS, default=list(PRECISIONS), help="bf16: with autocast (default: both)")
    add("--batch", type=positive, default=32, help="windows per step (default: %(default)s)")
    add("--channels", type=positive, default=7, help="series per window (default: %(default)s)")


def call(
    module: str,
    about: str | None,
    add_options: Callable[[argparse.ArgumentParser], None],
    run: Callable[[argparse.Namespace, Sequence[str]], None],
    arguments: Sequence[str] | None,
) -> int:
    """Run the benchmark of `python -m <module>` with its command line; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    add_options(parser)
    options = parser.parse_args(given)
    return finish(lambda: run(options, given))
