"""Model of a training's peak memory by batch size and look-back, fitted to a few small measurements."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

FIT_DEGREE = 2
"""Degree of the polynomial in the look-back: the scores of all token pairs grow quadratically, all else slower."""


@dataclass(frozen=True)
class Line:
    """Peak bytes of a pass: `fixed`, plus `window` for each of its windows."""

    fixed: float
    window: float

    @classmethod
    def through(cls, first: tuple[int, int], second: tuple[int, int]) -> "Line":
        """Return the line through two points (windows, bytes)."""
        window = max(0.0, (second[1] - first[1]) / (second[0] - first[0]))
        return cls(second[1] - window * second[0], window)

    @classmethod
    def proportional(cls, windows: int, held: int) -> "Line":
        """Return the line through one point and the origin: an upper bound beyond the point."""
        return cls(0.0, held / windows)

    def at(self, windows: int) -> float:
        """Return the bytes for this number of windows."""
        return self.fixed + self.window * windows


@dataclass(frozen=True)
class Level:
    """Measured bytes at one look-back."""

    context_length: int
    held: float  # between steps: weights and optimizer state
    step: Line  # additional bytes of a training step
    evaluation: Line  # additional bytes of an evaluation batch

    def transient(self, batch: int, evaluation_batch: int) -> float:
        """Return the bytes of the larger pass."""
        return max(self.step.at(batch), self.evaluation.at(evaluation_batch))


@dataclass(frozen=True)
class Footprint:
    """Model of peak memory, interpolated and extrapolated from measured levels, which include `look_back`."""

    look_back: int  # the configured one
    base: float  # peak bytes outside passes: libraries, data, weights
    factor: float  # bytes that the system counts per byte that torch allocates in a pass
    levels: Sequence[Level]  # by increasing look-back

    def peak(self, context_length: int, batch: int, evaluation_batch: int) -> float:
        """Return the expected peak bytes of a training."""
        more = self._at(context_length, lambda level: level.held) - self._at(self.look_back, lambda level: level.held)
        step = self._at(context_length, lambda level: level.step.at(batch))
        evaluation = self._at(context_length, lambda level: level.evaluation.at(evaluation_batch))
        return self.base + more + self.factor * max(step, evaluation)

    def largest_batch(self, evaluation_batch: int, memory: float, most: int) -> int:
        """Return the largest batch whose step fits at the configured look-back, at most `most`, 0 if none fits."""
        return _largest(lambda batch: self.peak(self.look_back, batch, evaluation_batch) <= memory, most)

    def largest_look_back(self, batch: int, evaluation_batch: int, memory: float, most: int) -> int | None:
        """Return the longest look-back that fits, at most `most`, 0 if none fits.

        Return None with fewer than three measured points: two points would miss quadratic growth.
        """
        if len(self.levels) <= FIT_DEGREE:
            return None
        return _largest(lambda length: self.peak(length, batch, evaluation_batch) <= memory, most)

    def _at(self, context_length: int, value: Callable[[Level], float]) -> float:
        """Return a measured value, or its extrapolation at another look-back."""
        measured = {level.context_length: value(level) for level in self.levels}
        if context_length in measured:
            return measured[context_length]
        return _extrapolate(list(measured.items()), context_length)


def calibrated(measured: float, base: float, transient: float) -> float:
    """Return the factor for which `base + factor * transient` equals the measured peak, limited to 1 to 1.5."""
    least, most = 1.0, 1.5  # after a small pass the memory of libraries dominates the measurement
    return min(most, max(least, (measured - base) / transient)) if transient > 0 else 1.0


def _extrapolate(points: Sequence[tuple[int, float]], x: int) -> float:
    """Return the value at `x` of the parabola through three points, or of a line through two if it bends down."""
    scale = points[-1][0]
    ratios, values = [length / scale for length, _ in points], [value for _, value in points]
    coefficients = np.polyfit(ratios, values, FIT_DEGREE)
    if coefficients[0] < 0:
        coefficients = np.polyfit(ratios[-2:], values[-2:], 1)
    return float(np.polyval(coefficients, x / scale))


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest number from 1 to `most` that fits, 0 if none fits; all below a number that fits fit too."""
    return bisect_left(range(1, most + 1), True, key=lambda number: not fits(number))
