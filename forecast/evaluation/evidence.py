"""Whether validation holds one set of weights to be better than the start by more than chance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from scipy.special import stdtrit  # type: ignore[import-untyped]
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
        """Give each window's MSE in order of time, shape (n,), float64, those of all processes on each of them."""
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
        """Give what the mean of `windows` (n,) less the start's may be off by; infinite below `FEWEST` blocks."""
        means = block_means(windows - self.start, self.overlap)
        return allowance(means, self.confidence) if len(means) >= FEWEST else math.inf


def block_means(difference: Tensor, overlap: int) -> Tensor:
    """Give the means of blocks of at least `overlap` windows, of differences (n,) in order of time; of fewer, one.

    A block shares no target with the next block but one; NaN is left out.
    """
    difference = difference[~difference.isnan()]
    if not len(difference):
        return difference
    blocks = max(1, len(difference) // overlap)
    return torch.stack([block.mean() for block in difference.tensor_split(blocks)])


def allowance(means: Tensor, confidence: float) -> float:
    """Give what the mean of at least two blocks may be off by, one way.

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
