"""Run a benchmark on this machine: `python -m forecast.benchmark`, or `python -m forecast.benchmark latency --help`."""

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
        "time, memory and scaling of each attention mechanism, and its crossover with fused softmax attention",
        "Measure the time and memory of each attention mechanism, in a layer and alone over increasing lengths.",
    ),
    "latency": (
        "forecast.benchmark.latency",
        options.add_latency_options,
        "latency of a run's forecasts for one window and a batch: eager, compiled and exported",
        "Measure the latency of a run's forecasts, from a validated input tensor to forecasts in original units.",
    ),
}
"""Module of each benchmark, whose `run` measures, with its options, help line and description."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark on the command line, `attention` by default; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="python -m forecast.benchmark",
        description="Measure time and memory on this machine. The default benchmark is attention.",
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
