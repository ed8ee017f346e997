"""The callbacks that the configuration names, made and checked before a run begins."""

from collections.abc import Mapping
from typing import Any

from lightning.pytorch.callbacks import Callback, Checkpoint, ProgressBar, Timer

from forecast.common.errors import InputError
from forecast.common.options import TARGET, check_target, make

METRICS = ("val/mse", "val/mae")
"""What a callback can watch: `ForecastTask` logs these before it is asked."""


def configured(nodes: Mapping[str, Any]) -> list[Callback]:
    """Return the callbacks of the `callbacks` group.

    Raises
    ------
    InputError
        If one cannot be made, or watches with what would only fail in the middle of the run.
    """
    made: list[Callback] = []
    for name, node in nodes.items():
        if not isinstance(node, Mapping) or TARGET not in node:
            raise InputError(f"callbacks.{name}={node}: needs a {TARGET}; ~callbacks.{name} takes it out")
        check_target(node, f"callbacks.{name}", Callback)
        callback: Callback = make(node, f"callbacks.{name}")
        if isinstance(callback, (Checkpoint, ProgressBar, Timer)):
            raise InputError(f"callbacks.{name}: {type(callback).__name__}: every run has its own of that kind")
        monitor, patience = getattr(callback, "monitor", METRICS[0]), getattr(callback, "patience", 1)
        if monitor not in METRICS:
            raise InputError(f"callbacks.{name}.monitor={monitor}: choose one of {', '.join(METRICS)}")
        if not isinstance(patience, int) or isinstance(patience, bool) or patience < 1:
            raise InputError(f"callbacks.{name}.patience={patience}: must be a whole number of at least 1")
        if callback.state_key in [other.state_key for other in made]:
            raise InputError(
                f"callbacks.{name}: is the same as another, options and all: ~callbacks.{name} takes it out"
            )
        made.append(callback)
    return made
