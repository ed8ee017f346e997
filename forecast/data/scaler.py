"""Conversion between original units and z-scores of the training split."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
        if observed is not None:
            if not (some := observed.any(0)).all():
                name = columns[int(np.argmin(some))]
                raise InputError(
                    f"column {name!r} has no measured value in the training split: choose another data.split, "
                    "or leave the column out of data.targets"
                )
            values = np.where(observed, values, np.nan)  # StandardScaler ignores NaN
        fitted = StandardScaler().fit(values)
        return cls(fitted.mean_, fitted.scale_, columns)

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
