"""The significance of a difference: effective sample size, block length, circular block bootstrap."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import ndtri, stdtrit
from torch import Tensor

from forecast.common.group import Group


class WindowErrors:
    """Squared errors of the validation windows, collected in batches in order of time.

    A window's MSE is a weighted sum of its K numbers; the weights can be chosen later.
    """

    def __init__(self) -> None:
        self._numbers: list[Tensor] = []

    def add(self, numbers: Tensor) -> None:
        """Add the numbers (B, K) of a batch."""
        self._numbers.append(numbers)

    def mse(self, weights: Sequence[float], group: Group) -> Tensor:
        """Return the MSE of the windows of all processes in order of time, shape (n,), float64."""
        return self._of_all(torch.cat(self._numbers).cpu() @ torch.tensor(weights, dtype=torch.float64), group)

    def numbers(self, group: Group) -> Tensor:
        """Return the numbers of the windows of all processes in order of time, shape (n, K), float64."""
        return self._of_all(torch.cat(self._numbers).cpu().double(), group)

    @staticmethod
    def _of_all(ours: Tensor, group: Group) -> Tensor:
        """Return the rows of all processes, whose shares of the windows follow one another in order of rank."""
        return ours if group.size == 1 else torch.cat(group.gather(ours))


FEWEST = 8
"""Fewest blocks for a significant result: fewer agree by chance too often, for example three of a random walk."""


@dataclass(frozen=True)
class Evidence:
    """Scores of the weights before the first step; trained weights must be significantly better to replace them.

    `score` is the MSE, or the quantile loss, over all targets. `start` (n,) is that of each validation window in order
    of time, NaN without a target.
    `overlap` is the number of consecutive windows that share targets with the first. `confidence` is from 0.5 to 1.
    """

    score: float
    start: Tensor
    overlap: int
    confidence: float

    def beaten_by(self, score: float, windows: Tensor, fewest: int = FEWEST) -> bool:
        """Return whether `score`, with that of each window (n,), is significantly below the start's."""
        return score + self.allowance(windows, fewest) < self.score

    def allowance(self, windows: Tensor, fewest: int = FEWEST) -> float:
        """Return the margin of error of the mean of `windows` (n,) minus the start; inf below `fewest` blocks."""
        means = block_means(windows - self.start, self.overlap, fewest)
        return allowance(means, self.confidence) if len(means) >= fewest else math.inf


def block_means(difference: Tensor, overlap: int, fewest: int = FEWEST, *, lengthen: bool = True) -> Tensor:
    """Return the means of blocks of differences (n,), in order of time; one mean if there are less than `overlap`.

    Blocks are at least two overlaps long, and longer if the correlation lasts, unless `lengthen` is False. They are
    shorter, down to one overlap, if that leaves fewer than `fewest`. NaN is ignored.
    """
    difference = difference[~difference.isnan()]
    if not len(difference):
        return difference
    lasts = memory(difference.double().cpu().numpy(), overlap) if lengthen else 0
    wanted = least_block(lasts, overlap)
    blocks = max(len(difference) // wanted, min(fewest, count_blocks(len(difference), overlap)))
    return torch.stack([block.mean() for block in difference.tensor_split(blocks)])


def count_blocks(windows: int, overlap: int) -> int:
    """Return the largest number of blocks of at least `overlap` of some windows; 1 if they are fewer."""
    return max(1, windows // overlap)


def allowance(means: Tensor, confidence: float) -> float:
    """Return the one-sided margin of error of the mean of at least two blocks.

    The blocks count as independent (batch means); the quantile of their mean is Student's t.

    References
    ----------
    Law and Carson, "A sequential procedure for determining the length of a steady-state simulation", Operations
    Research 27 (1979), for batch means.
    """
    return float(stdtrit(len(means) - 1, confidence) * means.std() / math.sqrt(len(means)))


def surely_below_zero(means: Tensor, confidence: float, fewest: int = FEWEST) -> bool | None:
    """Return whether a difference is significantly negative, from its `block_means`; None with too few blocks."""
    if len(means) < fewest:
        return None
    return float(means.mean()) + allowance(means, confidence) < 0


def autocovariances(series: np.ndarray) -> np.ndarray:
    """Return the autocovariance at every lag from 0 to n - 1, normalized by n."""
    count = len(series)
    spectrum = np.fft.rfft(series - series.mean(), 2 * count)
    return np.asarray(np.fft.irfft(np.abs(spectrum) ** 2, 2 * count)[:count] / count)


def block_length(series: np.ndarray) -> float:
    """Return the block length that minimizes the error of the circular block bootstrap's variance of the mean.

    Notes
    -----
    Differs from the papers in: lags are not limited to √n, nor the length to 3√n, since overlapping windows are
    correlated over more steps.

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
    """Return the lag after which the autocorrelation is insignificant for a run of lags."""
    count = len(correlation)
    small = np.abs(correlation[1:]) < 2 * math.sqrt(math.log10(count) / count)
    run = min(len(small), max(5, math.ceil(math.sqrt(math.log10(count)))))
    quiet = np.lib.stride_tricks.sliding_window_view(small, run).all(axis=1)
    return int(quiet.argmax()) if quiet.any() else len(small)


LONGER, MEMORIES = 1.5, 3.5
"""Length of a block in lengths of `block_length`, and in memories. More would find fewer of the true differences."""


def memory(series: np.ndarray, overlap: int) -> float:
    """Return how long the correlation of `series` lasts, in steps: the sum of |k| R(k) over the sum of R(k).

    R(k) is the autocovariance at lag k. Blocks of length l miss the share `memory` / l of the variance of the mean.

    Notes
    -----
    The overlap alone makes it a third of `overlap`. Values one overlap apart count as an autoregression of order 1.
    The flat-top window of `block_length` sees half of a correlation that lasts for a tenth of the series.
    """
    count, covariance = len(series), autocovariances(series)
    shared = (overlap - 1 / overlap) / 3
    if count <= overlap or covariance[0] <= 0:
        return shared
    correlation = min(max(covariance[overlap] / covariance[0] * count / (count - overlap), 0.0), LARGEST)
    return float(shared + overlap * 2 * correlation / (1 - correlation**2))


LARGEST = 0.98
"""Largest correlation of values one overlap apart that `memory` uses."""


def least_block(lasts: float, overlap: int) -> int:
    """Return the least length of a block for a `memory` of `lasts` steps: two overlaps, and `MEMORIES` memories."""
    return max(2 * overlap, math.ceil(MEMORIES * lasts))


LEVEL, DRAWS = 0.99, 9999

LEAST_BLOCKS, MOST_BLOCKS = 5, 200
"""Minimum and maximum number of blocks of a series; more blocks add no precision."""


@dataclass(frozen=True)
class Interval:
    """The mean of a series of `count` values and its confidence interval [`low`, `high`], in the unit of the series.

    `capped`: the series is too short for blocks of two overlaps, or `lasting`; the interval may be too narrow.
    `lasting`: the correlation outlives the blocks, which miss half of the variance of the mean or more.
    """

    mean: float
    low: float
    high: float
    count: int
    block: int
    capped: bool = False
    lasting: bool = False


def mean_interval(series: np.ndarray, overlap: int, *, level: float = LEVEL, draws: int = DRAWS) -> Interval | None:
    """Return the confidence interval of the mean of `series`; None if the series is too short.

    Parameters
    ----------
    series
        In order of time, without gaps.
    overlap
        Number of neighbours that share data: the horizon, for windows one step apart.
    level
        Confidence level.
    draws
        Number of bootstrap draws; the seed is fixed.

    Notes
    -----
    The block length is `LONGER` times `block_length`, but at least two overlaps and `MEMORIES` times the `memory`.
    `block_length` minimizes the error of the variance; longer blocks bring the error rate of an interval nearer to its
    level (Sun, Phillips and Jin). A block is at most a fifth of the series. `benchmarks.studies.verdicts` measures the
    error rates.
    There is no interval if a fifth is less than one overlap.
    Since the blocks are few, the quantiles of the draws are stretched by √(k / (k - 1)) t / z, with k blocks and
    Student's t of k - 1 degrees of freedom. Above `LEVEL` there are too few draws: the quantiles stay at `LEVEL`, and
    t alone widens the interval.

    References
    ----------
    Politis and Romano, "A circular block-resampling procedure for stationary data", 1992, in Exploring the
    Limits of Bootstrap; Hesterberg, "What teachers should know about the bootstrap", The American Statistician
    69 (2015), for the stretch; Sun, Phillips and Jin, "Optimal bandwidth selection in
    heteroskedasticity-autocorrelation robust testing", Econometrica 76 (2008).
    """
    count = len(series)
    longest = count // LEAST_BLOCKS
    if longest < max(1, overlap):
        return None
    lasts = memory(series, overlap)
    lasting = 2 * lasts > longest
    wanted = max(math.ceil(LONGER * block_length(series)), least_block(lasts, overlap), math.ceil(count / MOST_BLOCKS))
    block = min(wanted, longest)
    blocks, mean = count / block, float(series.mean())
    inner = min(level, LEVEL)
    ends = [(1 - inner) / 2, (1 + inner) / 2]
    stretch = math.sqrt(blocks / (blocks - 1)) * stdtrit(blocks - 1, (1 + level) / 2) / ndtri(ends[1])
    low, high = mean + stretch * (np.quantile(_means(series, block, draws), ends) - mean)
    return Interval(mean, float(low), float(high), count, block, 2 * overlap > longest or lasting, lasting)


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
