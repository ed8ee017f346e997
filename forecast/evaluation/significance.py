"""The significance of a difference: effective sample size, block length, circular block bootstrap."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import ndtri, stdtrit  # type: ignore[import-untyped]
from torch import Tensor

from forecast.common.group import Group


class WindowErrors:
    """The squared errors of single validation windows, collected in batches.

    A window's MSE is a weighted sum of its K numbers; the weights may be chosen later.
    """

    def __init__(self) -> None:
        self._origins: list[Tensor] = []
        self._numbers: list[Tensor] = []

    def add(self, origin: Tensor, numbers: Tensor) -> None:
        """Add a batch: first target rows (B,), numbers (B, K)."""
        self._origins.append(origin)
        self._numbers.append(numbers)

    def mse(self, weights: Sequence[float], group: Group) -> Tensor:
        """Return each window's MSE in order of time, shape (n,), float64, for the windows of all processes."""
        own = (
            torch.cat(self._origins).cpu(),
            torch.cat(self._numbers).cpu() @ torch.tensor(weights, dtype=torch.float64),
        )
        parts = [own] if group.size == 1 else group.gather(own)
        origin, mse = (torch.cat(part) for part in zip(*parts, strict=True))
        return mse[origin.argsort()]


FEWEST = 8
"""Fewest blocks for a significant result: three horizons of a random walk agree by chance too often."""


@dataclass(frozen=True)
class Evidence:
    """Scores of the weights before the first step; others must be significantly better to replace them.

    `mse` is over all targets, `start` (n,) that of each validation window in order of time, NaN without a target.
    `overlap` is the number of consecutive windows that share targets with the first, `confidence` is from 0.5 to 1.
    """

    mse: float
    start: Tensor
    overlap: int
    confidence: float

    def beaten_by(self, mse: float, windows: Tensor) -> bool:
        """Return whether `mse` over all targets, with its `windows` (n,), is significantly below the start's."""
        return mse + self.allowance(windows) < self.mse

    def allowance(self, windows: Tensor) -> float:
        """Return the margin of error of the mean of `windows` (n,) minus the start; infinite below `FEWEST` blocks."""
        means = block_means(windows - self.start, self.overlap)
        return allowance(means, self.confidence) if len(means) >= FEWEST else math.inf


def block_means(difference: Tensor, overlap: int) -> Tensor:
    """Return the means of blocks of at least `overlap` differences (n,), in order of time; one mean if there are fewer.

    A block shares no target with the next block but one; NaN is left out.
    """
    difference = difference[~difference.isnan()]
    if not len(difference):
        return difference
    blocks = max(1, len(difference) // overlap)
    return torch.stack([block.mean() for block in difference.tensor_split(blocks)])


def allowance(means: Tensor, confidence: float) -> float:
    """Return the one-sided margin of error of the mean of at least two blocks.

    The blocks are taken as independent (batch means); the quantile of their mean comes from Student's t.

    References
    ----------
    Law and Carson, "A sequential procedure for determining the length of a steady-state simulation", Operations
    Research 27 (1979), for batch means.
    """
    return float(stdtrit(len(means) - 1, confidence) * means.std() / math.sqrt(len(means)))


def surely_below_zero(means: Tensor, confidence: float, fewest: int = FEWEST) -> bool | None:
    """Return whether a difference is significantly negative, by its `block_means`; None if there are too few."""
    if len(means) < fewest:
        return None
    return float(means.mean()) + allowance(means, confidence) < 0


def autocovariances(series: np.ndarray) -> np.ndarray:
    """Return the autocovariance at every lag from 0 to n - 1, each over n."""
    count = len(series)
    spectrum = np.fft.rfft(series - series.mean(), 2 * count)
    return np.asarray(np.fft.irfft(np.abs(spectrum) ** 2, 2 * count)[:count] / count)


def block_length(series: np.ndarray) -> float:
    """Return the block length that minimizes the error of the circular block bootstrap's variance of the mean.

    Notes
    -----
    Differs from the papers in: lags are not limited to √n, nor the length to 3√n, as overlapping windows are correlated
    over more than that.

    References
    ----------
    Politis and White, "Automatic block-length selection for the dependent bootstrap", Econometric Reviews 23
    (2004); Patton, Politis and White, correction, Econometric Reviews 28 (2009).
    """
    count, covariance = len(series), autocovariances(series)
    if covariance[0] <= 0:
        return 1.0
    bandwidth = min(2 * max(1, _last_lag(covariance / covariance[0])), count - 1)
    lags = np.arange(1, bandwidth + 1)
    weighted = np.clip(2 * (1 - lags / bandwidth), 0, 1) * covariance[1 : bandwidth + 1]  # the flat-top window
    spectrum = covariance[0] + 2 * weighted.sum()
    if spectrum <= 0:
        return 1.0
    return float((1.5 * (2 * (lags * weighted).sum() / spectrum) ** 2 * count) ** (1 / 3))


def _last_lag(correlation: np.ndarray) -> int:
    """Return the lag after which the autocorrelation stays within chance for a run of lags."""
    count = len(correlation)
    small = np.abs(correlation[1:]) < 2 * math.sqrt(math.log10(count) / count)
    run = min(len(small), max(5, math.ceil(math.sqrt(math.log10(count)))))
    quiet = np.lib.stride_tricks.sliding_window_view(small, run).all(axis=1)
    return int(quiet.argmax()) if quiet.any() else len(small)


LEVEL, DRAWS = 0.99, 9999

LEAST_BLOCKS, MOST_BLOCKS = 5, 200
"""Fewest and most blocks of a series; more blocks add no precision."""


@dataclass(frozen=True)
class Interval:
    """The mean of a series of `count` values, and its interval [`low`, `high`], in the unit of the series.

    `capped`: the series has no room for the wanted `block` length, so the interval may be too narrow.
    """

    mean: float
    low: float
    high: float
    count: int
    block: int
    capped: bool = False


def mean_interval(series: np.ndarray, overlap: int, *, level: float = LEVEL, draws: int = DRAWS) -> Interval | None:
    """Return the interval for the mean of `series`, None where it is too short for one.

    Parameters
    ----------
    series
        In order of time, without gaps.
    overlap
        Neighbours that share data with one another: for windows a step apart, the horizon.
    level
        Confidence level.
    draws
        Number of bootstrap draws; always the same draws.

    Notes
    -----
    The block length is `block_length`, at least twice the overlap: one overlap would miss a third of the variance that
    the overlap alone makes, two a sixth. It is at most a fifth of the series (`capped` where that is less than wanted).
    There is no interval where a fifth is less than one overlap.
    The blocks are few: the quantiles of the draws are stretched by √(k / (k - 1)) t / z, with k blocks and Student's
    t of k - 1 degrees of freedom. Above `LEVEL`, the quantiles stay at `LEVEL`, where there are enough draws, and t
    alone widens the interval.

    References
    ----------
    Politis and Romano, "A circular block-resampling procedure for stationary data", 1992, in Exploring the
    Limits of Bootstrap; Hesterberg, "What teachers should know about the bootstrap", The American Statistician
    69 (2015), for the stretch.
    """
    count = len(series)
    longest = count // LEAST_BLOCKS
    if longest < max(1, overlap):
        return None
    wanted = max(2 * overlap, math.ceil(block_length(series)), math.ceil(count / MOST_BLOCKS))
    block = min(wanted, longest)
    blocks, mean = count / block, float(series.mean())
    drawn = min(level, LEVEL)
    ends = [(1 - drawn) / 2, (1 + drawn) / 2]
    stretch = math.sqrt(blocks / (blocks - 1)) * stdtrit(blocks - 1, (1 + level) / 2) / ndtri(ends[1])
    low, high = mean + stretch * (np.quantile(_means(series, block, draws), ends) - mean)
    return Interval(mean, float(low), float(high), count, block, wanted > longest)


def _means(series: np.ndarray, block: int, draws: int) -> np.ndarray:
    """Return the means of `draws` resampled series, built from blocks that wrap around the end."""
    count = len(series)
    whole, rest = divmod(count, block)
    ends = np.concatenate([[0.0], np.cumsum(np.concatenate([series, series[:block]]))])
    starts = np.random.default_rng(0).integers(0, count, (draws, whole + (rest > 0)))
    totals = (ends[block:] - ends[:-block])[starts[:, :whole]].sum(axis=1)
    if rest:
        totals += (ends[rest:] - ends[:-rest])[starts[:, whole]]
    return np.asarray(totals / count)
