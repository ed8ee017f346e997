"""One linear map from the context to the horizon, shared by the series, beside the encoder-decoder."""

import torch
from torch import Tensor, nn


class LinearPath(nn.Module):
    """Gives the normalised context (B, T, C) mapped to the horizon (B, h, C), the same map for each series.

    It starts at zero, which forecasts the window's mean; `start_from` puts the closed form in its place.

    References
    ----------
    Zeng et al., "Are Transformers Effective for Time Series Forecasting?", AAAI 2023, for the map.
    """

    def __init__(self, context_length: int, horizon: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(context_length, horizon))

    def forward(self, past: Tensor) -> Tensor:
        return torch.einsum("btc,th->bhc", past, self.weight)

    @torch.no_grad()
    def start_from(self, weight: Tensor) -> None:
        """Take over `weight` (look_back, h), the newest steps of the context; older ones count nothing.

        A map fitted on windows less their mean serves windows divided by their deviation unchanged, since
        the deviation is put back on what it gives. Here the mean is that of the whole context: where the map
        reads less of it, each of its steps also carries a share of the level that the map's own mean is at.
        """
        weight = weight.to(self.weight)
        look_back = weight.shape[0]
        self.weight.zero_()
        self.weight[-look_back:] = weight
        if look_back < self.weight.shape[0]:
            self.weight[-look_back:] += (1 - weight.sum(0)) / look_back
