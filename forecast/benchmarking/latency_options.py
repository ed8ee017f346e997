"""The command line of the latency benchmark."""

import argparse
from pathlib import Path

from forecast.benchmarking.options import ROOT, positive, seconds

FORMS = ("eager", "compiled", "pt2", "onnx", "predict")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    add = parser.add_argument
    add("--run", default="latest", help="folder of a finished run; latest: the newest under outputs/")
    add("--input", type=Path, help="rows to forecast from; those of the run's training if not given")
    add("--forms", nargs="+", choices=FORMS, default=FORMS, help="compiled: torch.compile; predict: from a table; all")
    add("--batch", type=positive, default=32, help="windows of the batch; one alone is always measured (%(default)s)")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: a GPU where there is one")
    add("--threads", type=positive, help="of the CPU; torch's own choice if not given")
    add("--repetitions", type=positive, default=100, help="at the least, however long they take (%(default)s)")
    add("--seconds", type=seconds, default=2.0, help="time to repeat each case for (%(default)s)")
    add("--output", type=Path, help=f"folder for the files; a new one under {ROOT} if not given")
    add("--quiet", action="store_true", help="no progress and no table, only where the files are")
