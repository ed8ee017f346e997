"""Options of the benchmark commands."""

import argparse
import secrets
from datetime import datetime
from pathlib import Path

from forecast.common.cli import minutes, positive, seconds
from forecast.common.errors import InputError

ROOT = Path("outputs/benchmark")

TABLES = ("layer", "lengths")

MINUTES = 5.0
"""Default time limit of a run in minutes."""

QUICK = {"longest": 16_384, "seconds": 0.5, "layer_length": 4_096, "layer_repetitions": 10}
FULL = {"longest": 65_536, "seconds": 2.0, "layer_length": 16_384, "layer_repetitions": 50}
"""Defaults of a quick run and with --full."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `attention`."""
    add = parser.add_argument
    add("--minutes", type=minutes, help=f"approximate time limit; skipped cases are listed (default: {MINUTES:g})")
    add("--full", action="store_true", help="measure all cases without a time limit: almost an hour on two cores")
    add("--tables", nargs="+", choices=TABLES, default=TABLES, help="layer: with projections; lengths: the sweep")
    add("--mechanisms", nargs="+", default=[], help="such as linear or probsparse:sampling=per_query (default: all)")
    add("--dtype", choices=("fp32", "bf16", "fp16"), default="fp32", help="of inputs and weights; fp16: CUDA only")
    add("--shortest", type=positive, default=256, help="first length of the sweep (default: %(default)s)")
    add("--longest", type=positive, help=f"last length of the sweep, which doubles ({_both('longest')})")
    add("--batch", type=positive, default=1, help="batch size of the sweep (default: %(default)s)")
    add("--heads", type=positive, default=8, help="number of heads in the sweep (default: %(default)s)")
    add("--head-dim", type=positive, default=64, help="width of each head in the sweep (default: %(default)s)")
    add("--causal", action="store_true", help="also sweep causal attention")
    add("--no-backward", action="store_true", help="sweep only the forward pass")
    add("--seconds", type=seconds, help=f"minimum time of a case in the sweep, in seconds ({_both('seconds')})")
    add("--repetitions", type=positive, default=5, help="minimum passes of a case in the sweep (default: %(default)s)")
    add("--limit", type=seconds, default=120.0, help="skip slower cases of the sweep, seconds (default: %(default)s)")
    add("--fit-from", type=positive, default=2048, help="shortest length for fitting exponents (default: %(default)s)")
    add("--layer-length", type=positive, help=f"number of tokens in the layer ({_both('layer_length')})")
    add("--d-model", type=positive, default=512, help="width of the layer (default: %(default)s)")
    add("--layer-repetitions", type=positive, help=f"passes of each layer ({_both('layer_repetitions')})")
    add_run_options(parser)


def settle(options: argparse.Namespace) -> None:
    """Fill in the defaults of a quick run, or of a full run with --full."""
    if options.full and options.minutes is not None:
        raise InputError(f"--full --minutes {options.minutes:g}: a full run has no time limit: use only one of them")
    for name, value in (FULL if options.full else QUICK).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if not options.full and options.minutes is None:
        options.minutes = MINUTES


def _both(name: str) -> str:
    return f"default: {QUICK[name]:,g}; with --full: {FULL[name]:,g}"


FORMS = ("eager", "compiled", "pt2", "onnx", "predict")


def add_latency_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `latency`."""
    add = parser.add_argument
    add("--run", default="latest", help="folder of a finished run; latest: the newest under outputs/")
    add("--input", type=Path, help="table to forecast from (default: the run's data)")
    add("--forms", nargs="+", choices=FORMS, default=FORMS, help="compiled: torch.compile; predict: from a table")
    add("--batch", type=positive, default=32, help="batch size, measured besides one window (default: %(default)s)")
    add("--repetitions", type=positive, default=100, help="minimum repetitions of a case (default: %(default)s)")
    add("--seconds", type=seconds, default=2.0, help="minimum time of a case in seconds (default: %(default)s)")
    add_run_options(parser)


def open_folder(wanted: Path | None) -> Path:
    """Return the folder for the files; create it if needed and keep its files until they are replaced."""
    folder = wanted or ROOT / f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{secrets.token_hex(3)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{folder}: is not a folder: choose another --output") from None
    return folder


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the device, the threads and the output."""
    add = parser.add_argument
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: a GPU if available")
    add("--threads", type=positive, help="number of CPU threads (default: torch's choice)")
    add("--output", type=Path, help=f"folder for the files (default: a new one in {ROOT})")
    add("--quiet", action="store_true", help="print only the path of the files")
