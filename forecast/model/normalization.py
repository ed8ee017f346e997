"""Window normalization, and gaps filled forward."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


def observed_mean(past: Tensor, observed: Tensor) -> Tensor:
    """Return the mean over a window's observed steps, shape (B, 1, C) of a context (B, T, C); 0 where there is none."""
    return torch.where(observed, past, 0).sum(1, keepdim=True) / observed.sum(1, keepdim=True).clamp(min=1)


def forward_fill(past: Tensor, observed: Tensor) -> Tensor:
    """Return the context (B, T, C) with each unobserved value replaced by the last observed one before it.

    Without one it becomes the mean of the window's observed values, 0 if there are none.
    """
    length = past.shape[1]
    steps = torch.arange(length, device=past.device).view(1, length, 1)
    newest = torch.where(observed, steps, -1)
    reach = 1
    while reach < length:  # each step has seen twice as many before it after every turn; ONNX has no running maximum
        newest = torch.maximum(newest, functional.pad(newest[:, :-reach], (0, 0, reach, 0), value=-1))
        reach *= 2
    mean = observed_mean(past, observed)
    known = torch.where(observed, past, mean)
    return torch.where(newest < 0, mean, known.gather(1, newest.clamp(min=0)))


EPSILON = 1e-5
"""Added to the variance, in units of the training part's variance: a constant window stays finite."""


class Statistics(NamedTuple):
    """Level and deviation of each window and channel, shape (B, 1, C)."""

    level: Tensor
    deviation: Tensor


class WindowNormalization(nn.Module):
    """Removes the window's level and standard deviation, and restores the targets'.

    The level is the mean of the last `newest` observed steps; None takes all of them, as published. A recent level
    makes the forecast a change from the latest values, which suits a series that drifts: a network with bounded
    outputs would otherwise have to learn each window's level. The deviation is always that of the whole window.

    Sources: Kim et al., "Reversible Instance Normalization for Accurate Time-Series Forecasting against Distribution
    Shift", ICLR 2022, without its learned affine map; for the last value as level (NLinear) Zeng et al., "Are
    Transformers Effective for Time Series Forecasting?", AAAI 2023.
    """

    def __init__(self, newest: int | None = None) -> None:
        super().__init__()
        self.newest = newest

    def normalize(self, past: Tensor, observed: Tensor | None) -> tuple[Tensor, Statistics]:
        """Return the normalised context (B, T, C) and its statistics; unobserved values become the window's mean."""
        if observed is None:
            mean = past.mean(1, keepdim=True)
            centred = past - mean
            variance = centred.square().mean(1, keepdim=True)
        else:
            mean = observed_mean(past, observed)
            centred = torch.where(observed, past - mean, 0)
            variance = observed_mean(centred.square(), observed)
        deviation = (variance + EPSILON).sqrt()
        if self.newest is None:
            return centred / deviation, Statistics(mean, deviation)
        rise = self._rise(centred, observed)
        return (centred - rise) / deviation, Statistics(mean + rise, deviation)

    def _rise(self, centred: Tensor, observed: Tensor | None) -> Tensor:
        """Return how far the newest observed steps lie above the window's mean (B, 1, C); 0 where there are none."""
        assert self.newest is not None
        if observed is None:
            return centred[:, -self.newest :].mean(1, keepdim=True)
        steps = observed.to(centred.dtype)  # counted exactly up to 2^24; ONNX has no running sum of booleans
        after = steps.sum(1, keepdim=True) - steps.cumsum(1)
        return observed_mean(centred, observed & (after < self.newest))

    def restore(self, forecast: Tensor, statistics: Statistics) -> Tensor:
        """Return the forecast (B, h, C_out) on the scale of the context's first C_out channels."""
        targets = forecast.shape[2]
        return forecast * statistics.deviation[..., :targets] + statistics.level[..., :targets]


class NoNormalization(nn.Module):
    """Leaves the z-scores of the training part as they are; unobserved values become the mean of the others."""

    def normalize(self, past: Tensor, observed: Tensor | None) -> tuple[Tensor, Statistics]:
        """Return the context (B, T, C) and statistics that change nothing."""
        if observed is not None:
            past = torch.where(observed, past, observed_mean(past, observed))
        neutral = past.new_zeros(1, 1, past.shape[2])
        return past, Statistics(neutral, neutral + 1)

    def restore(self, forecast: Tensor, statistics: Statistics) -> Tensor:
        """Return `forecast` itself."""
        return forecast
