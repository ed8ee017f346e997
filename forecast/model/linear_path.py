"""The linear path beside the encoder-decoder, and how the two are combined."""

import torch
from torch import Tensor, nn


class LinearPath(nn.Module):
    """Maps the centred context (B, T, C) to the horizon (B, h, C) and adds the mean back; one map for all series.

    It starts at zero, which forecasts the window's mean; `start_from` sets the closed form. Source of the map:
    Zeng et al., "Are Transformers Effective for Time Series Forecasting?", AAAI 2023.
    """

    def __init__(self, context_length: int, horizon: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(context_length, horizon))

    def forward(self, past: Tensor) -> Tensor:
        mean = past.mean(1, keepdim=True)
        return torch.einsum("btc,th->bhc", past - mean, self.weight) + mean

    @torch.no_grad()
    def start_from(self, weight: Tensor) -> None:
        """Take over `weight` (look_back, h) for the newest steps of the context; older ones count nothing.

        Centring uses the mean of the whole context: where the map reads fewer steps, each of them also carries a
        share of the map's own mean.
        """
        weight = weight.to(self.weight)
        look_back = weight.shape[0]
        self.weight.zero_()
        self.weight[-look_back:] = weight
        if look_back < self.weight.shape[0]:
            self.weight[-look_back:] += (1 - weight.sum(0)) / look_back


class Sum(nn.Module):
    """Adds to the linear path what `decoded` changes in its `level`: it learns what the path leaves, both as one."""

    def forward(self, decoded: Tensor, linear: Tensor, level: Tensor) -> Tensor:
        return linear + (decoded - level)


class WeightedMean(nn.Module):
    """The weighted mean of two forecasts that are trained separately, except for one limit on the gradient.

    The encoder-decoder's weight `share`, in [0, 1], is a fraction of the weight that is best on validation; it starts
    at 0, the linear path alone. Errors of separate forecasts partly cancel; a model of the other's residuals learns
    their noise as well. Source: Bates and Granger, "The Combination of Forecasts",
    Operational Research Quarterly 20 (1969).
    """

    share: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("share", torch.zeros(()))

    def forward(self, decoded: Tensor, linear: Tensor, level: Tensor) -> Tensor:
        return linear + self.share * (decoded - linear)
