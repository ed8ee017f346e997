"""Checks for NaN and infinity in losses, gradients, weights and forecasts."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.optim import Optimizer

from forecast.common.errors import NotFiniteError

READ_EVERY = 20
"""Most steps between two reads of the flag on an accelerator, since a read waits for the device."""

READ_AT_ONCE = {"cpu"}
"""Devices on which a read waits for nothing."""


def check_forecast(values: np.ndarray, dates: pd.DatetimeIndex, columns: Sequence[str]) -> None:
    """Raise NotFiniteError, with column and time, if a forecast (h, C) has a NaN or infinite value."""
    bad = ~np.isfinite(values)
    if bad.any():
        step, place = np.argwhere(bad)[0]
        raise NotFiniteError(
            f"the forecast of {columns[place]!r} for {dates[step]} is {values[step, place]} ({int(bad.sum())} of "
            f"{bad.size} values are not finite): no forecast is written: check the weights and the input for damage"
        )


class FiniteGuard:
    """Guard that stops a run at its first NaN or infinite loss or gradient.

    On the CPU the step raises before its update. On an accelerator the gradients of a bad step are zeroed on the
    device, so that the weights stay finite and only momentum updates them. The training reads the flag with the logged
    numbers, at least every `READ_EVERY` steps, and before each validation and checkpoint.
    """

    def __init__(self) -> None:
        self._first_bad: Tensor | None = None

    def check(self, loss: Tensor, norm: Tensor, parameters: Iterable[Tensor], step: int) -> None:
        """Check loss and gradient norm of `step`, counted from 0; only on a CPU the error is raised at once."""
        finite = torch.isfinite(loss.detach()) & torch.isfinite(norm)
        if loss.device.type in READ_AT_ONCE:
            if not finite:
                raise NotFiniteError(_message(step, f"loss {float(loss)}, gradient norm {float(norm)}"))
            return
        if self._first_bad is None:
            self._first_bad = torch.full((), -1, device=loss.device)
        bad = ~finite
        self._first_bad = torch.where((self._first_bad < 0) & bad, step, self._first_bad)
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.masked_fill_(bad, 0)

    def read(self, *numbers: Tensor) -> list[Tensor]:
        """Wait for the device, raise NotFiniteError if a step was bad, and return `numbers` on the CPU.

        All of them take one transfer.
        """
        if self._first_bad is None:
            return list(numbers)
        first, *read = torch.stack([self._first_bad.double(), *(number.double() for number in numbers)]).cpu()
        if first >= 0:
            raise NotFiniteError(_message(int(first), "loss or gradient"))
        return [value.to(number.dtype) for value, number in zip(read, numbers, strict=True)]


def check_validation(score: float, step: int) -> None:
    """Raise NotFiniteError if the validation score after `step` steps is NaN or infinite."""
    if not math.isfinite(score):
        raise NotFiniteError(
            f"validation after step {step}: not finite (score {score}): look for extreme values in the validation split"
            + (", or lower optimizer.lr" if step else "")
        )


def check_state(weights: Mapping[str, Tensor], optimizer: Optimizer, step: int) -> None:
    """Raise NotFiniteError if weights or optimizer state are not finite after `step` steps."""
    states = [
        (f"the optimizer's {name}", value)
        for state in optimizer.state.values()
        for name, value in state.items()
        if isinstance(value, Tensor)
    ]
    named = [(name, value) for name, value in (*weights.items(), *states) if value.is_floating_point()]
    finite = torch.stack([torch.isfinite(value).all().to(named[0][1].device) for _, value in named])
    if not finite.all():
        name, _ = named[int(finite.int().argmin())]
        raise NotFiniteError(
            f"step {step}: not finite after its update ({name}): it is not saved, the previous checkpoint is kept: "
            "resume from that one, or start a new run with a lower optimizer.lr"
        )


def _message(step: int, values: str) -> str:
    return (
        f"step {step}: not finite ({values}): its gradients are not applied, but earlier steps may have damaged the "
        "weights: lower optimizer.lr or training.max_grad_norm, or look for extreme values in the data"
    )
