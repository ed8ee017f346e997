"""The memory that a training takes, as a function of its batch and look-back, from a few small measured points."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

FIT_DEGREE = 2
"""Of the polynomial in the look-back: scores of all pairs of tokens grow with the square, all else with less."""


@dataclass(frozen=True)
class Line:
    """Bytes that a pass holds at its peak: `fixed`, and `window` for each of its windows."""

    fixed: float
    window: float

    @classmethod
    def through(cls, first: tuple[int, int], second: tuple[int, int]) -> "Line":
        """Return the line through two points of windows and bytes."""
        window = max(0.0, (second[1] - first[1]) / (second[0] - first[0]))
        return cls(second[1] - window * second[0], window)

    @classmethod
    def proportional(cls, windows: int, held: int) -> "Line":
        """Return the line through a point and none: too much beyond the point, where some of it is fixed."""
        return cls(0.0, held / windows)

    def at(self, windows: int) -> float:
        """Return the bytes of `windows` windows."""
        return self.fixed + self.window * windows


@dataclass(frozen=True)
class Level:
    """Measured bytes at one look-back."""

    context_length: int
    held: float  # between two steps: weights and the optimizer's state
    step: Line  # what a training step adds
    evaluation: Line  # what a batch of an evaluation adds

    def transient(self, batch: int, evaluation_batch: int) -> float:
        """Return the bytes of the larger of the two passes."""
        return max(self.step.at(batch), self.evaluation.at(evaluation_batch))


@dataclass(frozen=True)
class Footprint:
    """A model of peak memory, interpolated and extrapolated from measured levels, which include `look_back`."""

    look_back: int  # the configured one
    base: float  # bytes of its peak outside passes: libraries, data, weights
    factor: float  # bytes that the system counts for each that torch allocates in a pass
    levels: Sequence[Level]  # by rising look-back

    def peak(self, context_length: int, batch: int, evaluation_batch: int) -> float:
        """Return the bytes to expect at the peak of a training."""
        more = self._at(context_length, lambda level: level.held) - self._at(self.look_back, lambda level: level.held)
        step = self._at(context_length, lambda level: level.step.at(batch))
        evaluation = self._at(context_length, lambda level: level.evaluation.at(evaluation_batch))
        return self.base + more + self.factor * max(step, evaluation)

    def largest_batch(self, evaluation_batch: int, memory: float, most: int) -> int:
        """Return the largest batch of which a step fits at the configured look-back, at most `most`, 0 for none."""
        return _largest(lambda batch: self.peak(self.look_back, batch, evaluation_batch) <= memory, most)

    def largest_look_back(self, batch: int, evaluation_batch: int, memory: float, most: int) -> int | None:
        """Return the longest look-back that fits, at most `most`, 0 for none; None with fewer than three points.

        A line through two points would miss quadratic growth.
        """
        if len(self.levels) <= FIT_DEGREE:
            return None
        return _largest(lambda length: self.peak(length, batch, evaluation_batch) <= memory, most)

    def _at(self, context_length: int, value: Callable[[Level], float]) -> float:
        """Return a value of a level that was measured, or the one to expect at another look-back."""
        measured = {level.context_length: value(level) for level in self.levels}
        if context_length in measured:
            return measured[context_length]
        return _extrapolate(list(measured.items()), context_length)


def calibrated(measured: float, base: float, transient: float) -> float:
    """Return the factor that makes a measured peak of `base` and what torch allocated in a pass, within reason."""
    least, most = 1.0, 1.5  # a small pass is lost in what libraries take beside it, and says nothing
    return min(most, max(least, (measured - base) / transient)) if transient > 0 else 1.0


def _extrapolate(points: Sequence[tuple[int, float]], x: int) -> float:
    """Return the parabola through three points; the line through the last two where it would bend down."""
    scale = points[-1][0]
    ratios, values = [length / scale for length, _ in points], [value for _, value in points]
    coefficients = np.polyfit(ratios, values, FIT_DEGREE)
    if coefficients[0] < 0:
        coefficients = np.polyfit(ratios[-2:], values[-2:], 1)
    return float(np.polyval(coefficients, x / scale))


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest number from 1 to `most` that fits, 0 for none, where all below one that fits fit too."""
    return bisect_left(range(1, most + 1), True, key=lambda number: not fits(number))
