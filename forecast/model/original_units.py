"""A model in original units, and the context that it needs."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from forecast.model.informer import Informer


class OriginalUnits(nn.Module):
    """Maps a context in original units to a forecast in original units.

    Both are float64: in float32, at a level of 10⁷ with a deviation of 100, neighbouring numbers are a hundredth of the
    deviation apart. `network` computes on float32 z-scores, as in training. `mean` and `scale` have shape (C_in,),
    float64, original units, the targets first.
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
    """B windows of T steps with h steps after them, C_in channels, F known inputs."""

    past: Tensor  # (B, T, C_in), float64, original units, the targets first
    past_known: Tensor  # (B, T, F), float32
    future_known: Tensor  # (B, h, F), float32
    past_observed: Tensor | None  # as `past`, False where a value was filled and is not to be read; None: all are read

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
