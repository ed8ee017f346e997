"""A model in original units, and the context that it needs."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from forecast.model.informer import Informer


class OriginalUnits(nn.Module):
    """Takes a context in original units and gives its forecast in original units.

    In and out are float64: in float32, at a level of 10⁷ with a deviation of 100, neighbouring numbers are a
    hundredth of the deviation apart. What the network computes on are z-scores in float32, as in training.

    Parameters
    ----------
    network
        Maps z-scores to z-scores.
    mean, scale
        Shape (C_in,), float64, original units, the targets first.
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
        """Return the forecast (B, h, C_out), float64; `past` is (B, T, C_in), float64, the rest as the network's."""
        scaled = ((past - self.mean) / self.scale).to(torch.float32)
        forecast: Tensor = self.network(scaled, past_known, future_known, past_observed)
        targets = forecast.shape[2]
        return forecast.to(torch.float64) * self.scale[:targets] + self.mean[:targets]


class Context(NamedTuple):
    """B windows of T steps with h steps after them, C_in channels, F known inputs.

    `past` (B, T, C_in), float64, original units, the targets first; `past_known` (B, T, F) and `future_known`
    (B, h, F), float32; `past_observed` as `past`, False where a value was filled and is not to be read, None
    where all are read.
    """

    past: Tensor
    past_known: Tensor
    future_known: Tensor
    past_observed: Tensor | None

    def rows(self, chosen: slice) -> "Context":
        """Return some of the windows."""
        return self.each(lambda part: part[chosen])

    def to(self, device: torch.device) -> "Context":
        """Return the same windows on `device`."""
        return self.each(lambda part: part.to(device))

    def each(self, change: Callable[[Tensor], Tensor]) -> "Context":
        """Return the same parts, each changed alike."""
        observed = None if self.past_observed is None else change(self.past_observed)
        return Context(change(self.past), change(self.past_known), change(self.future_known), observed)


def stack(windows: Sequence[Context]) -> Context:
    """Return windows that all have, or all lack, `past_observed` as one."""
    past, past_known, future_known, observed = zip(*windows, strict=True)
    together = None if observed[0] is None else torch.cat(observed)
    return Context(torch.cat(past), torch.cat(past_known), torch.cat(future_known), together)
