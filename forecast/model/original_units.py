"""A model in original units, one in z-scores of each series, and their input."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from forecast.model.informer import Informer


class OriginalUnits(nn.Module):
    """Model that maps a context in original units to a forecast in original units.

    Input and output are float64, since float32 has a resolution of 1 at a level of 10⁷. `network` computes on float32
    z-scores, as in training. `mean` and `scale` are float64, shape (C_in,), original units, targets first.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, network: Informer, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)

    def forward(
        self, past: Tensor, past_known: Tensor, future_known: Tensor, past_observed: Tensor | None = None
    ) -> Tensor:
        """Return the forecast (B, h, C_out), or all quantiles (B, h, C_out, K), float64.

        `past` is float64, the rest as in `Informer.forward`.
        """
        scaled = ((past - self.mean) / self.scale).to(torch.float32)
        if self.network.levels:
            quantiles = self.network.forward_quantiles(scaled, past_known, future_known, past_observed)
            targets = quantiles.shape[2]
            return quantiles.to(torch.float64) * self.scale[:targets, None] + self.mean[:targets, None]
        forecast: Tensor = self.network(scaled, past_known, future_known, past_observed)
        targets = forecast.shape[2]
        return forecast.to(torch.float64) * self.scale[:targets] + self.mean[:targets]


class ZScores(nn.Module):
    """Model of many series: maps a context to a forecast, both z-scores of each series, float32."""

    def __init__(self, network: Informer) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, past: Tensor, past_known: Tensor, future_known: Tensor, past_observed: Tensor | None = None
    ) -> Tensor:
        """Return the forecast (B, h, C_out), or all quantiles (B, h, C_out, K); the arguments are as in `Informer`."""
        forward = self.network.forward_quantiles if self.network.levels else self.network
        forecast: Tensor = forward(past, past_known, future_known, past_observed)
        return forecast


class Context(NamedTuple):
    """Model input: B windows of T steps, C_in channels and F known inputs, before a horizon of h steps."""

    past: Tensor  # (B, T, C_in), float64, original units, targets first
    past_known: Tensor  # (B, T, F), float32
    future_known: Tensor  # (B, h, F), float32
    past_observed: Tensor | None  # boolean, shape of `past`, False where a value was missing; None: no value was

    def rows(self, chosen: slice) -> "Context":
        """Return the windows in the slice `chosen`."""
        return self._map(lambda tensor: tensor[chosen])

    def to(self, device: torch.device) -> "Context":
        """Return the same windows on `device`."""
        return self._map(lambda tensor: tensor.to(device))

    def _map(self, function: Callable[[Tensor], Tensor]) -> "Context":
        observed = None if self.past_observed is None else function(self.past_observed)
        return Context(function(self.past), function(self.past_known), function(self.future_known), observed)


def stack(windows: Sequence[Context]) -> Context:
    """Concatenate windows; either all or none have `past_observed`."""
    past, past_known, future_known, observed = zip(*windows, strict=True)
    past_observed = None if observed[0] is None else torch.cat(observed)
    return Context(torch.cat(past), torch.cat(past_known), torch.cat(future_known), past_observed)
