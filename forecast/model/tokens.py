"""Tokens: one per step, or one per patch."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from forecast.attention.base import Mask
from forecast.common.losses import levels_error
from forecast.data.known import KnownLayout
from forecast.data.lengths import LONGEST_LOOK_BACK
from forecast.data.static import MOST_SERIES
from forecast.kernels.dropout import Dropout


@dataclass(frozen=True)
class Sizes:
    """Sizes that the data and the task determine: C_out, C_in - C_out, F, T and h, and the kinds of known inputs.

    `num_known` counts all columns F of the known inputs. Of them, `num_known_covariates` are numbers beside the
    calendar; `known_categories` and `past_categories` have the number of values of each categorical column.
    `known_look_back` is the stretch of known covariates before the forecast that the linear path reads; None: it reads
    no known covariates. `num_static` is S, the width of the static covariates of a target. `quantiles` are the K levels
    of a forecast of quantiles; empty for a point forecast. `static_numbers` is the number of static inputs of a series
    that are numbers, and `static_categories` have the number of values of each that is a category.
    """

    num_targets: int
    num_past_covariates: int
    num_known: int
    context_length: int
    horizon: int
    num_known_covariates: int = 0
    known_categories: list[int] = field(default_factory=list)
    past_categories: list[int] = field(default_factory=list)
    known_look_back: int | None = None
    num_static: int = 0
    quantiles: list[float] = field(default_factory=list)
    static_numbers: int = 0
    static_categories: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.quantiles and (reason := levels_error(self.quantiles)):
            raise ValueError(f"quantiles {self.quantiles[:12]} {reason}")
        values = [*self.known_categories, *self.past_categories]
        if not all(isinstance(value, int) and 1 <= value <= MOST_VALUES for value in values):
            raise ValueError(f"numbers of category values must be from 1 to {MOST_VALUES}: {values[:12]}")
        recent = self.known_look_back or 0
        if not all(isinstance(value, int) and 1 <= value <= MOST_SERIES + 1 for value in self.static_categories):
            raise ValueError(f"numbers of static values must be from 1 to {MOST_SERIES + 1}")
        others = (self.num_known_covariates, recent, self.num_static, self.static_numbers, self.layout.num_calendar)
        if min(others) < 0 or recent > self.context_length:
            raise ValueError("numbers of known inputs are negative, or exceed the look-back")

    def with_look_back(self, context_length: int) -> "Sizes":
        """Return the sizes at another look-back; known covariates are read within it."""
        recent = None if self.known_look_back is None else min(self.known_look_back, context_length)
        return replace(self, context_length=context_length, known_look_back=recent)

    @property
    def layout(self) -> KnownLayout:
        """The columns of the known inputs."""
        categories, past = tuple(self.known_categories), tuple(self.past_categories)
        calendar = self.num_known - self.num_known_covariates - len(categories) - len(past)
        return KnownLayout(calendar, self.num_known_covariates, categories, past, self.known_look_back)

    @property
    def static_layout(self) -> KnownLayout:
        """The static inputs of a series, which are the last columns of `future_known`."""
        return KnownLayout(num_dense=self.static_numbers, categories=tuple(self.static_categories))

    @property
    def num_outputs(self) -> int:
        """Number of values that the model forecasts for each step and target: K quantiles, or one point."""
        return max(1, len(self.quantiles))

    @property
    def num_channels(self) -> int:
        """Number of channels C_in, targets and past covariates."""
        return self.num_targets + self.num_past_covariates


MOST_VALUES = 10_000
"""Largest number of values of a category that a stored architecture may have."""

UNKNOWN_RATE = 0.02
"""Share of category values that training replaces by *unknown*, so that the model learns what to do with one."""

STATIC_UNKNOWN_RATE = 0.1
"""The same share for labels and ids of series: a new series has neither."""

MOST_CATEGORY_WIDTH = 16
"""Largest width of the vector of a category."""


class KnownEmbedding(nn.Module):
    """Known inputs, each category replaced by a learned vector: (..., F) to (..., `width`).

    In training, the share `unknown_rate` of the values becomes *unknown* at random.
    """

    def __init__(self, layout: KnownLayout, unknown_rate: float = UNKNOWN_RATE) -> None:
        super().__init__()
        self.unknown_rate = unknown_rate
        self.first = layout.first_category
        counts = (*layout.categories, *layout.past_categories)
        widths = [min(MOST_CATEGORY_WIDTH, 1 + values // 2) for values in counts]
        self.tables = nn.ModuleList(nn.Embedding(*sizes) for sizes in zip(counts, widths, strict=True))
        self.width = self.first + sum(widths)

    def forward(self, known: Tensor) -> Tensor:
        if not self.tables:
            return known
        values = known[..., self.first :].long()
        if self.training:
            values = values * (torch.rand(values.shape, device=values.device) >= self.unknown_rate)
        embedded = [table(values[..., place]) for place, table in enumerate(self.tables)]
        return torch.cat([known[..., : self.first], *embedded], -1)


class StaticEmbedding(nn.Module):
    """The static inputs of each series (B, K) as one vector (B, D), which every token of the series gets.

    It is 0 before the first step, so that training begins without them.
    """

    def __init__(self, layout: KnownLayout, d_model: int) -> None:
        super().__init__()
        self.num_inputs = layout.width
        self.embedding = KnownEmbedding(layout, STATIC_UNKNOWN_RATE)
        self.project = nn.Linear(self.embedding.width, d_model, bias=False)
        nn.init.zeros_(self.project.weight)

    def forward(self, static: Tensor) -> Tensor:
        vector: Tensor = self.project(self.embedding(static))
        return vector


def positions(length: int, d_model: int, like: Tensor) -> Tensor:
    """Return sinusoidal positions (length, d_model), device and dtype of `like`; angles are float32.

    They are computed, not stored, so there is no length limit. Source: Vaswani et al. 2017, arXiv:1706.03762, 3.5.
    """
    position = torch.arange(length, dtype=torch.float32, device=like.device)[:, None]
    pair = torch.arange((d_model + 1) // 2, dtype=torch.float32, device=like.device)
    angle = position * torch.exp(pair * (-2 * math.log(10_000.0) / d_model))  # (length, ceil(D / 2))
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)[:, :d_model].to(like.dtype)


class StepEmbedding(nn.Module):
    """One token per step: the sum of a convolution over three values, a linear map of known inputs, and the position.

    Differs from the paper in: the convolution is causal, with the oldest step repeated, not centered and circular, so
    that no step sees a later one; one linear map embeds the known inputs, the calendar and the known covariates.
    """

    def __init__(self, num_channels: int, num_known: int, d_model: int, dropout: float) -> None:
        super().__init__()
        self.values = nn.Conv1d(num_channels, d_model, 3, bias=False)
        self.known = nn.Linear(num_known, d_model, bias=False) if num_known else None
        self.dropout = Dropout(dropout)

    def forward(self, values: Tensor, known: Tensor) -> Tensor:
        padded = torch.cat([values[:, :1], values[:, :1], values], 1)  # (B, L + 2, C)
        steps = torch.cat([padded[:, :-2], padded[:, 1:-1], values], 2)  # (B, L, 3 C)
        weight = self.values.weight.transpose(1, 2).flatten(1)  # (D, 3 C): the convolution as one matrix product
        if self.known is not None:
            steps, weight = torch.cat([steps, known], 2), torch.cat([weight, self.known.weight], 1)
        tokens = functional.linear(steps, weight)  # (B, L, D)
        tokens = tokens + positions(tokens.shape[1], tokens.shape[2], tokens)
        dropped: Tensor = self.dropout(tokens)
        return dropped


class StepTokens(nn.Module):
    """Tokens of the paper: the encoder reads the context, the decoder a start token and zeros.

    `start_length` is the number of steps of the start token, the last steps of the context.
    """

    names = ("step", "step")

    def __init__(self, sizes: Sizes, *, d_model: int, dropout: float, start_length: int) -> None:
        super().__init__()
        self.horizon = sizes.horizon
        self.start_length = start_length
        self.source_length = sizes.context_length
        self.query_length = start_length + sizes.horizon
        self.known = KnownEmbedding(sizes.layout)
        self.past = StepEmbedding(sizes.num_channels, self.known.width, d_model, dropout)
        self.future = StepEmbedding(sizes.num_channels, self.known.width, d_model, dropout)
        self.shape = (sizes.num_targets, sizes.num_outputs) if sizes.quantiles else (sizes.num_targets,)
        self.head = nn.Linear(d_model, sizes.num_targets * sizes.num_outputs)

    def source(self, past: Tensor, past_known: Tensor, observed: Tensor | None = None) -> Tensor:
        """Return the encoder's tokens (B, T, D)."""
        tokens: Tensor = self.past(past, self.known(past_known))
        return tokens

    def queries(self, past: Tensor, past_known: Tensor, future_known: Tensor, observed: Tensor | None = None) -> Tensor:
        """Return the decoder's tokens (B, start_length + h, D): the start token, then zeros."""
        first = past.shape[1] - self.start_length
        values = functional.pad(past[:, first:], (0, 0, 0, self.horizon))
        tokens: Tensor = self.future(values, self.known(torch.cat([past_known[:, first:], future_known], 1)))
        return tokens

    def masks(self, observed: Tensor | None) -> tuple[Mask, Mask]:
        """Return which tokens of encoder and decoder are visible, (B, T) and (B, start_length + h); None: all are.

        A step is hidden if `observed` (B, T, C_in) has no measured value there. The steps of the horizon are visible.
        """
        if observed is None:
            return None, None
        steps = observed.any(2)
        start = steps[:, steps.shape[1] - self.start_length :]
        return steps, torch.cat([start, steps.new_ones(steps.shape[0], self.horizon)], 1)

    def read_out(self, decoded: Tensor) -> Tensor:
        """Return the forecast (B, h, C_out), or (B, h, C_out, K), from the decoder's last h tokens."""
        forecast: Tensor = self.head(decoded[:, -self.horizon :])
        return forecast.unflatten(2, self.shape) if len(self.shape) > 1 else forecast


class PatchTokens(nn.Module):
    """Tokens of patches: the encoder reads patches of each channel, the decoder learned queries for the horizon.

    The oldest step is repeated until whole patches fill the context. The forecast ends with a whole patch and is cut to
    the horizon.

    Sources: Nie et al., "A Time Series is Worth 64 Words", ICLR 2023, for patches and independent channels; Kim et al.,
    "Are Self-Attentions Effective for Time Series Forecasting?", NeurIPS 2024, for the queries.

    Parameters
    ----------
    patch_length, stride
        Steps of a patch, and steps between the starts of two patches of the context.
    channels
        "independent": each target is a separate sequence, (B C_out, L, D), its patches followed by those of the past
        covariates. "mixed": all channels are one sequence, (B, C_in L, D).
    queries
        "last_patch": the embedded last patch of the target is added to each learned query. "learned": it is not, so
        that queries contain nothing of the window and their self-attention has little to use.
    robust
        Large values of a patch are compressed by asinh, and its missing steps are marked; a patch without a measured
        step is hidden from attention. Otherwise every patch is visible, as the normalization fills its missing values.
    """

    names = ("patch", "horizon patch")

    def __init__(
        self,
        sizes: Sizes,
        *,
        d_model: int,
        dropout: float,
        patch_length: int,
        stride: int,
        channels: str,
        queries: str,
        robust: bool = False,
    ) -> None:
        super().__init__()
        self.robust = robust
        self.num_targets = sizes.num_targets
        self.num_channels = sizes.num_channels
        self.horizon = sizes.horizon
        self.patch_length = patch_length
        self.stride = stride
        self.mixed = channels == "mixed"
        self.adds_last_patch = queries == "last_patch"
        patches = 1 + max(0, -(-(sizes.context_length - patch_length) // stride))
        self.padding = patch_length + (patches - 1) * stride - sizes.context_length
        self.num_queries = -(-sizes.horizon // patch_length)
        sequences = self.num_channels if self.mixed else 1 + sizes.num_past_covariates
        self.source_length = patches * sequences
        self.query_length = self.num_queries * (sizes.num_targets if self.mixed else 1)

        self.values = nn.Linear(patch_length * (2 if robust else 1), d_model)
        self.embedding = KnownEmbedding(sizes.layout)
        width = patch_length * self.embedding.width
        self.known = nn.Linear(width, d_model, bias=False) if width else None
        embedded = self.num_channels if self.mixed else sizes.num_past_covariates
        self.channel = nn.Parameter(torch.randn(embedded, d_model) * 0.02) if embedded else None
        self.query = nn.Parameter(torch.randn(self.num_queries, d_model) * 0.02)
        outputs = (sizes.num_outputs,) if sizes.quantiles else ()
        self.shape = (-1, sizes.num_targets, self.num_queries * patch_length, *outputs)
        self.head = nn.Linear(d_model, patch_length * sizes.num_outputs)
        self.dropout = Dropout(dropout)
        self.static = nn.Linear(sizes.num_static, d_model, bias=False) if sizes.num_static else None
        self.register_buffer(
            "properties", torch.zeros(sizes.num_targets, sizes.num_static) if sizes.num_static else None
        )

    def source(self, past: Tensor, past_known: Tensor, observed: Tensor | None = None) -> Tensor:
        """Return the encoder's tokens, (B C_out, L, D) or (B, C_in L, D)."""
        tokens = self._embedded(past, observed, self._patches)  # (B, C_in, N, D)
        tokens = tokens + self._positions(tokens.shape[2], tokens)
        if self.known is not None:
            known = self._patches(self.embedding(past_known)).permute(0, 2, 3, 1).flatten(2)  # (B, N, P F)
            tokens = tokens + self.known(known)[:, None]
        if self.static is not None:
            others = self.num_channels - self.num_targets
            tokens = tokens + functional.pad(self.static(self.properties), (0, 0, 0, others))[:, None]  # (C_in, 1, D)
        if self.mixed:
            assert self.channel is not None
            tokens = (tokens + self.channel[:, None]).flatten(1, 2)  # (B, C_in N, D)
        else:
            tokens = self._independent(tokens)
        dropped: Tensor = self.dropout(tokens)
        return dropped

    def queries(self, past: Tensor, past_known: Tensor, future_known: Tensor, observed: Tensor | None = None) -> Tensor:
        """Return the decoder's tokens, (B C_out, M, D) or (B, C_out M, D)."""
        tokens = self.query + positions(self.num_queries, self.query.shape[1], self.query)  # (M, D)
        tokens = tokens.expand(past.shape[0], -1, -1)
        if self.known is not None:
            excess = self.num_queries * self.patch_length - self.horizon
            embedded = self.embedding(future_known)
            padded = functional.pad(embedded.transpose(1, 2), (0, excess), mode="replicate")
            patches = padded.unflatten(2, (self.num_queries, self.patch_length))  # (B, F, M, P)
            tokens = tokens + self.known(patches.permute(0, 2, 3, 1).flatten(2))
        tokens = tokens[:, None].expand(-1, self.num_targets, -1, -1)  # (B, C_out, M, D)
        if self.static is not None:
            tokens = tokens + self.static(self.properties)[:, None]
        if self.adds_last_patch:
            newest = slice(-self.patch_length, None), slice(self.num_targets)
            seen = None if observed is None else observed[:, newest[0], newest[1]]
            tokens = tokens + self._embedded(past[:, newest[0], newest[1]], seen, _transposed)[:, :, None]
        if self.mixed:
            assert self.channel is not None
            return (tokens + self.channel[: self.num_targets, None]).flatten(1, 2)
        return tokens.flatten(0, 1)

    def masks(self, observed: Tensor | None) -> tuple[Mask, Mask]:
        """Return which patches the encoder sees, (B C_out, L) or (B, C_in L), and None: each query is visible."""
        if observed is None or not self.robust:
            return None, None
        visible = self._patches(observed.float()).amax(3) > 0  # (B, C_in, N)
        if self.mixed:
            return visible.flatten(1), None
        return self._independent(visible[..., None])[..., 0], None

    def read_out(self, decoded: Tensor) -> Tensor:
        """Return the forecast (B, h, C_out), or (B, h, C_out, K)."""
        patches: Tensor = self.head(decoded)  # (B C_out, M, P K) or (B, C_out M, P K)
        series = patches.reshape(self.shape)  # (B, C_out, M P) or (B, C_out, M P, K)
        return series.transpose(1, 2)[:, : self.horizon]

    def _positions(self, count: int, tokens: Tensor) -> Tensor:
        """Return the positions (N, D) of patches; robust ones are counted back from the newest."""
        before = max(0, LONGEST_LOOK_BACK // self.patch_length - count) if self.robust else 0
        return positions(before + count, tokens.shape[-1], tokens)[before:]

    def _embedded(self, past: Tensor, observed: Tensor | None, cut: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the embedded values of patches, (B, C, …, D), that `cut` takes from steps (B, T, C)."""
        patches = cut(past)
        if self.robust:
            marks = torch.ones_like(past) if observed is None else observed.to(past.dtype)
            patches = torch.cat([cut(past.asinh() * marks), cut(marks)], -1)
        embedded: Tensor = self.values(patches)
        return embedded

    def _patches(self, steps: Tensor) -> Tensor:
        channels_first = steps.transpose(1, 2)  # (B, C, T)
        if self.padding:
            channels_first = functional.pad(channels_first, (self.padding, 0), mode="replicate")
        return channels_first.unfold(2, self.patch_length, self.stride)  # (B, C, N, P)

    def _independent(self, tokens: Tensor) -> Tensor:
        """Return a sequence for each target, (B C_out, N (1 + K), D or 1), of tokens or marks (B, C_in, N, D or 1)."""
        targets = tokens[:, : self.num_targets]  # (B, C_out, N, D)
        if self.channel is not None:
            covariates = tokens[:, self.num_targets :]
            if tokens.is_floating_point():
                covariates = covariates + self.channel[:, None]
            covariates = covariates.flatten(1, 2)  # (B, K N, D)
            covariates = covariates[:, None].expand(-1, self.num_targets, -1, -1)
            targets = torch.cat([targets, covariates], 2)
        return targets.flatten(0, 1)  # (B C_out, N (1 + K), D)


def _transposed(steps: Tensor) -> Tensor:
    return steps.transpose(1, 2)
