"""Measure on your own machine: `python -m forecast.benchmark`, or `python -m forecast.benchmark latency --help`."""

import argparse
import sys
from collections.abc import Sequence

from forecast.benchmarking import attention, latency, latency_options, options
from forecast.cli import finish

DEFAULT = "attention"
RUNS = {"attention": attention.run, "latency": latency.run}


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
    latency_options.add_options(
        benchmarks.add_parser(
            "latency",
            help="a run's forecasts: p50 and p95 of one window and a batch, as trained, compiled and exported",
            description="Measure a run's forecasts, from a checked tensor of the last rows to original units.",
        )
    )
    if not given or (given[0].startswith("-") and given[0] not in ("-h", "--help")):
        given.insert(0, DEFAULT)
    chosen = parser.parse_args(given)
    return finish(lambda: RUNS[chosen.benchmark](chosen, given))


if __name__ == "__main__":
    sys.exit(main())
