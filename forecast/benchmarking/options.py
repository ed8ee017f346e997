"""The command line of the attention benchmark."""

import argparse

from forecast.benchmarking.option_types import add_run_options, positive, seconds

TABLES = ("layer", "lengths")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    add = parser.add_argument
    add("--tables", nargs="+", choices=TABLES, default=TABLES, help="layer: with projections; lengths: the sweep")
    add("--mechanisms", nargs="+", default=[], help="words such as linear, or probsparse:sampling=per_query; all")
    add("--dtype", choices=("fp32", "bf16", "fp16"), default="fp32", help="of inputs and weights; fp16: CUDA only")
    add("--shortest", type=positive, default=256, help="length that the sweep begins with (%(default)s)")
    add("--longest", type=positive, default=65_536, help="length that it doubles up to (%(default)s)")
    add("--batch", type=positive, default=1, help="rows of the sweep (%(default)s)")
    add("--heads", type=positive, default=8, help="heads of the sweep (%(default)s)")
    add("--head-dim", type=positive, default=64, help="their width (%(default)s)")
    add("--causal", action="store_true", help="sweep the causal forms too")
    add("--no-backward", action="store_true", help="sweep the forward pass alone")
    add("--seconds", type=seconds, default=2.0, help="time to repeat a case of the sweep for (%(default)s)")
    add("--repetitions", type=positive, default=5, help="at the least, however long they take (%(default)s)")
    add("--limit", type=seconds, default=120.0, help="skip what of the sweep would take more seconds (%(default)s)")
    add("--fit-from", type=positive, default=2048, help="shortest length to fit exponents on (%(default)s)")
    add("--layer-length", type=positive, default=16_384, help="tokens of the layer (%(default)s)")
    add("--d-model", type=positive, default=512, help="width of the layer (%(default)s)")
    add("--layer-repetitions", type=positive, default=50, help="passes of each layer (%(default)s)")
    add_run_options(parser)
