"""Measure on your own machine: `python -m forecast.benchmark`, or `python -m forecast.benchmark attention --help`."""

import argparse
import sys
from collections.abc import Sequence

from forecast.benchmarking import attention, options
from forecast.cli import finish

DEFAULT = "attention"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark that the command line names, attention if it names none; give the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="python -m forecast.benchmark", description="Measure time and memory; without a word: attention."
    )
    benchmarks = parser.add_subparsers(dest="benchmark", required=True, metavar="benchmark")
    options.add_options(
        benchmarks.add_parser(
            "attention",
            help="each attention mechanism: time, memory, exponents, and where it passes the fused softmax",
            description="Measure each attention mechanism within a layer, and alone over growing lengths.",
        )
    )
    if not given or (given[0].startswith("-") and given[0] not in ("-h", "--help")):
        given.insert(0, DEFAULT)
    chosen = parser.parse_args(given)
    return finish(lambda: attention.run(chosen, given))


if __name__ == "__main__":
    sys.exit(main())
