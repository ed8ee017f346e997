"""The command lines of the benchmarks that train whole models."""

import argparse

from forecast.benchmark.folder import add_run_options
from forecast.common.option_types import gibibytes, positive, seconds, share, window

PRECISIONS = ("fp32", "bf16")
WINDOWS = [(96, 24), (336, 168)]
PAPER = "informer:start_length=0"
POINTWISE = "patch_informer:patch_length=1,level=window,linear_path=false"


def add_peers_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `peers`."""
    _add_task_options(parser)
    parser.add_argument("--pairs", type=positive, default=7, help="passes of each model (%(default)s)")
    add_run_options(parser)


def add_step_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `step`."""
    _add_task_options(parser)
    add = parser.add_argument
    add("--attention", default="probsparse", help="a word such as linear, or probsparse:factor=3 (%(default)s)")
    add("--repetitions", type=positive, default=7, help="steps that are timed (%(default)s)")
    add("--top", type=positive, default=12, help="operations that are shown (%(default)s)")
    add_run_options(parser)


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


def _add_task_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--windows", nargs="+", type=window, default=WINDOWS, help="look-back:horizon (96:24 336:168)")
    add("--model", default=PAPER, help="a preset and what differs from its file (%(default)s)")
    add("--dtypes", nargs="+", choices=PRECISIONS, default=list(PRECISIONS), help="bf16: under autocast; both")
    add("--batch", type=positive, default=32, help="windows in a step (%(default)s)")
    add("--channels", type=positive, default=7, help="series in a window (%(default)s)")
