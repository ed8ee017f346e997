"""The Informer: tokens, encoder, decoder, normalization and linear path; its quantiles, and its response to inputs."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from statistics import NormalDist
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from forecast.attention.base import Mask
from forecast.common.operations import operations
from forecast.data.known import KnownLayout
from forecast.data.windows import Windows
from forecast.model.decoder import Decoder
from forecast.model.encoder import Encoder
from forecast.model.linear_path import LinearPath, Sum, WeightedMean
from forecast.model.normalization import Statistics, forward_fill, window_spread
from forecast.model.tokens import KnownEmbedding, StaticEmbedding

QUANTILE_SPACING = 0.5
"""Spacing of the quantiles of a fresh head, relative to those of a normal distribution with the window's deviation."""


class Tokens(Protocol):
    """Protocol of `StepTokens` and `PatchTokens`: a window to tokens, decoded tokens to a forecast.

    `names` are those of an encoder token and of a decoder token.
    """

    names: tuple[str, str]

    def source(self, past: Tensor, past_known: Tensor, observed: Tensor | None = None) -> Tensor:
        """Return the encoder's tokens."""

    def queries(self, past: Tensor, past_known: Tensor, future_known: Tensor, observed: Tensor | None = None) -> Tensor:
        """Return the decoder's tokens."""

    def masks(self, observed: Tensor | None) -> tuple[Mask, Mask]:
        """Return which tokens of encoder and decoder are visible, (B, L) and (B, M); None: all are."""

    def read_out(self, decoded: Tensor) -> Tensor:
        """Return the forecast (B, h, C_out), or K numbers for each (B, h, C_out, K), from the decoder's output."""


class Normalization(Protocol):
    """Protocol of `WindowNormalization` and `NoNormalization`."""

    def normalize(self, past: Tensor, observed: Tensor | None) -> tuple[Tensor, Statistics]:
        """Return the normalized context and its statistics."""

    def restore(self, forecast: Tensor, statistics: Statistics) -> Tensor:
        """Return the forecast as z-scores of the training split."""


class Quantiles(nn.Module):
    """Map K raw numbers of each step and series to K rising quantiles.

    The middle number is the median. The others pass through a softplus and are added up outwards from it, so each
    quantile is at least the one below. `levels` are the K levels.
    """

    offset: Tensor

    def __init__(self, levels: Sequence[float]) -> None:
        super().__init__()
        normal = [QUANTILE_SPACING * NormalDist().inv_cdf(level) for level in levels]
        gaps = [high - low for low, high in pairwise(normal)]
        inverse = torch.tensor([math.log(math.expm1(gap)) for gap in gaps])  # softplus of it is the gap
        self.register_buffer("offset", inverse, persistent=False)

    def forward(self, raw: Tensor) -> Tensor:
        """Return the quantiles (…, K) of raw numbers (…, K)."""
        middle = raw.shape[-1] // 2
        below = functional.softplus(raw[..., :middle] + self.offset[:middle]).unbind(-1)
        above = functional.softplus(raw[..., middle + 1 :] + self.offset[middle:]).unbind(-1)
        median = raw[..., middle]
        lower, upper = [median], [median]
        for increment in reversed(below):  # one addition after the other: a parallel sum could cross by rounding
            lower.append(lower[-1] - increment)
        for increment in above:
            upper.append(upper[-1] + increment)
        return torch.stack([*reversed(lower), *upper[1:]], -1)


class Response(nn.Module):
    """Network with two hidden layers from the known inputs of a step (..., F) to the targets of that step (..., C).

    The response is subtracted from the look-back of the encoder-decoder and added to its forecast. So a low price on a
    windy day does not lower the level of the days after it. The last layer starts at zero: training begins without a
    response.
    """

    def __init__(self, layout: KnownLayout, num_targets: int, width: int) -> None:
        super().__init__()
        self.embedding = KnownEmbedding(layout)
        self.hidden = nn.Sequential(
            nn.Linear(self.embedding.width, width), nn.GELU(), nn.Linear(width, width), nn.GELU()
        )
        self.head = nn.Linear(width, num_targets)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, known: Tensor) -> Tensor:
        answer: Tensor = self.head(self.hidden(self.embedding(known)))
        return answer


class Informer(nn.Module):
    """Encoder-decoder that maps a context to a forecast. The future values are not an argument, so they cannot leak.

    `tokens` embeds the input of `encoder` and `decoder` and reads out the forecast. `combination` combines it with the
    forecast of `linear_path`, if there is one. `response` explains the targets by the known inputs of their own step;
    the encoder-decoder forecasts the rest. `static` embeds the static inputs of a series. `num_targets` is C_out.
    `quantiles` are the K levels of a model of quantiles; empty for a point model.

    Source: Zhou et al., "Informer: Beyond Efficient Transformer for Long Sequence Time-Series Forecasting", AAAI 2021,
    arXiv:2012.07436.
    """

    tokens: Tokens
    normalization: Normalization

    def __init__(
        self,
        *,
        tokens: nn.Module,
        encoder: Encoder,
        decoder: Decoder,
        normalization: nn.Module,
        linear_path: LinearPath | None,
        combination: Sum | WeightedMean,
        num_targets: int,
        quantiles: Sequence[float] = (),
        response: Response | None = None,
        static: StaticEmbedding | None = None,
    ) -> None:
        super().__init__()
        self.static = static
        self.response = response
        self.add_module("tokens", tokens)
        self.encoder = encoder
        self.decoder = decoder
        self.add_module("normalization", normalization)
        self.linear_path = linear_path
        self.combination = combination
        self.num_targets = num_targets
        self.levels = tuple(quantiles)
        self.rising = Quantiles(quantiles) if quantiles else None

    def forward(
        self, past: Tensor, past_known: Tensor, future_known: Tensor, past_observed: Tensor | None = None
    ) -> Tensor:
        """Return the forecast (B, h, C_out), z-scores of the training split; the median of a model of quantiles.

        Parameters
        ----------
        past
            Context, shape (B, T, C_in), z-scores of the training split, targets first.
        past_known, future_known
            Inputs known in advance, such as calendar features, shapes (B, T, F) and (B, h, F), in the order of
            `forecast.data.known.KnownLayout`. In a model with static inputs these follow in the last columns of
            `future_known`, the same in each step.
        past_observed
            Boolean, shape (B, T, C_in), False where a value is missing; None if no value is missing. A missing value
            is the window's mean for the encoder-decoder, and the last value before it for the linear path. In
            `model=informer` a step without any value is hidden from attention; `patch_informer` hides nothing.
        """
        if self.rising is not None:
            quantiles = self.forward_quantiles(past, past_known, future_known, past_observed)
            return quantiles[..., quantiles.shape[3] // 2]
        decoded, level = self._decode(past, past_known, future_known, past_observed)
        if self.linear_path is None:
            return decoded
        linear = self.forward_linear_path(past, past_known, future_known, past_observed)
        forecast: Tensor = self.combination(decoded, linear, level)
        return forecast

    def forward_quantiles(
        self, past: Tensor, past_known: Tensor, future_known: Tensor, past_observed: Tensor | None = None
    ) -> Tensor:
        """Return the quantiles (B, h, C_out, K) in rising order; the forecast, with K = 1, of a point model."""
        inputs = past, past_known, future_known, past_observed
        if self.rising is None:
            point: Tensor = self(*inputs)
            return point[..., None]
        if isinstance(self.combination, WeightedMean):
            return self.combination.quantiles(*self.forward_apart(*inputs))
        decoded, level = self._decode(*inputs)
        if self.linear_path is None:
            return decoded
        return self.combination.quantiles(decoded, self.forward_linear_path(*inputs), level)

    @property
    def is_weighted(self) -> bool:
        """Whether the forecast is a weighted mean of encoder-decoder and linear path, each trained on its own loss."""
        return isinstance(self.combination, WeightedMean)

    @property
    def mixing_weight(self) -> float | None:
        """Mixing weight of the encoder-decoder in [0, 1]; None if the forecast is not a weighted mean."""
        return round(float(self.combination.mixing_weight), 6) if isinstance(self.combination, WeightedMean) else None

    @property
    def reads_known(self) -> bool:
        """Whether the forecast depends on known covariates: through the encoder-decoder, or the linear path."""
        return self.mixing_weight != 0 or (self.linear_path is not None and self.linear_path.reads_known)

    def forward_apart(
        self, past: Tensor, past_known: Tensor, future_known: Tensor, past_observed: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the forecasts of encoder-decoder and linear path; requires a linear path.

        Each is (B, h, C_out), or (B, h, C_out, K) in a model of quantiles.
        """
        decoded, _ = self._decode(past, past_known, future_known, past_observed)
        linear = self.forward_linear_path(past, past_known, future_known, past_observed)
        if self.rising is not None:
            assert self.linear_path is not None
            count = self.num_targets
            observed = None if past_observed is None else past_observed[..., :count]
            linear = self.linear_path.quantiles(linear, window_spread(past[..., :count], observed))
        return decoded, linear

    def learners(
        self, past: Tensor, past_known: Tensor, future_known: Tensor, past_observed: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Return the forecasts, (B, h, C_out) or (B, h, C_out, K), that are trained, each on its own loss.

        A weighted mean has two: the encoder-decoder's, and the linear path's unless its weights are fixed.
        """
        if not self.is_weighted:
            inputs = past, past_known, future_known, past_observed
            return (self(*inputs) if self.rising is None else self.forward_quantiles(*inputs),)
        assert self.linear_path is not None
        both = self.forward_apart(past, past_known, future_known, past_observed)
        return both if self.linear_path.weight.requires_grad else both[:1]

    def _decode(
        self, past: Tensor, past_known: Tensor, future_known: Tensor, past_observed: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the forecast of the encoder-decoder, z-scores of the training split, and the windows' level."""
        count, vector = self.num_targets, None
        if self.static is not None:
            future_known, inputs = future_known.tensor_split([-self.static.num_inputs], 2)
            vector = self.static(inputs[:, 0])
        if self.response is not None:
            past = torch.cat([past[..., :count] - self.response(past_known), past[..., count:]], 2)
        normalized, statistics = self.normalization.normalize(past, past_observed)
        mask, query_mask = self.tokens.masks(past_observed)
        memory = self.encoder(_added(self.tokens.source(normalized, past_known, past_observed), vector), mask)
        queries = _added(self.tokens.queries(normalized, past_known, future_known, past_observed), vector)
        decoded = self.tokens.read_out(self.decoder(queries, memory, query_mask, self.encoder.output_mask(mask)))
        decoded = self.normalization.restore(decoded if self.rising is None else self.rising(decoded), statistics)
        if self.response is not None:
            answer = self.response(future_known)
            decoded = decoded + (answer if self.rising is None else answer[..., None])
        return decoded, statistics.level[..., :count]

    @torch.no_grad()
    def set_static(self, values: Tensor) -> None:
        """Copy the static covariates of the targets, shape (C_out, S); no call is needed if S is 0."""
        properties = getattr(self.tokens, "properties", None)
        assert isinstance(properties, Tensor)
        properties.copy_(values)

    def checkpoint_activations(self, enabled: bool) -> None:
        """Enable or disable activation checkpointing: the backward pass recomputes each layer instead of storing it."""
        self.encoder.activation_checkpointing = enabled
        self.decoder.activation_checkpointing = enabled

    def forward_linear_path(
        self, past: Tensor, past_known: Tensor, future_known: Tensor, past_observed: Tensor | None = None
    ) -> Tensor:
        """Return the forecast of the linear path (B, h, C_out); requires a linear path."""
        assert self.linear_path is not None
        filled = past if past_observed is None else forward_fill(past, past_observed)
        forecast: Tensor = self.linear_path(filled[..., : self.num_targets], past_known, future_known)
        return forecast


def _added(tokens: Tensor, vector: Tensor | None) -> Tensor:
    """Return tokens (B n, L, D) plus the vector (B, D) of each window, None for none."""
    if vector is None:
        return tokens
    return tokens + vector.repeat_interleave(tokens.shape[0] // vector.shape[0], 0)[:, None]


@contextmanager
def in_evaluation(network: nn.Module) -> Iterator[None]:
    """Switch `network` to evaluation mode; restore the mode of each module afterwards."""
    modes = {module: module.training for module in network.modules()}
    network.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def flops_per_window(network: Informer, windows: Windows) -> int:
    """Return the operations of one window's forward pass in evaluation mode; restore the mode afterwards."""
    batch = windows.batch(torch.zeros(1, dtype=torch.int64, device=windows.starts.device))
    with in_evaluation(network):
        return operations(lambda: network(batch.past, batch.past_known, batch.future_known, batch.past_observed))
