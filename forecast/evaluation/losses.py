"""Losses by name, over the targets that were measured."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from forecast.common.errors import InputError

_ELEMENTWISE: dict[str, Callable[..., Tensor]] = {
    "mse": functional.mse_loss,
    "mae": functional.l1_loss,
    "huber": functional.smooth_l1_loss,
}

Loss = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def loss_by_name(name: str) -> Loss:
    """Return `loss(forecast, future, observed)`, the mean over observed targets of z-scores.

    "mse" is the squared error, "mae" the absolute one, "huber" half the square below 1 and linear above.

    Raises
    ------
    InputError
        If there is no loss of that name.

    References
    ----------
    Huber, "Robust estimation of a location parameter", Annals of Mathematical Statistics 35 (1964).
    """
    if name not in _ELEMENTWISE:
        raise InputError(
            f"loss={name}: choose mse, mae or huber: there are losses of a single value only; of intervals "
            "there are the quantiles of the validation errors, which every run saves in calibration.safetensors"
        )
    elementwise = _ELEMENTWISE[name]

    def loss(forecast: Tensor, future: Tensor, observed: Tensor | None) -> Tensor:
        if observed is None:
            return elementwise(forecast, future)
        errors = elementwise(forecast, torch.where(observed, future, 0), reduction="none")
        return torch.where(observed, errors, 0).sum() / observed.sum().clamp(min=1)

    return loss
