"""Window normalization and forward fill."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


def observed_mean(past: Tensor, observed: Tensor) -> Tensor:
    """Return the mean of the observed steps of a context (B, T, C), shape (B, 1, C); 0 without any."""
    return torch.where(observed, past, 0).sum(1, keepdim=True) / observed.sum(1, keepdim=True).clamp(min=1)


def forward_fill(past: Tensor, observed: Tensor) -> Tensor:
    """Replace each unobserved value of the context (B, T, C) by the last observed value before it.

    Before the first observed value, use the mean of the window's observed values, or 0 without any.
    """
    length = past.shape[1]
    steps = torch.arange(length, device=past.device).view(1, length, 1)
    newest = torch.where(observed, steps, -1)
    reach = 1
    while reach < length:  # a cumulative maximum by doubling: ONNX has no cummax
        newest = torch.maximum(newest, functional.pad(newest[:, :-reach], (0, 0, reach, 0), value=-1))
        reach *= 2
    mean = observed_mean(past, observed)
    known = torch.where(observed, past, mean)
    return torch.where(newest < 0, mean, known.gather(1, newest.clamp(min=0)))


EPSILON = 1e-5
"""Added to the variance of a window, in units of the training variance, so that a constant window stays finite."""


LEAST_SPREAD = 0.2
"""Least spread of a window, in standard deviations of the training split: a constant look-back can still be followed
by a change."""


def window_spread(past: Tensor, observed: Tensor | None) -> Tensor:
    """Return the spread of each window and channel, shape (B, 1, C): the scale of its forecast quantiles.

    It is the standard deviation of the observed steps of the context (B, T, C), and at least about `LEAST_SPREAD`.
    """
    if observed is None:
        variance = (past - past.mean(1, keepdim=True)).square().mean(1, keepdim=True)
    else:
        centered = torch.where(observed, past - observed_mean(past, observed), 0)
        variance = observed_mean(centered.square(), observed)
    return (variance + LEAST_SPREAD**2).sqrt()


class Statistics(NamedTuple):
    """Level and standard deviation of each window and channel, shape (B, 1, C)."""

    level: Tensor
    scale: Tensor


class WindowNormalization(nn.Module):
    """Normalization of each window by its level and standard deviation.

    The level is the mean of the last `newest` observed steps, or of all observed steps if `newest` is None, as
    published. With a recent level, the network forecasts the change from the latest values, which suits series that
    drift. The standard deviation is that of the whole window.

    Sources: Kim et al., "Reversible Instance Normalization for Accurate Time-Series Forecasting against Distribution
    Shift", ICLR 2022, without its learned affine map. The recent level follows NLinear: Zeng et al., "Are Transformers
    Effective for Time Series Forecasting?", AAAI 2023.
    """

    def __init__(self, newest: int | None = None) -> None:
        super().__init__()
        self.newest = newest

    def normalize(self, past: Tensor, observed: Tensor | None) -> tuple[Tensor, Statistics]:
        """Return the normalized context (B, T, C) and its statistics; unobserved values become the window's mean."""
        if observed is None:
            mean = past.mean(1, keepdim=True)
            centered = past - mean
            variance = centered.square().mean(1, keepdim=True)
        else:
            mean = observed_mean(past, observed)
            centered = torch.where(observed, past - mean, 0)
            variance = observed_mean(centered.square(), observed)
        scale = (variance + EPSILON).sqrt()
        if self.newest is None:
            return centered / scale, Statistics(mean, scale)
        rise = self._rise(centered, observed)
        return (centered - rise) / scale, Statistics(mean + rise, scale)

    def _rise(self, centered: Tensor, observed: Tensor | None) -> Tensor:
        """Return the mean of the newest observed steps, relative to the window's mean, (B, 1, C); 0 without any."""
        assert self.newest is not None
        if observed is None:
            return centered[:, -self.newest :].mean(1, keepdim=True)
        steps = observed.to(centered.dtype)  # exact up to 2^24; ONNX has no cumulative sum of booleans
        after = steps.sum(1, keepdim=True) - steps.cumsum(1)
        return observed_mean(centered, observed & (after < self.newest))

    def restore(self, forecast: Tensor, statistics: Statistics) -> Tensor:
        """Return the forecast, (B, h, C_out) or (B, h, C_out, K), on the scale of the first channels of the context."""
        targets = forecast.shape[2]
        scale, level = statistics.scale[..., :targets], statistics.level[..., :targets]
        if forecast.dim() == 4:
            scale, level = scale[..., None], level[..., None]
        return forecast * scale + level


class NoNormalization(nn.Module):
    """No normalization: only unobserved values are replaced, by the mean of the observed ones."""

    def normalize(self, past: Tensor, observed: Tensor | None) -> tuple[Tensor, Statistics]:
        """Return the context (B, T, C), level 0 and standard deviation 1."""
        if observed is not None:
            past = torch.where(observed, past, observed_mean(past, observed))
        neutral = past.new_zeros(1, 1, past.shape[2])
        return past, Statistics(neutral, neutral + 1)

    def restore(self, forecast: Tensor, statistics: Statistics) -> Tensor:
        """Return `forecast` unchanged."""
        return forecast
