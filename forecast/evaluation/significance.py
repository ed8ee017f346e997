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
    """The square errors of single validation windows, taken up batch by batch.

    A batch gives numbers (B, K) of which a window's MSE is a weighted sum, with weights that may be settled later.
    """

    def __init__(self) -> None:
        self._origins: list[Tensor] = []
        self._numbers: list[Tensor] = []

    def add(self, origin: Tensor, numbers: Tensor) -> None:
        """Take up a batch: first target rows (B,), numbers (B, K)."""
        self._origins.append(origin)
        self._numbers.append(numbers)

    def mse(self, weights: Sequence[float], group: Group) -> Tensor:
        """Return each window's MSE in order of time, shape (n,), float64, those of all processes on each of them."""
        own = (
            torch.cat(self._origins).cpu(),
            torch.cat(self._numbers).cpu() @ torch.tensor(weights, dtype=torch.float64),
        )
        parts = [own] if group.size == 1 else group.gather(own)
        origin, mse = (torch.cat(part) for part in zip(*parts, strict=True))
        return mse[origin.argsort()]


FEWEST = 8
"""Blocks below which nothing is taken for sure: three horizons of a random walk agree by chance too often."""


@dataclass(frozen=True)
class Evidence:
    """What the weights before the first step score, window by window: the start is left for what beats it surely.

    Parameters
    ----------
    mse
        Of all targets.
    start
        Shape (n,): the MSE of each validation window, in order of time; NaN of one without a target.
    overlap
        Windows in a row that share targets with the first of them.
    confidence
        Between 0.5 and 1: how sure that has to be.
    """

    mse: float
    start: Tensor
    overlap: int
    confidence: float

    def beaten_by(self, mse: float, windows: Tensor) -> bool:
        """Say whether the MSE of all targets, and of each window (n,), beats the start's by more than chance."""
        return mse + self.allowance(windows) < self.mse

    def allowance(self, windows: Tensor) -> float:
        """Return what the mean of `windows` (n,) less the start's may be off by; infinite below `FEWEST` blocks."""
        means = block_means(windows - self.start, self.overlap)
        return allowance(means, self.confidence) if len(means) >= FEWEST else math.inf


def block_means(difference: Tensor, overlap: int) -> Tensor:
    """Return the means of blocks of at least `overlap` windows, of differences (n,) in order of time; of fewer, one.

    A block shares no target with the next block but one; NaN is left out.
    """
    difference = difference[~difference.isnan()]
    if not len(difference):
        return difference
    blocks = max(1, len(difference) // overlap)
    return torch.stack([block.mean() for block in difference.tensor_split(blocks)])


def allowance(means: Tensor, confidence: float) -> float:
    """Return what the mean of at least two blocks may be off by, one way.

    They are taken for independent (batch means), and their mean's quantile from Student's t.

    References
    ----------
    Law and Carson, "A sequential procedure for determining the length of a steady-state simulation", Operations
    Research 27 (1979), for batch means.
    """
    return float(stdtrit(len(means) - 1, confidence) * means.std() / math.sqrt(len(means)))


def surely_below_zero(means: Tensor, confidence: float, fewest: int = FEWEST) -> bool | None:
    """Say whether a difference is negative by more than chance, by its `block_means`; None where too few can say."""
    if len(means) < fewest:
        return None
    return float(means.mean()) + allowance(means, confidence) < 0


def autocovariances(series: np.ndarray) -> np.ndarray:
    """Return the autocovariance at every lag from 0 to n - 1, each over n."""
    count = len(series)
    spectrum = np.fft.rfft(series - series.mean(), 2 * count)
    return np.asarray(np.fft.irfft(np.abs(spectrum) ** 2, 2 * count)[:count] / count)


def block_length(series: np.ndarray) -> float:
    """Return the block length that makes the circular block bootstrap's variance of the mean most precise.

    Notes
    -----
    Differs from the papers in: the lags that are looked at are not held below √n, and the length not below
    3√n, as windows that overlap are correlated over more than that.

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
    """Return the lag after which the autocorrelation stays within what chance gives for a run of lags."""
    count = len(correlation)
    small = np.abs(correlation[1:]) < 2 * math.sqrt(math.log10(count) / count)
    run = min(len(small), max(5, math.ceil(math.sqrt(math.log10(count)))))
    quiet = np.lib.stride_tricks.sliding_window_view(small, run).all(axis=1)
    return int(quiet.argmax()) if quiet.any() else len(small)


LEVEL, DRAWS = 0.99, 9999

LEAST_BLOCKS, MOST_BLOCKS = 5, 200
"""Blocks that a series is at least to hold, and that it is cut into at most: more make nothing more precise."""


@dataclass(frozen=True)
class Interval:
    """The mean of a series and an interval for what it estimates.

    Parameters
    ----------
    mean, low, high
        In the unit of the series.
    count, block
        Its length, and that of the blocks.
    capped
        Whether longer blocks were asked for than the series has room for: the interval may be too narrow then.
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
        Neighbours that share data with one another: of windows a step apart, the horizon.
    level
        Share of such intervals that hold the true mean.
    draws
        Of the bootstrap; the same draws each time.

    Notes
    -----
    A block is as long as the series' own autocorrelation asks for (`block_length`), and at least twice the
    overlap: blocks of one overlap would miss a third of the variance that the overlap alone makes, of two a
    sixth. It is at most a fifth of the series (`capped` where that is less than was asked for), and there is no
    interval where a fifth is less than one overlap.
    As the blocks are few, the quantiles of the draws are stretched by √(k / (k - 1)) t / z, with k blocks and
    Student's t of k - 1 degrees of freedom. The quantiles are those of `LEVEL` where more than that is asked for:
    further out there are too few draws, and t alone makes the interval wider.

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
    """Return the means of `draws` series of the same length, put together from blocks that wrap around the end."""
    count = len(series)
    whole, rest = divmod(count, block)
    ends = np.concatenate([[0.0], np.cumsum(np.concatenate([series, series[:block]]))])
    starts = np.random.default_rng(0).integers(0, count, (draws, whole + (rest > 0)))
    totals = (ends[block:] - ends[:-block])[starts[:, :whole]].sum(axis=1)
    if rest:
        totals += (ends[rest:] - ends[:-rest])[starts[:, whole]]
    return np.asarray(totals / count)
