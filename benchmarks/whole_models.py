"""What the benchmarks of whole models have in common: their options, and how a command line runs one."""

import argparse
import sys
from collections.abc import Callable, Sequence

from forecast.common.cli import finish
from forecast.common.options import positive, window

PRECISIONS = ("fp32", "bf16")
WINDOWS = [(96, 24), (336, 168)]
PAPER = "informer:start_length=0"


def add_task_options(parser: argparse.ArgumentParser) -> None:
    """Declare the model, its windows and its precisions."""
    add = parser.add_argument
    add("--windows", nargs="+", type=window, default=WINDOWS, help="look-back:horizon (96:24 336:168)")
    add("--model", default=PAPER, help="a preset and what differs from its file (%(default)s)")
    add("--dtypes", nargs="+", choices=PRECISIONS, default=list(PRECISIONS), help="bf16: under autocast; both")
    add("--batch", type=positive, default=32, help="windows in a step (%(default)s)")
    add("--channels", type=positive, default=7, help="series in a window (%(default)s)")


def call(
    module: str,
    about: str | None,
    add_options: Callable[[argparse.ArgumentParser], None],
    run: Callable[[argparse.Namespace, Sequence[str]], None],
    arguments: Sequence[str] | None,
) -> int:
    """Run the benchmark of `python -m <module>` as its command line says; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    add_options(parser)
    options = parser.parse_args(given)
    return finish(lambda: run(options, given))
