"""Intervals, quantiles and costs of a forecast: what a user asks for, and the answer."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.data.scaler import rounded
from forecast.evaluation.intervals import interval_levels
from forecast.tables.panel import Ids


@dataclass(frozen=True)
class Question:
    """What a forecast is asked for.

    Parameters
    ----------
    levels
        Central intervals in per cent, above 0 and below 100.
    quantile
        Quantile level of the values, above 0 and below 1; None: the point forecast.
    adaptive
        Whether an input without enough earlier forecasts for adaptive intervals is refused.
    beyond_training
        Whether known covariates far outside the range of training are accepted.
    """

    levels: tuple[float, ...] = ()
    quantile: float | None = None
    adaptive: bool = False
    beyond_training: bool = False

    def __post_init__(self) -> None:
        for level in self.levels:
            if not 0 < level < 100:
                raise InputError(f"levels: {level:g} is not a level in per cent: choose one above 0 and below 100")
        names = [f"{level:g}" for level in self.levels]  # of the columns
        if doubled := [name for name in names if names.count(name) > 1]:
            raise InputError(f"levels: {doubled[0]} is given twice: give each level once")
        if self.quantile is not None and not 0 < self.quantile < 1:
            raise InputError(f"quantile: {self.quantile:g} must be above 0 and below 1")
        if self.adaptive and not self.levels:
            raise InputError("adaptive: there are no intervals to adapt: add levels, such as 80")

    @property
    def is_plain(self) -> bool:
        """Whether only the point forecast is wanted, which needs no calibration."""
        return not self.levels and self.quantile is None

    @property
    def quantiles(self) -> list[float]:
        """The quantile levels to compute: the ends of each interval, then the level of the values."""
        ends = [end for level in self.levels for end in interval_levels(level)]
        return [*ends, *([] if self.quantile is None else [self.quantile])]


def cheapest_quantile(over: float, under: float) -> float:
    """Return the quantile that is cheapest in the mean if a unit above the truth costs `over`, one below it `under`.

    References
    ----------
    The newsvendor problem: Arrow, Harris and Marschak, "Optimal inventory policy", Econometrica 19 (1951).
    """
    for name, cost in (("over", over), ("under", under)):
        if not (math.isfinite(cost) and cost > 0):
            raise InputError(f"cost: {name}={cost:g} must be a positive number")
    exponent = math.frexp(max(over, under))[1] + 1  # so that the sum stays finite
    scaled_over, scaled_under = math.ldexp(over, -exponent), math.ldexp(under, -exponent)
    quantile = scaled_under / (scaled_over + scaled_under)
    if not 0 < quantile < 1:
        raise InputError(f"cost: over={over:g} under={under:g}: one is too small beside the other: leave out --cost")
    return quantile


@dataclass(frozen=True)
class Forecast:
    """The steps after a table, in original units; the index of each frame has the dates, the columns the targets.

    Attributes
    ----------
    values
        The point forecast, or the quantile that was asked for.
    ends
        Lower and upper end of each interval, by its level in per cent.
    adapted_on
        Number of earlier forecasts that scale the intervals, for each model whose form is adaptive.
    forms
        Why the intervals of each model have the plain form; empty where it is adaptive.
    """

    values: pd.DataFrame
    ends: dict[float, tuple[pd.DataFrame, pd.DataFrame]] = field(default_factory=dict)
    adapted_on: tuple[int, ...] = ()
    forms: tuple[str, ...] = ()

    def rounded(self, decimals: dict[str, int], whole: Sequence[str] = ()) -> "Forecast":
        """Return the forecast with the values and interval ends of each target rounded to its decimals.

        Those of the targets `whole` are whole numbers; an interval then holds the whole numbers that it held before.
        """
        ends = {
            level: (rounded(lower, decimals, whole), rounded(upper, decimals, whole))
            for level, (lower, upper) in self.ends.items()
        }
        return replace(self, values=rounded(self.values, decimals, whole), ends=ends)

    def columns(self, target: str, naive: pd.DataFrame | None = None) -> dict[str, pd.Series]:
        """Return the columns beside the value of a target: the ends of its intervals, and the naive forecast."""
        named: dict[str, pd.Series] = {}
        for level, (lower, upper) in self.ends.items():
            named[f"lower_{level:g}"], named[f"upper_{level:g}"] = lower[target], upper[target]
        if naive is not None:
            named["naive"] = naive[target]
        return named

    def wide(self, naive: pd.DataFrame | None = None) -> pd.DataFrame:
        """Return a row per date: the values of all targets, then `<target>_lower_80`, … of each target.

        Raise InputError if such a name is also the name of a target.
        """
        more = {
            f"{target}_{name}": column
            for target in self.values.columns
            for name, column in self.columns(target, naive).items()
        }
        clash = [name for name in more if name in self.values.columns]
        if clash or self.values.index.name in more:
            name = str(clash[0] if clash else self.values.index.name)
            other = "the naive forecast" if name.endswith("_naive") else "an interval"
            raise InputError(
                f"{name!r} is the name of a column of the data and of {other}: choose --layout long, or rename the "
                "column and train again"
            )
        return pd.concat([self.values, pd.DataFrame(more, index=self.values.index)], axis=1) if more else self.values

    def long(self, naive: pd.DataFrame | None = None) -> pd.DataFrame:
        """Return a row per target and date: the columns series, value, lower_80 and so on."""
        parts = []
        for target in self.values.columns:
            part = pd.DataFrame({"value": self.values[target], **self.columns(target, naive)})
            part.insert(0, "series", str(target))
            if (name := part.index.name) in part.columns:
                raise InputError(
                    f"{name!r} is the name of the time column and of a column of --layout long: choose --layout wide"
                )
            parts.append(part)
        return pd.concat(parts)


def mean_of(forecasts: Sequence[Forecast]) -> Forecast:
    """Return the mean of the values and of the interval ends of several forecasts."""
    first = forecasts[0]
    ends = {
        level: (_mean(one.ends[level][0] for one in forecasts), _mean(one.ends[level][1] for one in forecasts))
        for level in first.ends
    }
    adapted_on = tuple(count for other in forecasts for count in other.adapted_on)
    forms = tuple(form for other in forecasts for form in other.forms)
    return Forecast(_mean(one.values for one in forecasts), ends, adapted_on, forms)


def _mean(frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    first, *others = frames
    mean = np.mean([first.to_numpy(), *(frame.to_numpy() for frame in others)], axis=0)
    return pd.DataFrame(mean, index=first.index, columns=first.columns)


@dataclass(frozen=True)
class PanelForecast:
    """The steps after each of S series, in original units.

    Attributes
    ----------
    ids
        The series.
    dates
        Shape (S, h): the time of each step.
    values
        Shape (S, h, C): the point forecast, or the quantile that was asked for.
    naive
        Shape (S, h, C): the seasonal naive forecast.
    targets, time_column
        Names of the columns.
    ends
        Lower and upper ends of each interval, each (S, h, C), by its level in per cent.
    """

    ids: Ids
    dates: list[pd.DatetimeIndex]
    values: np.ndarray
    naive: np.ndarray
    targets: list[str]
    time_column: str
    ends: dict[float, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def table(self, decimals: dict[str, int], *, naive: bool = True, whole: Sequence[str] = ()) -> pd.DataFrame:
        """Return a row for each series and step: its id, its time, the targets, the interval ends of each target."""
        count, horizon, _ = self.values.shape
        columns = {name: self.values[..., place] for place, name in enumerate(self.targets)}
        targets = dict(zip(self.targets, self.targets, strict=True))  # of each column
        for place, target in enumerate(self.targets):
            own: dict[str, np.ndarray] = {}
            for level, (lower, upper) in self.ends.items():
                own |= {f"{target}_lower_{level:g}": lower, f"{target}_upper_{level:g}": upper}
            if naive:
                own[f"{target}_naive"] = self.naive
            columns |= {name: values[..., place] for name, values in own.items()}
            targets |= dict.fromkeys(own, target)
        taken = {*self.ids.columns, self.time_column, *self.targets}
        if clash := [name for name in columns if name in taken and name not in self.targets]:
            raise InputError(
                f"{clash[0]!r} is the name of a column of the data and of the forecast: rename the column and train "
                "again"
            )
        frame = pd.DataFrame({name: values.ravel() for name, values in columns.items()})
        places = {name: decimals[target] for name, target in targets.items() if target in decimals}
        frame = rounded(frame, places, [name for name, target in targets.items() if target in whole])
        ids = self.ids.frame(np.repeat(np.arange(count), horizon))
        return pd.concat([ids, pd.Series(joined(self.dates), name=self.time_column), frame], axis=1)


def mean_of_panels(forecasts: Sequence[PanelForecast]) -> PanelForecast:
    """Return the mean of several forecasts of the same series, and of their interval ends."""

    def mean(arrays: Iterable[np.ndarray]) -> np.ndarray:
        return np.asarray(np.mean(list(arrays), axis=0))

    ends = {
        level: (mean(one.ends[level][0] for one in forecasts), mean(one.ends[level][1] for one in forecasts))
        for level in forecasts[0].ends
    }
    return replace(forecasts[0], values=mean(one.values for one in forecasts), ends=ends)


def joined(dates: Sequence[pd.DatetimeIndex]) -> pd.DatetimeIndex:
    """Return the times of all series, one series after the other."""
    return pd.DatetimeIndex(dates[0].append(list(dates[1:])))
