"""Calendar features of dates, seasons and future dates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.common.text import counted
from forecast.tables.times.calendars import CalendarDays
from forecast.tables.times.frequency import (
    fixed_step,
    frequency_offset,
    from_wall_time,
    grid_places,
    is_daily,
    times_from,
    times_until,
    to_wall_time,
    whole_grid,
)

_DAY = 86_400.0
_SHORTEST_MONTH = 28 * _DAY

# cycle -> its length in seconds, and the range of steps in seconds (from, below) that can show it. The day of the month
# is for daily steps only: with hour and weekday it identifies nearly every hour of a year, which invites memorization.
_CYCLES: dict[str, tuple[float, float, float]] = {
    "second_of_minute": (60.0, 0.0, 60.0),
    "minute_of_hour": (3600.0, 0.0, 3600.0),
    "hour_of_day": (_DAY, 0.0, _DAY),
    "day_of_week": (7 * _DAY, 0.0, 7 * _DAY),
    "day_of_month": (30.436875 * _DAY, _DAY, _SHORTEST_MONTH),
    "day_of_year": (365.2425 * _DAY, 0.0, _SHORTEST_MONTH),
    "month_of_year": (365.2425 * _DAY, _SHORTEST_MONTH, 365 * _DAY),
}


def calendar_cycles(frequency: str, span: pd.Timedelta | None = None) -> tuple[str, ...]:
    """Return the names of the cycles that rows at this step can show.

    A cycle longer than half the `span` of the training split (`span_of`) is left out: the split does not hold it twice,
    and a model would learn the trend from it. Lengths count in whole days, so that leap years make no difference.
    """
    step = _seconds(frequency)
    longest = np.inf if span is None else span.total_seconds() / 2
    return tuple(
        name for name, (length, least, below) in _CYCLES.items() if least <= step < below and _whole(length) <= longest
    )


def _whole(seconds: float) -> float:
    return seconds if seconds < _DAY else seconds // _DAY * _DAY


def span_of(times: pd.DatetimeIndex, frequency: str) -> pd.Timedelta:
    """Return the duration of these rows in local time, from the first to one step after the last."""
    if not len(times):
        return pd.Timedelta(0)
    end = future_index(times, frequency, 1)[0].tz_localize(None)
    return pd.Timedelta(end - times[0].tz_localize(None))


def check_cycles(names: Sequence[str], frequency: str) -> tuple[str, ...]:
    """Return the user's cycles as a tuple; raise InputError if rows at this step cannot show one of them."""
    for name in names:
        if name not in _CYCLES:
            raise InputError(f"data.calendar: unknown cycle {name!r}: choose from {', '.join(_CYCLES)}")
        if _seconds(frequency) >= _CYCLES[name][2]:
            raise InputError(f"data.calendar: rows every {frequency} cannot show {name}: leave it out, or set null")
    if twice := sorted({name for name in names if list(names).count(name) > 1}):
        raise InputError(f"data.calendar names {', '.join(twice)} twice: name each once")
    return tuple(names)


def calendar_features(index: pd.DatetimeIndex, cycles: Sequence[str]) -> np.ndarray:
    """Return sine and cosine of each cycle at each time, shape (N, 2·len(cycles)), float32, in [-1, 1].

    Each row depends only on its timestamp, in the index's time zone. Columns 2i and 2i + 1 belong to cycle i.
    """
    features = np.empty((len(index), 2 * len(cycles)), dtype=np.float32)
    for place, name in enumerate(cycles):
        if name not in _PHASES:
            raise ValueError(f"unknown calendar cycle {name!r}: choose from {', '.join(_PHASES)}")
        angle = 2 * np.pi * np.asarray(_PHASES[name](index), dtype=np.float64)
        features[:, 2 * place] = np.sin(angle)
        features[:, 2 * place + 1] = np.cos(angle)
    return features


# elapsed fraction of the cycle at each time, in [0, 1)
_PHASES: dict[str, Callable[[pd.DatetimeIndex], pd.Index]] = {
    "second_of_minute": lambda index: (index.second + index.microsecond / 1e6) / 60,
    "minute_of_hour": lambda index: (index.minute + index.second / 60) / 60,
    "hour_of_day": lambda index: (index.hour + index.minute / 60 + index.second / 3600) / 24,
    "day_of_week": lambda index: index.day_of_week / 7,
    "day_of_month": lambda index: (index.day - 1) / index.days_in_month,
    "day_of_year": lambda index: (index.day_of_year - 1) / (365 + index.is_leap_year),
    "month_of_year": lambda index: (index.month - 1) / 12,
}


def seasonal_period(frequency: str) -> int:
    """Return the number of steps in the season of the seasonal naive forecast, at least 1.

    The season is a day for steps below a day, a week for days and a year for longer steps. If the step does not divide
    it, the period is the smallest whole number of at most seven seasons, else the nearest number of steps.
    """
    offset = frequency_offset(frequency)
    if isinstance(offset, CalendarDays):
        return offset.season
    if isinstance(offset, pd.offsets.BusinessDay):
        return _steps_in(5, offset.n)
    months = _months(frequency)
    if months:
        return _steps_in(12, months)
    step = _seconds(frequency)
    if step >= 7 * _DAY:
        return max(1, round(365.2425 * _DAY / step))
    season = _DAY if step < _DAY else 7 * _DAY
    return _steps_in(int(season) * 10**9, round(step * 1e9))  # in nanoseconds


def season_name(period: int, frequency: str) -> str:
    """Return the duration of a season of `period` steps, such as "24 h", "7 days" or "12 months"."""
    offset = frequency_offset(frequency)
    if isinstance(offset, CalendarDays) and not offset.months_of_step:
        whole, rest = divmod(period, offset.season)
        return counted(period, "step") if rest else counted(whole, "week" if offset.period == "week" else "year")
    if isinstance(offset, pd.offsets.BusinessDay):
        return counted(period * offset.n, "business day")
    if months := _months(frequency):
        return counted(period * months, "month")
    seconds = period * _seconds(frequency)
    for length, unit, least in ((7 * _DAY, "week", 2 * 7 * _DAY), (_DAY, "day", 2 * _DAY)):
        if seconds >= least and seconds % length == 0:
            return counted(round(seconds / length), unit)
    for length, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds % length == 0:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:,.6g} s"


def _steps_in(season: int, step: int) -> int:
    """Return the steps in the fewest seasons, at most seven, that are a whole number of steps, else in about one."""
    exact = season // gcd(season, step)
    return exact if exact * step <= 7 * season else max(1, round(season / step))


def future_index(after: pd.Timestamp | pd.DatetimeIndex, frequency: str, horizon: int) -> pd.DatetimeIndex:
    """Return the `horizon` times that follow `after` (the last one, if it is an index); the first is one step later.

    Steps of a day or longer follow the local calendar. A day whose first hour is skipped by a clock change begins after
    the change; a day whose first hour occurs twice begins at the first.
    """
    if horizon < 1:
        raise ValueError(f"horizon {horizon} is below 1")
    offset = frequency_offset(frequency)
    times = after if isinstance(after, pd.DatetimeIndex) else pd.DatetimeIndex([after])
    zone = times.tz if is_daily(fixed_step(offset)) else None
    last = (times if zone is None else to_wall_time(times))[-1]
    try:  # the grid begins after `last` if `last` is not on it
        grid = times_from(last, horizon + 1, offset)
    except (pd.errors.OutOfBoundsDatetime, pd.errors.OutOfBoundsTimedelta, OverflowError):
        raise InputError(
            f"{horizon} steps of {frequency} after {last} go beyond the year 2262: lower the horizon"
        ) from None
    ahead = grid[grid > last][:horizon]
    return ahead if zone is None else from_wall_time(ahead, zone)


def earlier_index(before: pd.DatetimeIndex, frequency: str, count: int) -> pd.DatetimeIndex:
    """Return the `count` times, at least one, that precede the first of `before`; compare `future_index`."""
    offset = frequency_offset(frequency)
    zone = before.tz if is_daily(fixed_step(offset)) else None
    first = (before if zone is None else to_wall_time(before))[0]
    try:  # the grid ends before `first` if `first` is not on it
        grid = times_until(first, count + 1, offset)
    except (pd.errors.OutOfBoundsDatetime, pd.errors.OutOfBoundsTimedelta, OverflowError):
        raise InputError(f"{count} steps of {frequency} before {first} begin before 1678: give more rows") from None
    earlier = grid[grid < first][-count:]
    return earlier if zone is None else from_wall_time(earlier, zone)


def common_grid(times: pd.DatetimeIndex, frequency: str) -> pd.DatetimeIndex:
    """Return all times from the earliest to the latest of several series, in steps of `frequency`."""
    present = pd.DatetimeIndex(times.unique().sort_values())
    places = grid_places(present, frequency, np.arange(len(present)), "")
    return pd.DatetimeIndex(whole_grid(present, places, frequency))


def _seconds(frequency: str) -> float:
    """Return the length of a step in seconds; the mean if it varies."""
    offset = frequency_offset(frequency)
    if isinstance(offset, CalendarDays):
        return offset.seconds
    step = fixed_step(offset)
    if step is not None:
        return step / 1e9
    if isinstance(offset, pd.offsets.BusinessDay):
        return offset.n * _DAY
    start = pd.Timestamp("2023-01-01") + offset
    end = start
    for _ in range(12):
        end = end + offset
    return float((end - start).total_seconds()) / 12


def _months(frequency: str) -> int:
    """Return the number of months in a step, 0 if it is not a number of months."""
    offset = frequency_offset(frequency)
    if isinstance(offset, CalendarDays):
        return offset.months_of_step
    whole = round(_seconds(frequency) / (30.436875 * _DAY))
    monthly = offset.rule_code.split("-")[0].endswith(("MS", "ME", "QS", "QE", "YS", "YE"))
    return whole if monthly and not offset.rule_code.startswith("S") else 0


@dataclass(frozen=True)
class CalendarPart:
    """A cyclic part of the date, such as "hour of day", with a label for each number from 0.

    `numbers` returns the number of each time in the index's time zone.
    """

    name: str
    labels: tuple[str, ...]
    numbers: Callable[[pd.DatetimeIndex], pd.Index]


HOURS = CalendarPart("hour of day", tuple(map(str, range(24))), lambda index: index.hour)
WEEKDAYS = CalendarPart(
    "day of week", ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"), lambda index: index.day_of_week
)
MONTHS = CalendarPart(
    "month of year",
    ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
    lambda index: index.month - 1,
)


def calendar_part(frequency: str) -> CalendarPart | None:
    """Return the hour for steps below a day, the weekday below a week, the month below a year, else None."""
    cycles = calendar_cycles(frequency)
    if "hour_of_day" in cycles:
        return HOURS
    if "day_of_week" in cycles:
        return WEEKDAYS
    return MONTHS if {"day_of_year", "month_of_year"} & set(cycles) else None
