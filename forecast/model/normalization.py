"""The window's own mean and deviation: taken off the context, put back on the forecast."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from forecast.model.observed import observed_mean

EPSILON = 1e-5
"""Added to the variance, in units of the training part's variance: a constant window stays finite."""


class Statistics(NamedTuple):
    """Mean and deviation of each window and channel, shape (B, 1, C)."""

    mean: Tensor
    deviation: Tensor


class WindowNormalization(nn.Module):
    """Takes the window's mean and deviation off, and puts the targets' back.

    References
    ----------
    Kim et al., "Reversible Instance Normalization for Accurate Time-Series Forecasting against
    Distribution Shift", ICLR 2022; without its learned affine map.
    """

    def normalize(self, past: Tensor, observed: Tensor | None) -> tuple[Tensor, Statistics]:
        """Give the normalised context (B, T, C) and its statistics; unobserved values become 0."""
        if observed is None:
            mean = past.mean(1, keepdim=True)
            centred = past - mean
            variance = centred.square().mean(1, keepdim=True)
        else:
            mean = observed_mean(past, observed)
            centred = torch.where(observed, past - mean, 0)
            variance = observed_mean(centred.square(), observed)
        deviation = (variance + EPSILON).sqrt()
        return centred / deviation, Statistics(mean, deviation)

    def restore(self, forecast: Tensor, statistics: Statistics) -> Tensor:
        """Give the forecast (B, h, C_out) on the scale of the context's first C_out channels."""
        targets = forecast.shape[2]
        return forecast * statistics.deviation[..., :targets] + statistics.mean[..., :targets]

    def remove(self, forecast: Tensor, statistics: Statistics) -> Tensor:
        """Give what `restore` makes `forecast` of."""
        targets = forecast.shape[2]
        return (forecast - statistics.mean[..., :targets]) / statistics.deviation[..., :targets]


class NoNormalization(nn.Module):
    """Leaves the z-scores of the training part as they are; unobserved values become the mean of the others."""

    def normalize(self, past: Tensor, observed: Tensor | None) -> tuple[Tensor, Statistics]:
        """Give the context (B, T, C) and statistics that change nothing."""
        if observed is not None:
            past = torch.where(observed, past, observed_mean(past, observed))
        neutral = past.new_zeros(1, 1, past.shape[2])
        return past, Statistics(neutral, neutral + 1)

    def restore(self, forecast: Tensor, statistics: Statistics) -> Tensor:
        """Give `forecast` itself."""
        return forecast

    def remove(self, forecast: Tensor, statistics: Statistics) -> Tensor:
        """Give `forecast` itself."""
        return forecast
