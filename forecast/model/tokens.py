"""Tokens: one a step, or one a patch."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from forecast.model.kernels.dropout import Dropout


@dataclass(frozen=True)
class Sizes:
    """What the data and the task settle: C_out, C_in - C_out, F, T and h."""

    num_targets: int
    num_past_covariates: int
    num_known: int
    context_length: int
    horizon: int

    @property
    def num_channels(self) -> int:
        """C_in."""
        return self.num_targets + self.num_past_covariates


def positions(length: int, d_model: int, like: Tensor) -> Tensor:
    """Return sinusoidal positions (length, d_model) on the device and in the dtype of `like`; the angles are float32.

    Computed, not looked up: no length limit. Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5.
    """
    position = torch.arange(length, dtype=torch.float32, device=like.device)[:, None]
    pair = torch.arange((d_model + 1) // 2, dtype=torch.float32, device=like.device)
    angle = position * torch.exp(pair * (-2 * math.log(10_000.0) / d_model))  # (length, ceil(D / 2))
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)[:, :d_model].to(like.dtype)


class StepEmbedding(nn.Module):
    """One token a step: values by a convolution over three steps, known inputs, position.

    Differs from the paper in: the convolution reads the step and the two before it (the oldest step repeated), not its
    two neighbours with the ends joined, so no step sees a later one; known inputs are the project's calendar cycles,
    through one linear map.
    """

    def __init__(self, num_channels: int, num_known: int, d_model: int, dropout: float) -> None:
        super().__init__()
        self.values = nn.Conv1d(num_channels, d_model, 3, bias=False)
        self.known = nn.Linear(num_known, d_model, bias=False) if num_known else None
        self.dropout = Dropout(dropout)

    def forward(self, values: Tensor, known: Tensor) -> Tensor:
        padded = torch.cat([values[:, :1], values[:, :1], values], 1)  # (B, L + 2, C)
        steps = torch.cat([padded[:, :-2], padded[:, 1:-1], values], 2)  # (B, L, 3 C)
        weight = self.values.weight.transpose(1, 2).flatten(1)  # (D, 3 C): one product in place of a convolution
        if self.known is not None:
            steps, weight = torch.cat([steps, known], 2), torch.cat([weight, self.known.weight], 1)
        tokens = functional.linear(steps, weight)  # (B, L, D)
        tokens = tokens + positions(tokens.shape[1], tokens.shape[2], tokens)
        dropped: Tensor = self.dropout(tokens)
        return dropped


class StepTokens(nn.Module):
    """Makes the encoder's tokens from the context, the decoder's from a start token and zeros.

    Parameters
    ----------
    start_length
        Last steps of the context that the decoder begins with.
    """

    def __init__(self, sizes: Sizes, *, d_model: int, dropout: float, start_length: int) -> None:
        super().__init__()
        self.horizon = sizes.horizon
        self.start_length = start_length
        self.source_length = sizes.context_length
        self.query_length = start_length + sizes.horizon
        self.past = StepEmbedding(sizes.num_channels, sizes.num_known, d_model, dropout)
        self.future = StepEmbedding(sizes.num_channels, sizes.num_known, d_model, dropout)
        self.head = nn.Linear(d_model, sizes.num_targets)

    def source(self, past: Tensor, past_known: Tensor) -> Tensor:
        """Return the encoder's tokens (B, T, D)."""
        tokens: Tensor = self.past(past, past_known)
        return tokens

    def queries(self, past: Tensor, past_known: Tensor, future_known: Tensor) -> Tensor:
        """Return the decoder's tokens (B, start_length + h, D): known past, then zeros."""
        first = past.shape[1] - self.start_length
        values = functional.pad(past[:, first:], (0, 0, 0, self.horizon))
        tokens: Tensor = self.future(values, torch.cat([past_known[:, first:], future_known], 1))
        return tokens

    def read_out(self, decoded: Tensor) -> Tensor:
        """Return the forecast (B, h, C_out) from the decoder's last h tokens."""
        forecast: Tensor = self.head(decoded[:, -self.horizon :])
        return forecast


class PatchTokens(nn.Module):
    """Makes the encoder's tokens from patches of each channel, the decoder's from learned queries.

    With `channels="independent"` each target is a sequence of its own, (B C_out, L, D), in which the past
    covariates' patches follow the target's; with `"mixed"` all channels are one sequence, (B, C L, D).
    A context that the stride does not divide is lengthened at its old end by repeating the oldest step. A horizon
    that a patch does not divide is forecast to the end of the last patch and cut. `stride` is in steps of the context.

    Parameters
    ----------
    patch_length, stride
        Steps in a patch, and from one patch to the next of the context.
    queries
        "last_patch": each learned query has its target's last patch added, embedded as the context's patches are;
        "learned": it has not, and knows of its window only what is known of the future, so that self-attention
        between queries has little to tell.

    Sources: Nie et al., "A Time Series is Worth 64 Words", ICLR 2023, for patches and independent channels; Kim et al.,
    "Are Self-Attentions Effective for Time Series Forecasting?", NeurIPS 2024, for the queries.
    """

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
    ) -> None:
        super().__init__()
        self.num_targets = sizes.num_targets
        self.num_channels = sizes.num_channels
        self.horizon = sizes.horizon
        self.patch_length = patch_length
        self.stride = stride
        self.mixed = channels == "mixed"
        self.carry = queries == "last_patch"
        patches = 1 + max(0, -(-(sizes.context_length - patch_length) // stride))
        self.padding = patch_length + (patches - 1) * stride - sizes.context_length
        self.num_queries = -(-sizes.horizon // patch_length)
        sequences = self.num_channels if self.mixed else 1 + sizes.num_past_covariates
        self.source_length = patches * sequences
        self.query_length = self.num_queries * (sizes.num_targets if self.mixed else 1)

        self.values = nn.Linear(patch_length, d_model)
        self.known = nn.Linear(patch_length * sizes.num_known, d_model, bias=False) if sizes.num_known else None
        marks = self.num_channels if self.mixed else sizes.num_past_covariates
        self.channel = nn.Parameter(torch.randn(marks, d_model) * 0.02) if marks else None
        self.query = nn.Parameter(torch.randn(self.num_queries, d_model) * 0.02)
        self.head = nn.Linear(d_model, patch_length)
        self.dropout = Dropout(dropout)

    def source(self, past: Tensor, past_known: Tensor) -> Tensor:
        """Return the encoder's tokens, (B C_out, L, D) or (B, C_in L, D)."""
        tokens = self.values(self._patches(past))  # (B, C_in, N, D)
        tokens = tokens + positions(tokens.shape[2], tokens.shape[3], tokens)
        if self.known is not None:
            known = self._patches(past_known).permute(0, 2, 3, 1).flatten(2)  # (B, N, P F)
            tokens = tokens + self.known(known)[:, None]
        if self.mixed:
            assert self.channel is not None
            tokens = (tokens + self.channel[:, None]).flatten(1, 2)  # (B, C_in N, D)
        else:
            tokens = self._independent(tokens)
        dropped: Tensor = self.dropout(tokens)
        return dropped

    def queries(self, past: Tensor, past_known: Tensor, future_known: Tensor) -> Tensor:
        """Return the decoder's tokens, (B C_out, M, D) or (B, C_out M, D)."""
        tokens = self.query + positions(self.num_queries, self.query.shape[1], self.query)  # (M, D)
        tokens = tokens.expand(past.shape[0], -1, -1)
        if self.known is not None:
            excess = self.num_queries * self.patch_length - self.horizon
            padded = functional.pad(future_known.transpose(1, 2), (0, excess), mode="replicate")
            patches = padded.unflatten(2, (self.num_queries, self.patch_length))  # (B, F, M, P)
            tokens = tokens + self.known(patches.permute(0, 2, 3, 1).flatten(2))
        tokens = tokens[:, None].expand(-1, self.num_targets, -1, -1)  # (B, C_out, M, D)
        if self.carry:
            newest = past[:, -self.patch_length :, : self.num_targets].transpose(1, 2)  # (B, C_out, P)
            tokens = tokens + self.values(newest)[:, :, None]
        if self.mixed:
            assert self.channel is not None
            return (tokens + self.channel[: self.num_targets, None]).flatten(1, 2)
        return tokens.flatten(0, 1)

    def read_out(self, decoded: Tensor) -> Tensor:
        """Return the forecast (B, h, C_out)."""
        patches: Tensor = self.head(decoded)  # (B C_out, M, P) or (B, C_out M, P)
        series = patches.reshape(-1, self.num_targets, self.num_queries * self.patch_length)
        return series.transpose(1, 2)[:, : self.horizon]  # (B, h, C_out)

    def _patches(self, steps: Tensor) -> Tensor:
        channels_first = steps.transpose(1, 2)  # (B, C, T)
        if self.padding:
            channels_first = functional.pad(channels_first, (self.padding, 0), mode="replicate")
        return channels_first.unfold(2, self.patch_length, self.stride)  # (B, C, N, P)

    def _independent(self, tokens: Tensor) -> Tensor:
        targets = tokens[:, : self.num_targets]  # (B, C_out, N, D)
        if self.channel is not None:
            covariates = (tokens[:, self.num_targets :] + self.channel[:, None]).flatten(1, 2)  # (B, K N, D)
            beside = covariates[:, None].expand(-1, self.num_targets, -1, -1)
            targets = torch.cat([targets, beside], 2)
        return targets.flatten(0, 1)  # (B C_out, N (1 + K), D)
