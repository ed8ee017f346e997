"""The range of the training rows and of their look-backs; warnings and refusals of an input outside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from forecast.common.errors import InputError

MARGIN = 0.1
"""An input is outside if it exceeds the range of training by more than this share of the range's width."""

CLEAR = 1.0
"""Margin of the warnings about known covariates that Python code gets unasked, instead of `MARGIN`."""

ROUNDING = 1e-9
"""Tolerance for rounding, as a share of a column's largest value: the range of a constant column has no width."""

FAR = 10.0
"""A known covariate is refused if it is more than this many widths of the range of training from its middle."""

NAMED = 3
"""Largest number of columns in a warning."""

LIMITS = ("lowest", "highest", "lowest_level", "highest_level", "lowest_spread", "highest_spread")


@dataclass(frozen=True)
class TrainingRange:
    """Limits of each channel and known number in the training split, shape (C,), original units.

    `lowest` and `highest` are of single values. A *level* is the mean of a look-back, a *spread* its standard
    deviation. Only measured values count.
    """

    columns: tuple[str, ...]
    lowest: np.ndarray
    highest: np.ndarray
    lowest_level: np.ndarray
    highest_level: np.ndarray
    lowest_spread: np.ndarray
    highest_spread: np.ndarray

    @classmethod
    def fit(
        cls, values: np.ndarray, columns: Sequence[str], length: int, observed: np.ndarray | None = None
    ) -> TrainingRange:
        """Return the limits of training rows (N, C), float64, with look-backs of `length` steps.

        `observed` (N, C) is False where a value was filled. A look-back without a measured value is left out.
        """
        each = [
            _limits(values[:, place], length, None if observed is None else observed[:, place])
            for place in range(len(columns))  # one column at a time, since the table may fill the memory
        ]
        return cls(tuple(columns), *np.array(each).reshape(-1, len(LIMITS)).T)

    def of(self, columns: Sequence[str]) -> TrainingRange:
        """Return the limits of some columns, without those that have no limits."""
        places = [self.columns.index(name) for name in columns if name in self.columns]
        names = tuple(self.columns[place] for place in places)
        return TrainingRange(names, *(getattr(self, name)[places] for name in LIMITS))

    def warnings(self, context: np.ndarray, observed: np.ndarray | None = None, margin: float = MARGIN) -> list[str]:
        """Return a warning for each way in which a look-back (T, C), original units, leaves the range of training."""
        measured = np.ones(context.shape, dtype=bool) if observed is None else observed
        masked = np.where(measured, context, np.nan)
        seen = np.asarray(measured.any(0))
        empty = np.where(seen, masked, self.lowest)  # a column without a value leaves no range
        level, spread = np.nanmean(empty, axis=0), np.nanstd(empty, axis=0)
        values, limits = (np.nanmin(empty, axis=0), np.nanmax(empty, axis=0)), (self.lowest, self.highest)
        found = [
            self._outside("values", values, limits, seen, margin),
            self._outside("level", (level, level), (self.lowest_level, self.highest_level), seen, margin),
            self._outside("spread", (spread, spread), (self.lowest_spread, self.highest_spread), seen, margin),
        ]
        return [text for text in found if text]

    def horizon_warnings(self, known: np.ndarray, margin: float = MARGIN) -> list[str]:
        """Return a warning if known numbers of a horizon (h, C), original units, leave the range of training."""
        low, high = known.min(0), known.max(0)
        text = self._outside("horizon", (low, high), (self.lowest, self.highest), np.isfinite(low), margin)
        return [text] if text else []

    def refuse_far(self, known: pd.DataFrame, source: str) -> None:
        """Raise InputError for a known number more than `FAR` widths from the middle of its range; NaN is ignored.

        The linear path would follow a wrong unit without bound. A column that is constant in training has the width 1,
        which is also its scale. `source` names the table.
        """
        for name, lowest, highest in zip(self.columns, self.lowest, self.highest, strict=True):
            width = highest - lowest
            width = width if width > ROUNDING * max(abs(lowest), abs(highest)) else 1.0
            values = known[name].to_numpy(np.float64)
            widths = np.abs(values - (lowest + highest) / 2) / width
            if len(widths) and (worst := float(np.nanmax(widths, initial=0.0))) > FAR:
                row = int(np.nanargmax(widths))
                raise InputError(
                    f"{source}, column {name!r}, {known.index[row]}: {values[row]:g} is {worst:.3g} widths of the "
                    f"range of training ({lowest:.4g} to {highest:.4g}) from its middle, more than {FAR:g}: correct it "
                    "or its unit, or accept it with --beyond-training (in Python beyond_training=True)"
                )

    def _outside(
        self,
        what: str,
        reached: tuple[np.ndarray, np.ndarray],
        limits: tuple[np.ndarray, np.ndarray],
        seen: np.ndarray,
        margin: float,
    ) -> str:
        """Return the warning about all columns that `reached` values outside of their limits; empty if none did.

        A pair has the lowest and the highest; `margin` is a share of the width of the limits.
        """
        (low, high), (lowest, highest) = reached, limits
        slack = margin * (highest - lowest) + ROUNDING * np.maximum(np.abs(self.lowest), np.abs(self.highest))
        below, above = seen & (low < lowest - slack), seen & (high > highest + slack)
        places = np.flatnonzero(below | above)
        if not len(places):
            return ""
        texts = []
        for place in places[:NAMED]:
            value = low[place] if below[place] else high[place]
            side = "below" if below[place] else "above"
            span = f"{lowest[place]:.4g} to {highest[place]:.4g}"
            texts.append(f"{self.columns[place]!r} reaches {value:.4g}, {side} the {span} of training")
        more = f"; and {len(places) - NAMED} more columns" if len(places) > NAMED else ""
        return f"{MEANINGS[what]}: {'; '.join(texts)}{more}"

    def to_dict(self) -> dict[str, Any]:
        """Return the limits as plain lists, for the manifest."""
        return {"columns": list(self.columns), **{name: getattr(self, name).tolist() for name in LIMITS}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingRange:
        """Invert `to_dict`; raise ValueError if the limits do not belong to the columns, or are not finite."""
        columns = tuple(str(name) for name in values["columns"])
        limits = [np.array(values[name], dtype=np.float64) for name in LIMITS]
        if any(limit.shape != (len(columns),) or not np.isfinite(limit).all() for limit in limits):
            raise ValueError("the range of training is not finite or has other columns")
        return cls(columns, *limits)


MEANINGS = {
    "values": "the input left the range of training",
    "horizon": "a known covariate of the horizon left the range of training",
    "level": "the level of the look-back (its mean) has drifted",
    "spread": "the spread of the look-back (its standard deviation) has drifted",
}
"""The beginning of each warning."""


PIECE = 2**16
"""Values of a column whose windows are computed at a time, or one look-back if that is longer."""


def _limits(values: np.ndarray, length: int, observed: np.ndarray | None) -> list[float]:
    """Return the `LIMITS` of a column (N,)."""
    length, found = min(length, len(values)), []
    step = max(1, PIECE // length) * length
    for start in range(0, len(values) - length + 1, step):
        rows = slice(start, start + step + length)
        masked = values[rows] if observed is None else np.where(observed[rows], values[rows], np.nan)
        level, spread = _windows(masked, length)
        each = masked, level[:step], spread[:step]  # the window after them is that of the next piece
        found.append([limit.reduce(part) for part in each for limit in (np.fmin, np.fmax)])
    limits = np.array(found)
    return [float((np.fmin, np.fmax)[place % 2].reduce(limits[:, place])) for place in range(len(LIMITS))]


def _windows(values: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of each `length` consecutive values, (N - length + 1,); NaN is left out.

    The values are cut into blocks of `length`. A window is the end of a block and the start of the next one, so its
    sums have no value from outside, and a single huge value leaves those of the others exact.
    """
    blocks = -(-len(values) // length)
    padded = np.full((blocks + 1) * length, np.nan)
    padded[: len(values)] = values
    halves = padded.reshape(blocks + 1, length)
    pairs = np.concatenate([halves[:-1], halves[1:]], 1)  # (blocks, 2 length)
    present = np.isfinite(pairs)
    center = np.zeros((blocks, 1))
    filled = present.any(1)
    center[filled, 0] = np.nanmedian(pairs[filled], 1)  # a level far from 0 would take digits from the squares
    centered = np.where(present, pairs - center, 0.0)
    count, total, squares = (_sums(part, length) for part in (present.astype(np.float64), centered, centered**2))
    some = count > 0
    mean = np.divide(total, count, out=np.full(total.shape, np.nan), where=some)
    square = np.divide(squares, count, out=np.full(total.shape, np.nan), where=some)
    kept = slice(len(values) - length + 1)
    return (center + mean).ravel()[kept], np.sqrt(np.maximum(square - mean**2, 0)).ravel()[kept]


def _sums(pairs: np.ndarray, length: int) -> np.ndarray:
    """Return the sum of the `length` values from each place of the first half of each row on, (blocks, length)."""
    to_the_end = pairs[:, length - 1 :: -1].cumsum(1)[:, ::-1]
    from_the_start = pairs[:, length : 2 * length - 1].cumsum(1)
    sums: np.ndarray = to_the_end + np.concatenate([np.zeros((len(pairs), 1)), from_the_start], 1)
    return sums
