"""Options of the benchmark command."""

import argparse
import secrets
from datetime import datetime
from pathlib import Path

from forecast.common.errors import InputError
from forecast.common.options import gibibytes, minutes, positive, seconds, share

ROOT = Path("outputs/benchmark")

TABLES = ("layer", "lengths")

MINUTES = 5.0
"""What a run may take unless it is told otherwise."""

QUICK = {"longest": 16_384, "seconds": 0.5, "layer_length": 4_096, "layer_repetitions": 10}
FULL = {"longest": 65_536, "seconds": 2.0, "layer_length": 16_384, "layer_repetitions": 50}
"""What is measured within minutes, and with --full; a value that is given holds in both."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    add = parser.add_argument
    add("--minutes", type=minutes, help=f"of the whole run, about; what does not fit is listed ({MINUTES:g})")
    add("--full", action="store_true", help="measure everything, however long: most of an hour on two cores")
    add("--tables", nargs="+", choices=TABLES, default=TABLES, help="layer: with projections; lengths: the sweep")
    add("--mechanisms", nargs="+", default=[], help="words such as linear, or probsparse:sampling=per_query; all")
    add("--dtype", choices=("fp32", "bf16", "fp16"), default="fp32", help="of inputs and weights; fp16: CUDA only")
    add("--shortest", type=positive, default=256, help="length that the sweep begins with (%(default)s)")
    add("--longest", type=positive, help=f"length that it doubles up to ({_both('longest')})")
    add("--batch", type=positive, default=1, help="rows of the sweep (%(default)s)")
    add("--heads", type=positive, default=8, help="heads of the sweep (%(default)s)")
    add("--head-dim", type=positive, default=64, help="their width (%(default)s)")
    add("--causal", action="store_true", help="sweep the causal forms too")
    add("--no-backward", action="store_true", help="sweep the forward pass alone")
    add("--seconds", type=seconds, help=f"time to repeat a case of the sweep for ({_both('seconds')})")
    add("--repetitions", type=positive, default=5, help="at the least, however long they take (%(default)s)")
    add("--limit", type=seconds, default=120.0, help="skip what of the sweep would take more seconds (%(default)s)")
    add("--fit-from", type=positive, default=2048, help="shortest length to fit exponents on (%(default)s)")
    add("--layer-length", type=positive, help=f"tokens of the layer ({_both('layer_length')})")
    add("--d-model", type=positive, default=512, help="width of the layer (%(default)s)")
    add("--layer-repetitions", type=positive, help=f"passes of each layer ({_both('layer_repetitions')})")
    add_run_options(parser)


def settle(options: argparse.Namespace) -> None:
    """Fill in what was not given: the values of a run within minutes, or with --full those of the whole."""
    if options.full and options.minutes is not None:
        raise InputError(f"--full --minutes {options.minutes:g}: the whole takes as long as it takes: give one of them")
    for name, value in (FULL if options.full else QUICK).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if not options.full and options.minutes is None:
        options.minutes = MINUTES


def check_order(shortest: int, longest: int) -> None:
    """Refuse a longest length below the shortest."""
    if longest < shortest:
        raise InputError(f"--longest {longest} is below --shortest {shortest}: raise the one or lower the other")


def _both(name: str) -> str:
    return f"{QUICK[name]:,g}; with --full {FULL[name]:,g}"


FORMS = ("eager", "compiled", "pt2", "onnx", "predict")


def add_latency_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    add = parser.add_argument
    add("--run", default="latest", help="folder of a finished run; latest: the newest under outputs/")
    add("--input", type=Path, help="rows to forecast from; those of the run's training if not given")
    add("--forms", nargs="+", choices=FORMS, default=FORMS, help="compiled: torch.compile; predict: from a table; all")
    add("--batch", type=positive, default=32, help="windows of the batch; one alone is always measured (%(default)s)")
    add("--repetitions", type=positive, default=100, help="at the least, however long they take (%(default)s)")
    add("--seconds", type=seconds, default=2.0, help="time to repeat each case for (%(default)s)")
    add_run_options(parser)


PRECISIONS = ("fp32", "bf16")
POINTWISE = "patch_informer:patch_length=1,level=window,linear_path=false"


def add_max_context_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `max-context`."""
    add = parser.add_argument
    add("--mechanisms", nargs="+", default=[], help="words such as linear, or probsparse:factor=3; all")
    add("--model", default=POINTWISE, help="a preset and what differs from its file (%(default)s)")
    add("--memory-gib", type=gibibytes, help="that a step may take; what the device has free if not given")
    add("--dtype", choices=PRECISIONS, default="fp32", help="bf16: under autocast (%(default)s)")
    add("--batch", type=positive, default=8, help="windows in a step (%(default)s)")
    add("--channels", type=positive, default=1, help="series in a window (%(default)s)")
    add("--horizon", type=positive, default=96, help="steps that are forecast (%(default)s)")
    add("--shortest", type=positive, default=1024, help="look-back to begin with (%(default)s)")
    add("--longest", type=positive, default=2**22, help="look-back that is not passed (%(default)s)")
    add("--within", type=share, default=0.1, help="how near to what does not fit the search ends (%(default)s)")
    add("--limit", type=seconds, default=600.0, help="a step that would take more seconds is left out (%(default)s)")
    add_run_options(parser)


def open_folder(wanted: Path | None) -> Path:
    """Return the folder for the files, made if need be; what it holds stays until it is replaced."""
    folder = wanted or ROOT / f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{secrets.token_hex(3)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{folder}: is no folder: choose another --output") from None
    return folder


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Declare where a benchmark computes and where it writes."""
    add = parser.add_argument
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: a GPU where there is one")
    add("--threads", type=positive, help="of the CPU; torch's own choice if not given")
    add("--output", type=Path, help=f"folder for the files; a new one under {ROOT} if not given")
    add("--quiet", action="store_true", help="no progress and no tables, only where the files are")
