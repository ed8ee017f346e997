"""An interval for the mean of a correlated series, by the circular block bootstrap."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit  # type: ignore[import-untyped]

from forecast.evaluation.block_length import block_length

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
    """Give the interval for the mean of `series`, None where it is too short for one.

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
    """Give the means of `draws` series of the same length, put together from blocks that wrap around the end."""
    count = len(series)
    whole, rest = divmod(count, block)
    ends = np.concatenate([[0.0], np.cumsum(np.concatenate([series, series[:block]]))])
    starts = np.random.default_rng(0).integers(0, count, (draws, whole + (rest > 0)))
    totals = (ends[block:] - ends[:-block])[starts[:, :whole]].sum(axis=1)
    if rest:
        totals += (ends[rest:] - ends[:-rest])[starts[:, whole]]
    return np.asarray(totals / count)
