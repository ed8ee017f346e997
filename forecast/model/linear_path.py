"""The linear path, and its combination with the encoder-decoder."""

import torch
from torch import Tensor, nn

from forecast.data.known import KnownLayout


class LinearPath(nn.Module):
    """Linear map from the centered context (B, T, C) to the horizon (B, h, C), plus the mean.

    All series share the map (T, h), or each has its own, (C, T, h), if it is `per_series`. With known covariates, each
    series also has a linear map of the M known inputs that `KnownLayout.features` reads.

    With K = `num_quantiles`, its quantiles are the forecast plus the window's spread times rising `offsets` (h, C, K).

    Initial weights are zero, which forecasts the window's mean. `start_from` sets the closed form. Source: Zeng et al.,
    "Are Transformers Effective for Time Series Forecasting?", AAAI 2023.
    """

    offsets: Tensor | None

    def __init__(
        self,
        context_length: int,
        horizon: int,
        num_targets: int = 1,
        layout: KnownLayout | None = None,
        num_quantiles: int = 0,
        *,
        per_series: bool = False,
    ) -> None:
        super().__init__()
        maps = (num_targets,) if per_series else ()
        self.weight = nn.Parameter(torch.zeros(*maps, context_length, horizon))
        self.layout = layout if layout is not None and layout.num_features(horizon) else None
        known = None if self.layout is None else torch.zeros(num_targets, self.layout.num_features(horizon), horizon)
        self.known_weight = None if known is None else nn.Parameter(known)
        offsets = torch.zeros(horizon, num_targets, num_quantiles) if num_quantiles else None
        self.register_buffer("offsets", offsets)

    @property
    def reads_known(self) -> bool:
        """Whether the path has a weight for a known input other than the calendar."""
        return self.known_weight is not None and bool(self.known_weight.any())

    def quantiles(self, forecast: Tensor, spread: Tensor) -> Tensor:
        """Return the quantiles (B, h, C, K) around a forecast (B, h, C), with the spread (B, 1, C) of each window."""
        assert self.offsets is not None
        return forecast[..., None] + spread[..., None] * self.offsets

    def forward(self, past: Tensor, past_known: Tensor | None = None, future_known: Tensor | None = None) -> Tensor:
        """Return the forecast (B, h, C) of a context (B, T, C); only a path with known covariates reads them."""
        mean = past.mean(1, keepdim=True)
        product = "btc,th->bhc" if self.weight.dim() == 2 else "btc,cth->bhc"
        forecast = torch.einsum(product, past - mean, self.weight) + mean
        if self.layout is None or self.known_weight is None:
            return forecast
        assert past_known is not None
        assert future_known is not None
        features = self.layout.features(past_known, future_known)  # (B, M)
        return forecast + torch.einsum("bm,cmh->bhc", features, self.known_weight)

    @torch.no_grad()
    def start_from(self, weight: Tensor, known: Tensor | None = None, offsets: Tensor | None = None) -> None:
        """Copy `weight` (look_back, h) to the newest steps of the context; older steps get weight 0.

        A path with a map of each series takes (C, look_back, h), or (look_back, h) for all of them. The context is
        centered by the mean of all its steps. For a shorter `weight`, a correction makes the result that of centering
        by the mean of its own steps. `known` (C, M, h) are the weights of the known inputs; None: 0. `offsets`
        (h, C, K) are those of the quantiles; None: they stay.
        """
        if offsets is not None:
            assert self.offsets is not None
            self.offsets.copy_(offsets)
        if self.known_weight is not None:
            self.known_weight.zero_()
            if known is not None:
                self.known_weight.copy_(known)
        self.weight.copy_(extended(weight.to(self.weight), self.weight.shape[-2]))


def extended(weight: Tensor, look_back: int) -> Tensor:
    """Return weights (..., look_back, h) that forecast the same as `weight` (..., newest steps, h).

    `weight` belongs to a context that is centered by the mean of its own steps, the result to one of `look_back` steps.
    """
    newest = weight.shape[-2]
    if newest == look_back:
        return weight
    longer = weight.new_zeros(*weight.shape[:-2], look_back, weight.shape[-1])
    longer[..., -newest:, :] = weight + (1 - weight.sum(-2, keepdim=True)) / newest
    return longer


class Sum(nn.Module):
    """Sum of the linear path and of `decoded` less its `level`; both are trained on one loss."""

    def forward(self, decoded: Tensor, linear: Tensor, level: Tensor) -> Tensor:
        return linear + (decoded - level)

    def quantiles(self, decoded: Tensor, linear: Tensor, level: Tensor) -> Tensor:
        """Return quantiles (B, h, C, K): those of `decoded`, moved by the linear path's point forecast (B, h, C)."""
        return linear[..., None] + (decoded - level[..., None])


class WeightedMean(nn.Module):
    """Weighted mean of two forecasts, each trained on its own loss; only the gradient norm is limited jointly.

    `mixing_weight`, the weight of the encoder-decoder in [0, 1], is 0 at first. Training sets it to the best weight on
    validation, shrunk towards 0. Errors of separate forecasts partly cancel, whereas a model of residuals also learns
    their noise. Source: Bates and Granger, "The Combination of Forecasts", Operational Research Quarterly 20 (1969).
    """

    mixing_weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mixing_weight", torch.zeros(()))

    def forward(self, decoded: Tensor, linear: Tensor, level: Tensor) -> Tensor:
        return linear + self.mixing_weight * (decoded - linear)

    def quantiles(self, decoded: Tensor, linear: Tensor) -> Tensor:
        """Return the weighted mean of two quantile forecasts (B, h, C, K), in a form that keeps their order exactly."""
        return (1 - self.mixing_weight) * linear + self.mixing_weight * decoded
