"""Conversion between original units and z-scores of the training split."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from forecast.common.errors import InputError

LARGEST = 1e15
"""Largest z-score; beyond it, sums of squares overflow in float32."""

LEAST = 1e-9
"""Standard deviation below which a column counts as constant in the check for spikes."""

DIGITS = 5
"""Digits below a standard deviation that a written forecast has at least."""

MOST_DECIMALS = 20
"""Largest number of decimals of a rounded number."""

OUTSIDE = 0.01
"""Share of a column's values, furthest from its median, that the deviation in the check for spikes excludes."""

_CORRECT = "correct it in the file, or leave the cell empty if the value is missing"


def check_spikes(
    values: np.ndarray, times: pd.DatetimeIndex, columns: Sequence[str], observed: np.ndarray | None = None
) -> None:
    """Raise InputError for a training value that would dominate the scale of its column.

    A value may be at most `LARGEST` standard deviations of the other values from the median. A nearly constant column
    gets a standard deviation of 1. `values` are the training rows (N, C), float64, original
    units; `observed` (N, C) is False where a value was filled, None if all were measured.
    """
    for place, name in enumerate(columns):
        column, dates = values[:, place], times
        if observed is not None:
            column, dates = column[observed[:, place]], times[observed[:, place]]
        if not len(column):
            continue  # Scaler.fit raises the error
        distance = np.abs(column - np.median(column))
        count = max(1, int(OUTSIDE * len(column)))
        rest = np.partition(distance, len(column) - count)[: len(column) - count]
        deviation = float(np.sqrt(np.mean(rest**2))) if len(rest) else 0.0
        deviation = deviation if deviation > LEAST else 1.0
        row = int(np.argmax(distance))
        if distance[row] > LARGEST * deviation:
            raise InputError(
                f"column {name!r}, {dates[row]}: {column[row]:g} is {distance[row] / deviation:.0e} standard "
                f"deviations of the other values of the training split from the median: {_CORRECT}"
            )


def statistics_by_series(
    values: np.ndarray,
    series: np.ndarray,
    count: int,
    observed: np.ndarray | None,
    usual: Sequence[float] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of each series of a panel, (S, C), from its training rows.

    `values` (N, C) are the training rows in original units, `series` (N,) their series, `observed` (N, C) is False
    where a value was filled. The variance of a series with fewer than `ENOUGH` values is a weighted mean of its own and
    that of a series of its level in the pool; a constant series has the latter alone, or 1. `usual` (C,) are the
    deviations of the pool relative to the level; None: those of these series.
    """
    mean, variance = np.zeros((count, values.shape[1])), np.zeros((count, values.shape[1]))
    for place in range(values.shape[1]):
        rows = np.isfinite(values[:, place]) if observed is None else observed[:, place]
        column, of = values[rows, place], series[rows]
        size = np.bincount(of, minlength=count)
        mean[:, place] = np.bincount(of, column, count) / np.maximum(size, 1)
        squares = np.bincount(of, (column - mean[of, place]) ** 2, count)
        own = squares / np.maximum(size, 1)
        level = np.abs(mean[:, place])
        own = np.where(own > (ROUNDING * level) ** 2, own, 0.0)  # a constant has a deviation of this size at most
        known = (own > 0) & (level > 0) & (size >= 2)
        ratio = _ratio(np.sqrt(own[known]), level[known]) if usual is None else usual[place]
        pooled = np.where(level > 0, ratio * level, 1.0) ** 2
        weight = np.where(own > 0, np.minimum(size / ENOUGH, 1.0), 0.0)
        variance[:, place] = weight * own + (1 - weight) * pooled
    return mean, np.sqrt(variance)


def _ratio(scale: np.ndarray, level: np.ndarray) -> float:
    """Return the usual deviation of a series, relative to its level."""
    return float(np.median(scale / level)) if len(scale) else 1.0


ENOUGH = 32
"""Training values from which the deviation of a series is its own alone."""

ROUNDING = 1e-12
"""Deviation of a constant series by rounding, as a share of its level."""


class SeriesScaler:
    """Mean and standard deviation of each series of a panel over its training rows.

    `mean` and `scale` have shape (S, C), float64, original units. `names` are the ids of the series.
    """

    def __init__(
        self, mean: np.ndarray, scale: np.ndarray, columns: Sequence[str], names: Sequence[Sequence[str]]
    ) -> None:
        self.mean = np.asarray(mean, dtype=np.float64)
        self.scale = np.asarray(scale, dtype=np.float64)
        self.columns = tuple(str(name) for name in columns)
        self.names = tuple(tuple(str(label) for label in name) for name in names)
        if not self.mean.shape == self.scale.shape == (len(self.names), len(self.columns)):
            raise ValueError(f"{self.mean.shape} means, {self.scale.shape} scales, {len(self.names)} series")

    def decimals(self, columns: Sequence[str]) -> dict[str, int]:
        """Return the decimals with which forecasts of each column are written, as `Scaler.decimals` of the smallest."""
        return Scaler(self.mean.min(0), self.scale.min(0), self.columns).decimals(columns)

    def of_new(
        self, values: np.ndarray, series: np.ndarray, count: int, observed: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and deviation of series that training did not have, (S, C), as `statistics_by_series` does."""
        level = np.abs(self.mean)
        pairs = zip(self.scale.T, level.T, strict=True)
        usual = [_ratio(scale[own > 0], own[own > 0]) for scale, own in pairs]
        return statistics_by_series(values, series, count, observed, usual)

    def transform(self, values: np.ndarray, series: np.ndarray) -> np.ndarray:
        """Return the z-scores, float64, of rows (N, C) of the series (N,)."""
        return np.asarray((np.asarray(values, dtype=np.float64) - self.mean[series]) / self.scale[series])

    def inverse(self, values: np.ndarray, series: np.ndarray) -> np.ndarray:
        """Return original units, float64, of z-scores (B, h, C) of the first C columns of the series (B,)."""
        count = values.shape[-1]
        mean, scale = (table[series, None, :count] for table in (self.mean, self.scale))
        return np.asarray(values, dtype=np.float64) * scale + mean

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain lists; JSON keeps all digits."""
        return {
            "columns": list(self.columns),
            "names": [list(name) for name in self.names],
            "mean": self.mean.tolist(),
            "scale": self.scale.tolist(),
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> SeriesScaler:
        """Return the scaler of a `to_dict` state."""
        return cls(np.array(state["mean"]), np.array(state["scale"]), state["columns"], state["names"])


def rounded(frame: pd.DataFrame, decimals: Mapping[str, int], whole: Sequence[str] = ()) -> pd.DataFrame:
    """Return forecasts with the decimals of each column, those of `whole` as integers unless they are very large."""
    rounded = frame.round({**decimals, **dict.fromkeys(whole, 0)})
    exact = [name for name in whole if (rounded[name].abs() < 2**53).all()]
    return rounded.astype(dict.fromkeys(exact, np.int64)) if exact else rounded


class Scaler:
    """Mean and standard deviation of each column over the training rows.

    `mean` and `scale` have shape (C,), float64, original units; the scale of a constant column is 1.
    """

    def __init__(self, mean: np.ndarray, scale: np.ndarray, columns: Sequence[str]) -> None:
        self.mean = np.asarray(mean, dtype=np.float64)
        self.scale = np.asarray(scale, dtype=np.float64)
        self.columns = tuple(str(name) for name in columns)
        if not self.mean.shape == self.scale.shape == (len(self.columns),):
            raise ValueError(f"{self.mean.shape} means, {self.scale.shape} scales, {len(self.columns)} columns")

    @classmethod
    def fit(cls, values: np.ndarray, columns: Sequence[str], observed: np.ndarray | None = None) -> Scaler:
        """Return the scaler of the training rows (N, C), float64, original units, where `observed` (N, C) is True."""
        from sklearn.preprocessing import StandardScaler  # imported here: predict never fits a scaler and starts sooner

        values = np.asarray(values, dtype=np.float64)
        if observed is not None and not (some := observed.any(0)).all():
            name = columns[int(np.argmin(some))]
            raise InputError(
                f"column {name!r} has no measured value in the training split: choose another data.split, "
                "or leave the column out of data.targets"
            )
        mean, scale = np.empty(len(columns)), np.empty(len(columns))
        for place in range(len(columns)):  # one column at a time, since the table may fill the memory
            column = values[:, [place]]
            if observed is not None:
                column = np.where(observed[:, [place]], column, np.nan)  # StandardScaler ignores NaN
            fitted = StandardScaler().fit(column)
            mean[place], scale[place] = fitted.mean_[0], fitted.scale_[0]
        return cls(mean, scale, columns)

    def decimals(self, columns: Sequence[str]) -> dict[str, int]:
        """Return the decimals with which a forecast of each column is written: a 100,000th of its deviation or finer.

        Sums in float32 are not more exact. A column of tiny numbers is absent: they are not rounded.
        """
        scale = dict(zip(self.columns, self.scale.tolist(), strict=True))
        places = {name: max(0, DIGITS - math.floor(math.log10(scale[name]))) for name in columns}
        return {name: place for name, place in places.items() if place <= MOST_DECIMALS}

    def check_range(self, values: np.ndarray, times: pd.DatetimeIndex, source: str = "") -> None:
        """Raise InputError for values (N, C) so far from the training split that their squares overflow float32.

        `source` names the table in the message.
        """
        furthest = np.maximum(values.max(0) - self.mean, self.mean - values.min(0)) / self.scale
        if not (furthest > LARGEST).any():
            return
        place = int(np.argmax(furthest > LARGEST))
        row = int(np.argmax(np.abs(values[:, place] - self.mean[place])))
        raise InputError(
            f"{source}{', ' if source else ''}column {self.columns[place]!r}, {times[row]}: {values[row, place]:g} is "
            f"{furthest[place]:.0e} standard deviations of the training split from its mean: {_CORRECT}"
        )

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Return the z-scores, float64, of values of shape (…, C) in original units."""
        return (np.asarray(values, dtype=np.float64) - self.mean) / self.scale

    def inverse(self, values: np.ndarray, columns: Sequence[str] | None = None) -> np.ndarray:
        """Return original units, float64, of z-scores of shape (…, C), or (…, len(columns)) of the named columns."""
        place = slice(None) if columns is None else [self.columns.index(name) for name in columns]
        return np.asarray(values, dtype=np.float64) * self.scale[place] + self.mean[place]

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain lists; JSON keeps all digits."""
        return {"columns": list(self.columns), "mean": self.mean.tolist(), "scale": self.scale.tolist()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Scaler:
        """Return the scaler of a `to_dict` state."""
        return cls(np.array(state["mean"]), np.array(state["scale"]), state["columns"])
