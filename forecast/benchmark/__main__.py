"""Measure on your own machine: `python -m forecast.benchmark`, or `python -m forecast.benchmark latency --help`."""

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from forecast.benchmark import options
from forecast.common.cli import finish

DEFAULT = "attention"

BENCHMARKS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None], str, str]] = {
    "attention": (
        "forecast.benchmark.attention",
        options.add_options,
        "each attention mechanism: time, memory, exponents, and where it passes the fused softmax",
        "Measure each attention mechanism within a layer, and alone over growing lengths.",
    ),
    "latency": (
        "forecast.benchmark.latency",
        options.add_latency_options,
        "a run's forecasts: p50 and p95 of one window and a batch, as trained, compiled and exported",
        "Measure a run's forecasts, from a checked tensor of the last rows to original units.",
    ),
    "max-context": (
        "forecast.benchmark.max_context",
        options.add_max_context_options,
        "the largest look-back that each mechanism can be trained on in a given memory",
        "Search for the largest look-back of which one training step fits, for each attention mechanism.",
    ),
}
"""The module of each benchmark, whose `run` measures, its options and what the help says of it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark that the command line names, attention by default; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="python -m forecast.benchmark", description="Measure time and memory; without a word: attention."
    )
    benchmarks = parser.add_subparsers(dest="benchmark", required=True, metavar="benchmark")
    for name, (_, add_options, summary, description) in BENCHMARKS.items():
        add_options(benchmarks.add_parser(name, help=summary, description=description))
    if not given or (given[0].startswith("-") and given[0] not in ("-h", "--help")):
        given.insert(0, DEFAULT)
    chosen = parser.parse_args(given)
    module, *_ = BENCHMARKS[chosen.benchmark]
    return finish(lambda: import_module(module).run(chosen, given))


if __name__ == "__main__":
    sys.exit(main())
