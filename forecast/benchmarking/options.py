"""The command line of the attention benchmark."""

import argparse
from pathlib import Path

ROOT = Path("outputs/benchmark")
TABLES = ("layer", "lengths")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    add = parser.add_argument
    add("--tables", nargs="+", choices=TABLES, default=TABLES, help="layer: with projections; lengths: the sweep")
    add("--mechanisms", nargs="+", default=[], help="words such as linear, or probsparse:sampling=per_query; all")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: a GPU where there is one")
    add("--dtype", choices=("fp32", "bf16", "fp16"), default="fp32", help="of inputs and weights; fp16: CUDA only")
    add("--threads", type=_positive, help="of the CPU; torch's own choice if not given")
    add("--shortest", type=_positive, default=256, help="length that the sweep begins with (%(default)s)")
    add("--longest", type=_positive, default=65_536, help="length that it doubles up to (%(default)s)")
    add("--batch", type=_positive, default=1, help="rows of the sweep (%(default)s)")
    add("--heads", type=_positive, default=8, help="heads of the sweep (%(default)s)")
    add("--head-dim", type=_positive, default=64, help="their width (%(default)s)")
    add("--causal", action="store_true", help="sweep the causal forms too")
    add("--no-backward", action="store_true", help="sweep the forward pass alone")
    add("--seconds", type=_seconds, default=2.0, help="time to repeat a case of the sweep for (%(default)s)")
    add("--repetitions", type=_positive, default=5, help="at the least, however long they take (%(default)s)")
    add("--limit", type=_seconds, default=120.0, help="skip what of the sweep would take more seconds (%(default)s)")
    add("--fit-from", type=_positive, default=2048, help="shortest length to fit exponents on (%(default)s)")
    add("--layer-length", type=_positive, default=16_384, help="tokens of the layer (%(default)s)")
    add("--d-model", type=_positive, default=512, help="width of the layer (%(default)s)")
    add("--layer-repetitions", type=_positive, default=50, help="passes of each layer (%(default)s)")
    add("--output", type=Path, help=f"folder for the files; a new one under {ROOT} if not given")
    add("--quiet", action="store_true", help="no progress and no tables, only where the files are")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


_positive.__name__ = "integer of at least 1"  # as argparse complains


def _seconds(text: str) -> float:
    value = float(text)
    if not value >= 0:
        raise ValueError
    return value


_seconds.__name__ = "number of seconds"
