"""The network with the scaling before it and the un-scaling after it, as one module."""

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
        """Give the forecast (B, h, C_out), float64; `past` is (B, T, C_in), float64, the rest as the network's."""
        scaled = ((past - self.mean) / self.scale).to(torch.float32)
        forecast: Tensor = self.network(scaled, past_known, future_known, past_observed)
        targets = forecast.shape[2]
        return forecast.to(torch.float64) * self.scale[:targets] + self.mean[:targets]
