"""The linear path beside the encoder-decoder, and how the two are combined."""

import torch
from torch import Tensor, nn


class LinearPath(nn.Module):
    """Maps the context (B, T, C), less its mean, to the horizon (B, h, C), the mean added; one map for all series.

    It starts at zero, which forecasts the window's mean; `start_from` puts the closed form in its place.

    References
    ----------
    Zeng et al., "Are Transformers Effective for Time Series Forecasting?", AAAI 2023, for the map.
    """

    def __init__(self, context_length: int, horizon: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(context_length, horizon))

    def forward(self, past: Tensor) -> Tensor:
        mean = past.mean(1, keepdim=True)
        return torch.einsum("btc,th->bhc", past - mean, self.weight) + mean

    @torch.no_grad()
    def start_from(self, weight: Tensor) -> None:
        """Take over `weight` (look_back, h), the newest steps of the context; older ones count nothing.

        The mean that is taken off is that of the whole context: where the map reads less of it, each of its
        steps also carries a share of the level that the map's own mean is at.
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
    """Gives the weighted mean of two forecasts that are each trained by themselves, but for one limit on the gradient.

    The encoder-decoder's weight is `share`, between 0 and 1, a part of what validation likes best: it begins at 0,
    the linear path alone. What forecasts by itself errs in its own way, and the errors of the two partly cancel;
    what learns the other's residuals learns their noise as well.

    References
    ----------
    Bates and Granger, "The Combination of Forecasts", Operational Research Quarterly 20 (1969).
    """

    share: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("share", torch.zeros(()))

    def forward(self, decoded: Tensor, linear: Tensor, level: Tensor) -> Tensor:
        return linear + self.share * (decoded - linear)
