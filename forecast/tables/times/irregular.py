"""The step of times that pandas has no step for, and the option that helps where there is none."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.tables.flaws import Flaw
from forecast.tables.times.buckets import Buckets, first_slip, snap_step
from forecast.tables.times.calendars import DAY, LEAST_ROWS, find_calendar, most_common, with_holidays
from forecast.tables.times.frequency import (
    MOST_INVENTED,
    fixed_step,
    frequency_offset,
    grid_places,
    is_daily,
    missing_rows,
    name_step,
    plain_times,
    refuse_gaps,
    resolve_frequency,
    ways_to_fill,
)

COARSER = ("1min", "5min", "10min", "15min", "30min", "1h", "3h", "6h", "1D", "W-MON", "MS", "YS")
"""Steps of buckets that a message names."""

SNAPS = ("1s", "5s", "10s", "15s", "30s", "1min", "2min", "5min", "10min", "15min", "20min", "30min", "1h", "2h", "3h")
"""Steps to which a message suggests to move times."""

_LATE = 21 * DAY // 24
"""Time of day from which a reading may be the midnight of another zone."""

_LEAST_PART = 5
"""Fewest steps of a part whose step differs from that of the other."""

Count = Callable[[pd.Timestamp], int]
"""Number of rows of the file from a time on."""


class Found(NamedTuple):
    """Times, their step, notes on how they were read, and whether only their days count."""

    times: pd.DatetimeIndex
    step: str
    notes: tuple[str, ...] = ()
    by_day: bool = False


def find_step(
    times: pd.DatetimeIndex,
    frequency: str | None,
    rows: np.ndarray,
    source: str,
    *,
    fills: bool = False,
    gaps_allowed: bool = False,
    named: bool = True,
    count_from: Count | None = None,
) -> Found:
    """Return the step of the times, sorted and unique, as `resolve_frequency` does.

    Where it fits no regular grid, or leaves gaps that no policy `fills`, the step may be a calendar of people
    (`find_calendar`), days without holidays, or days at changing hours. Otherwise raise a flaw that names the options
    which help; with `gaps_allowed` none for gaps. A frequency that is not `named` by the user is that of buckets.
    """
    flaw, step, missing = None, "", 0
    try:
        step = resolve_frequency(times, frequency, source)
        missing = missing_rows(grid_places(times, step, rows, source))
        if not missing or (fills and missing <= len(times)):
            return Found(times, step)
    except Flaw as found:
        flaw = found
    if frequency is None and (calendar := _calendar(times, None if flaw else missing)) is not None:
        return calendar
    if flaw is not None and (days := _by_day(times, frequency, rows, source)) is not None:
        return days
    if gaps_allowed and flaw is None:
        return Found(times, step)
    if (change := _step_change(times, rows, source, count_from)) is not None:
        raise change
    if flaw is not None:
        raise _with_cure(flaw, times, frequency)
    if fills:  # the first of so many missing rows may have a mistyped date
        return Found(times, step)
    places = grid_places(times, step, rows, source)
    refuse_gaps(
        times, places, step, rows, source, _cure_of_gaps(times, step, missing, named=named and frequency is not None)
    )
    return Found(times, step)


def _calendar(times: pd.DatetimeIndex, missing: int | None) -> Found | None:
    """Return a calendar that fits the times better than a step which lacks `missing` rows, None: which does not fit."""
    calendar = find_calendar(times)
    if calendar is None:
        return None
    lacks = missing_rows(calendar.places(plain_times(times, None).asi8 // DAY))
    if missing is None or not lacks:
        return Found(times, calendar.name)
    if calendar.period != "week" or (open_days := with_holidays(times, calendar)) is None:
        return None
    kind = "business days" if calendar.name == "B" else "days of the week"
    note = (
        f"{lacks:,} {kind} without a row count as holidays, and a step is a row (data.frequency={open_days.name}); "
        f"if rows are missing, set data.frequency={calendar.name}"
    )
    return Found(times, open_days.name, (note,))


def _cure_of_gaps(times: pd.DatetimeIndex, step: str, missing: int, *, named: bool) -> str:
    """Return what to do about `missing` rows; a step that is `named` may be wrong."""
    first = "add the rows, correct data.frequency" if named else "add the rows"
    calendar = find_calendar(times)
    if calendar is not None and calendar.period == "week" and not named:
        holidays = f"data.frequency={replace(calendar, holidays=True).name} if days without a row are holidays"
        fill = "" if calendar.name == step else f"data.frequency={calendar.name} "
        return f"{first}, or train with {holidays}, else with {fill}data.missing=mask"
    fill = f"train with {ways_to_fill(missing, len(times))}"
    if missing <= MOST_INVENTED * (missing + len(times)):
        return f"{first}, or {fill}"
    ways = [fill] if missing <= len(times) else []
    if words := find_coarser(times):
        ways.append(f"train with {' '.join(words)} (the mean of its rows)")
    return ", or ".join([first, *ways]) if ways else f"{first}, or correct the times"


def _by_day(times: pd.DatetimeIndex, frequency: str | None, rows: np.ndarray, source: str) -> Found | None:
    """Return the days of times without a zone, if each day has at most one and few days have none."""
    stamps = times.as_unit("ns").asi8
    hours = stamps % DAY
    daily = frequency is None or is_daily(fixed_step(frequency_offset(frequency)))
    if times.tz is not None or not daily or (hours >= _LATE).all() or (frequency is None and len(times) < LEAST_ROWS):
        return None
    days = times.normalize()
    if not days.is_unique or len(np.unique(hours)) == 1:
        return None
    try:
        step = resolve_frequency(days, frequency, source)
        lacks = missing_rows(grid_places(days, step, rows, source))
    except InputError:
        return None
    low, high = (str(pd.Timestamp(int(hour)).time()) for hour in (hours.min(), hours.max()))
    note = f"the times of day are {low} to {high}: each day has one row, and the day counts"
    return Found(days, step, (note,), by_day=True) if 10 * lacks <= len(days) else None


def _step_change(times: pd.DatetimeIndex, rows: np.ndarray, source: str, count_from: Count | None) -> Flaw | None:
    """Return the flaw of a step that changes for good, with both ways out.

    None if most rows of both parts have no step of their own.
    """
    kinds = _kinds_of_steps(times)
    if len(kinds) < 2 * _LEAST_PART:
        return None
    after, _ = most_common(kinds[-2 * _LEAST_PART :])
    scores = np.cumsum(np.where(kinds == after, 1, -4)[::-1])[::-1]
    row = int(scores.argmax())  # the first row of the part in which this step prevails up to the end
    old, new = kinds[:row], kinds[row:]
    if min(len(old), len(new)) < _LEAST_PART:
        return None
    before, _ = most_common(old)
    if before == after or np.mean(old == before) < 0.5 or np.mean(old == after) > 0.2 or np.mean(new == after) < 0.95:
        return None
    longer = min(before, after) if min(before, after) < 0 else max(before, after)
    newer = "" if count_from is None else f"data.last_rows={count_from(times[row])}, or at one step with "
    word = f"data.resample={_kind_name(longer)}"
    return Flaw(
        source,
        f", row {rows[row]}",
        f"the step changes from {_kind_name(before)} to {_kind_name(after)} at {times[row]}",
        f"keep only the newer rows, or train with {newer}{word}",
        word,
    )


def _kinds_of_steps(times: pd.DatetimeIndex) -> np.ndarray:
    """Return each step in nanoseconds, or as a negative number of months if it is about as long."""
    whole_days = bool((np.diff(times.tz_localize(None).as_unit("ns").asi8) % DAY == 0).all())
    steps = np.diff(plain_times(times, DAY if whole_days and len(times) else 1).as_unit("ns").asi8)
    months = np.round(steps / (30.436875 * DAY)).astype(np.int64)
    is_month = (months > 0) & (np.abs(steps - months * 30.436875 * DAY) < 3 * DAY)
    return np.where(is_month, -months, steps)


_MONTH_STEPS = {1: "MS", 3: "QS", 12: "YS"}


def _kind_name(kind: int) -> str:
    if kind < 0:
        return _MONTH_STEPS.get(-kind, f"{-kind}MS")
    name = name_step(kind)
    return name if name[0].isdigit() else f"1{name}"


def _with_cure(flaw: Flaw, times: pd.DatetimeIndex, frequency: str | None) -> Flaw:
    """Return a flaw of irregular times with the option that helps."""
    if "local clock" in flaw.cure:
        return flaw
    if frequency is not None:
        with suppress(InputError):
            other = find_step(times, None, np.arange(len(times)), "", fills=True).step
            return flaw.but(cure=f"correct the times, or set data.frequency={other}")
    if (snap := find_snap(times)) is not None:
        words, effect = [f"data.snap={snap}"], "each time then moves to the nearest step"
    else:
        words, effect = find_coarser(times), "each longer step then has the mean of its rows"
    if not words:
        return flaw.but(cure="correct the times in the file")
    cure = f"correct the times, or train with {' '.join(words)} ({effect})"
    return flaw.but(cure=cure, word=words[0], more=words[1:])


def find_snap(times: pd.DatetimeIndex) -> str | None:
    """Return the step to which times of a drifting clock can be moved, each to a place of its own; None: none.

    Nine of ten rows are within a quarter of a step of their distance from the row before.
    """
    for snap in SNAPS:
        step = snap_step(snap)
        stamps = plain_times(times, step).as_unit("ns").asi8
        apart = np.diff(stamps)
        if not 0.9 < np.median(apart) / step < 1.1:
            continue
        near = np.abs(apart - np.maximum(1, np.round(apart / step)) * step) < step / 4
        if near.mean() >= 0.9 and first_slip(stamps, (stamps + step // 2) // step, step) is None:
            return snap
    return None


def find_coarser(times: pd.DatetimeIndex) -> list[str]:
    """Return the options that put rows into longer steps that all have a row, or nine of ten of them; or none."""
    usual = float(np.median(np.diff(times.asi8))) if len(times) > 1 else 0.0
    nearly: list[str] = []
    for resample in COARSER:
        buckets = Buckets.of(times, resample)
        length, numbers = (buckets.since + buckets.left).min(), np.unique(buckets.numbers)
        missing = missing_rows(numbers)
        if length < 0.9 * usual or len(numbers) < LEAST_ROWS or (nearly and length > _MOST_STEPS * usual):
            continue  # February is a month
        if not missing:
            return [f"data.resample={resample}"]
        if length >= 1.5 * usual and 10 * missing <= len(numbers) and not nearly:
            nearly = [f"data.resample={resample}", "data.missing=mask"]
    return nearly


_MOST_STEPS = 12
"""Most usual steps in a longer one that is named because each of them has a row."""
