"""Scores of forecasts whose truth is known, by origin, step, hour, month and series."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.data.calendar import MONTHS, CalendarPart, calendar_part
from forecast.evaluation.significance import Interval, mean_interval

LEVEL = 0.95
"""Confidence level of the intervals."""

_LOWER = re.compile(r"lower_(.+)")


@dataclass(frozen=True)
class Errors:
    """Errors of forecasts, one row for each value that came.

    `rows` has the columns of `Rolling.table`, the name of each series, and error (forecast minus truth), naive_error if
    there is a naive forecast, and covered_80 and so on. The errors of several series are in units of a `scale`.
    """

    rows: pd.DataFrame
    is_scaled: bool

    @classmethod
    def of(cls, forecasts: pd.DataFrame, scale: Mapping[str, float] | None = None) -> "Errors":
        """Return the errors; those of several series are divided by `scale`, or by the deviation of their truth."""
        rows = forecasts[np.isfinite(forecasts["truth"]) & np.isfinite(forecasts["value"])].reset_index(drop=True)
        if rows.empty:
            raise InputError("no value has come for any step of the forecasts: give a table that has some")
        names, truth = names_of(rows), rows["truth"].to_numpy(np.float64)
        is_scaled = names.nunique() > 1
        size = _sizes(names, rows["truth"], scale) if is_scaled else np.ones(len(rows))
        columns: dict[str, pd.Series | np.ndarray] = {
            "name": names,
            "error": (rows["value"].to_numpy(np.float64) - truth) / size,
        }
        if "naive" in rows:
            columns["naive_error"] = (rows["naive"].to_numpy(np.float64) - truth) / size
        for level in levels_of(rows):
            columns[f"covered_{level}"] = is_inside(rows, level).astype(np.float64)
        return cls(rows.assign(**columns), is_scaled)

    @property
    def levels(self) -> list[str]:
        """The levels of the intervals, as the columns name them."""
        return levels_of(self.rows)

    def by(self, groups: Sequence[str] | pd.Series) -> pd.DataFrame:
        """Return the scores of each group of rows, which is the index."""
        numbers = {"mae": self.rows["error"].abs(), "mse": self.rows["error"] ** 2}
        if "naive_error" in self.rows:
            naive = self.rows["naive_error"]
            numbers |= {"naive_mae": naive.abs(), "naive_mse": naive**2}
        covered = {f"covered_{level}": self.rows[f"covered_{level}"] for level in self.levels}
        grouped = pd.DataFrame({**numbers, **covered}).groupby(
            groups if isinstance(groups, pd.Series) else [self.rows[name] for name in groups], observed=True
        )
        table = grouped.mean()
        table.insert(0, "values", grouped.size())
        if "naive_mse" in table:
            place = list(table).index("naive_mse") + 1
            table.insert(place, "skill", 1 - table["mse"] / table["naive_mse"].where(table["naive_mse"] > 0))
        return table

    def total(self) -> dict[str, float]:
        """Return the scores of all rows."""
        everything = self.by(pd.Series("all", index=self.rows.index)).iloc[0]
        return {str(name): float(value) for name, value in everything.items()}

    def tables(self, frequency: str) -> dict[str, pd.DataFrame]:
        """Return the scores by origin, step, hour of the day (or weekday), month of the year, and series."""
        times = pd.DatetimeIndex(self.rows["time"])
        tables = {"origin": self.by(["origin"]), "step": self.by(["step"])}
        parts = {part.name: part for part in (calendar_part(frequency), MONTHS) if part is not None}
        tables |= {name: self._by_part(part, times) for name, part in parts.items()}
        if self.is_scaled:
            tables["series"] = self.by(["name"])
        return tables

    def _by_part(self, part: CalendarPart, times: pd.DatetimeIndex) -> pd.DataFrame:
        numbers = np.asarray(part.numbers(times))
        table = self.by(pd.Series(numbers, index=self.rows.index))
        return table.set_axis([part.labels[number] for number in table.index]).rename_axis(part.name)

    def better_origins(self) -> tuple[int, int]:
        """Return at how many origins the model has a lower MAE than the naive forecast, and the number of origins."""
        table = self.by(["origin"])
        return int((table["mae"] < table["naive_mae"]).sum()), len(table)

    def against_naive(self) -> Interval | None:
        """Return the MAE of the model minus that of the naive forecast, by origin; None with too few origins."""
        table = self.by(["origin"])
        difference = (table["mae"] - table["naive_mae"]).to_numpy()
        return mean_interval(difference, self.overlap, level=LEVEL)

    @property
    def overlap(self) -> int:
        """Largest number of consecutive origins whose forecasts share a time with the first."""
        last = self.rows.groupby("origin")["time"].max()
        origins = pd.DatetimeIndex(last.index)
        shared = origins.searchsorted(pd.DatetimeIndex(last), side="right") - np.arange(len(origins))
        return int(max(1, shared.max()))


def levels_of(rows: pd.DataFrame) -> list[str]:
    """Return the levels of the intervals in a table, as its columns name them."""
    found = [match[1] for name in rows if (match := _LOWER.fullmatch(str(name)))]
    return [level for level in found if f"upper_{level}" in rows]


def is_inside(rows: pd.DataFrame, level: str) -> np.ndarray:
    """Return which rows have a truth within their interval."""
    return np.asarray((rows["truth"] >= rows[f"lower_{level}"]) & (rows["truth"] <= rows[f"upper_{level}"]))


def names_of(rows: pd.DataFrame) -> pd.Series:
    """Return the name of the series of each row, with its target if there are several."""
    if "target" in rows and rows["target"].nunique() > 1:
        return rows["series"] + ": " + rows["target"]
    return rows["series"].astype(object)


def _sizes(names: pd.Series, truth: pd.Series, scale: Mapping[str, float] | None) -> np.ndarray:
    """Return the unit of each row: the scale of its series, or the standard deviation of its truth."""
    if scale is not None:
        return names.map(dict(scale)).to_numpy(np.float64)
    deviation = truth.groupby(names).transform("std", ddof=0)
    return deviation.where(deviation > 0, 1.0).to_numpy(np.float64)
