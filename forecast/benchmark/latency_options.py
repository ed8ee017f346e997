"""The command line of the latency benchmark."""

import argparse
from pathlib import Path

from forecast.benchmark.folder import add_run_options
from forecast.common.option_types import positive, seconds

FORMS = ("eager", "compiled", "pt2", "onnx", "predict")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    add = parser.add_argument
    add("--run", default="latest", help="folder of a finished run; latest: the newest under outputs/")
    add("--input", type=Path, help="rows to forecast from; those of the run's training if not given")
    add("--forms", nargs="+", choices=FORMS, default=FORMS, help="compiled: torch.compile; predict: from a table; all")
    add("--batch", type=positive, default=32, help="windows of the batch; one alone is always measured (%(default)s)")
    add("--repetitions", type=positive, default=100, help="at the least, however long they take (%(default)s)")
    add("--seconds", type=seconds, default=2.0, help="time to repeat each case for (%(default)s)")
    add_run_options(parser)
