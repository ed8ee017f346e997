"""Grids that are regular for people."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from tests.support.written.base import Written, cells_of, made, simple, write

DAY = pd.Timedelta(1, "D")


def _months(day: int, count: int = 220) -> pd.DatetimeIndex:
    """Return this day of each month, or its last day in a shorter month."""
    starts = pd.date_range("1995-01-01", periods=count, freq="MS")
    days = np.minimum(day, starts.days_in_month) - 1
    return pd.DatetimeIndex(starts + pd.to_timedelta(days, unit="D"))


def _restarting(step: int, years: int = 5) -> pd.DatetimeIndex:
    """Return every so many days of each year, from 1 January on."""
    first = [pd.Timestamp(2003 + year, 1, 1) for year in range(years)]
    return pd.DatetimeIndex([start + day * DAY for start in first for day in range(0, 365, step)])


def _days_of_months(*days: int, count: int = 70) -> pd.DatetimeIndex:
    starts = pd.date_range("2010-01-01", periods=count, freq="MS")
    times = [start + (min(day, start.days_in_month) - 1) * DAY for start in starts for day in days]
    return pd.DatetimeIndex(times)


def _days(weekdays: int, absent: tuple[str, ...] = ()) -> pd.DatetimeIndex:
    """Return the days of weeks with so many days, from Monday on, but for some."""
    days = pd.date_range("2018-01-01", "2018-12-31", freq="D")
    return days[(days.day_of_week < weekdays) & ~days.isin(pd.DatetimeIndex(absent))]


HOLIDAYS = {
    "New York": ("2018-01-01", "2018-01-15", "2018-02-19", "2018-05-28", "2018-07-04", "2018-09-03", "2018-12-25"),
    "Frankfurt": ("2018-01-01", "2018-03-30", "2018-04-02", "2018-05-01", "2018-12-24", "2018-12-25", "2018-12-31"),
    "London": ("2018-01-01", "2018-03-30", "2018-05-07", "2018-05-28", "2018-08-27", "2018-12-25", "2018-12-26"),
}


def calendars() -> Iterator[Written]:
    """Yield calendars whose steps are not equally long."""
    grids = {
        "month-ends": {
            "30th": _months(30),
            "31st": _months(31),
            "29th": _months(29),
            "last business day": pd.date_range("1995-01-01", periods=220, freq="BME"),
        },
        "days-of-a-month": {"15th": _months(15), "28th": _months(28), "10th": _months(10)},
        "dekads": {
            "from the first": _days_of_months(1, 11, 21),
            "to the last": _days_of_months(10, 20, 31),
            "in the middle": _days_of_months(5, 15, 25),
        },
        "half-months": {
            "first and 15th": _days_of_months(1, 15),
            "first and 16th": _days_of_months(1, 16),
            "15th and last": _days_of_months(15, 31),
        },
        "composites": {"16 days": _restarting(16, 10), "8 days": _restarting(8), "10 days": _restarting(10, 7)},
        "trading-days": {name: _days(5, absent) for name, absent in HOLIDAYS.items()},
        "six-day-weeks": {
            "closed Sundays": _days(6),
            "and two holidays": _days(6, HOLIDAYS["Frankfurt"][1:4:2]),
            "and one holiday": _days(6, HOLIDAYS["Frankfurt"][3:4]),
        },
    }
    for kind, times_of in grids.items():
        for spelling, times in times_of.items():
            yield simple(kind, spelling, "%Y-%m-%d", time="date", times=times)


def drifting() -> Iterator[Written]:
    """Yield daily readings at changing times, which count as their days, and clocks that drift by seconds."""
    for spelling, hours in (("mornings", (5, 9)), ("whole day", (0, 24)), ("evenings", (17, 23))):
        frame = made(300, "2020-02-01", "D", seed=301)
        minutes = np.random.default_rng(len(spelling)).integers(hours[0] * 60, hours[1] * 60, len(frame))
        times = pd.DatetimeIndex(frame.index) + pd.to_timedelta(minutes, unit="min")
        content = write(["read at", *frame.columns], cells_of(frame, [f"{t:%Y-%m-%d %H:%M}" for t in times]))
        yield Written("changing-times-of-day", spelling, "table.csv", content, truth=frame, refusal=r"data\.resample=")
    for spelling, step, each, most in (
        ("slow", "10min", 0.02, 9),
        ("quick", "15min", 0.05, 30),
        ("hourly", "h", 0.1, 59),
    ):
        frame = made(200, "2020-02-01", step, seed=302)
        late = np.minimum(np.arange(len(frame)) * each, most).round()
        times = pd.DatetimeIndex(frame.index) + pd.to_timedelta(late, unit="s")
        content = write(["time", *frame.columns], cells_of(frame, [f"{t:%Y-%m-%d %H:%M:%S}" for t in times]))
        yield Written("drift", spelling, "table.csv", content, truth=frame, refusal=r"data\.snap=")
        word = "1h" if step == "h" else step
        yield Written("said-snap", spelling, "table.csv", content, {"snap": word}, truth=frame)


def changing_steps() -> Iterator[Written]:
    """Yield files whose step changes: refused with the row and both ways out, and read with each of them."""
    for spelling, coarse, fine, before in (
        ("hours", "1h", "15min", 150),
        ("half hours", "30min", "10min", 120),
        ("days", "1D", "6h", 90),
    ):
        first = pd.date_range("2021-05-20", periods=before, freq=coarse)
        ratio = pd.Timedelta(coarse) // pd.Timedelta(fine)
        second = pd.date_range(first[-1] + pd.Timedelta(coarse), periods=60 * ratio, freq=fine)
        frame = made(seed=310, times=first.append(second))
        content = write(["time", *frame.columns], cells_of(frame, "%Y-%m-%d %H:%M:%S"))
        newer = len(second)
        words = rf"row {before + 1}\b|row {before + 2}\b|row {before + 3}\b"
        coarser = rf"data\.resample=1?{coarse.removeprefix('1')}"
        both = rf"(?=.*({words}))(?=.*data\.last_rows=({newer}|{newer + 1})\b)(?=.*{coarser})"
        yield Written("step-changes", spelling, "table.csv", content, refusal=both)
        options = {"last_rows": newer}
        yield Written("newer-part", spelling, "table.csv", content, options, truth=frame.iloc[before:])
        means = frame.resample(coarse).mean()
        yield Written("coarser-step", spelling, "table.csv", content, {"resample": coarse}, truth=means)


GROUPS = (calendars, drifting, changing_steps)
