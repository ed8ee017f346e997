"""The frequency of dates, their regular grid, and local time."""

import re
import warnings
from datetime import tzinfo

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset
from pandas.tseries.offsets import BaseOffset

from forecast.common.errors import InputError
from forecast.tables.flaws import Flaw
from forecast.tables.times.calendars import DAY, MONTHS, WEEKDAYS, CalendarDays, calendar_named, most_common

_OLD_NAMES = {
    "H": "h", "T": "min", "t": "min", "S": "s", "L": "ms", "d": "D", "b": "B", "w": "W", "M": "ME",
    "BM": "BME", "Q": "QE", "BQ": "BQE", "A": "YE", "Y": "YE", "AS": "YS", "BA": "BYE", "BY": "BYE", "BAS": "BYS",
}  # fmt: skip
_UNITS = (("D", DAY), ("h", DAY // 24), ("min", 60 * 10**9), ("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
_QUARTER_STARTS, _QUARTER_ENDS = ("JAN", "FEB", "MAR"), ("OCT", "NOV", "DEC")

Step = BaseOffset | CalendarDays
"""A step of pandas, or days of a calendar that pandas has no name for."""


def frequency_offset(frequency: str) -> Step:
    """Return the step of a pandas alias or of a calendar; aliases of older versions ('H', 'T', 'M') are accepted."""
    if (calendar := calendar_named(str(frequency))) is not None:
        return calendar
    match = re.fullmatch(r"(-?\d*)([A-Za-z]+)((?:-\w+)?)", str(frequency).strip())
    alias = f"{match[1]}{_OLD_NAMES.get(match[2], match[2])}{match[3]}" if match else str(frequency)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            offset = to_offset(alias)
    except (ValueError, FutureWarning, DeprecationWarning):
        offset = None
    if offset is None or offset.n < 1:
        raise InputError(f"data.frequency {frequency!r} is not a time step: use one such as h, 15min, D, W, MS, QS")
    return offset


def fixed_step(offset: Step) -> int | None:
    """Return the nanoseconds of a step of fixed length; None for months, business days and similar steps."""
    if isinstance(offset, pd.offsets.Week):
        return None if "-" in offset.freqstr else offset.n * 7 * DAY
    if isinstance(offset, pd.offsets.Day):  # a calendar day in pandas 3, a fixed step before
        return int(offset.n) * DAY
    return int(offset.nanos) if isinstance(offset, pd.offsets.Tick) else None


def is_daily(step: int | None) -> bool:
    """Return whether a `fixed_step` follows the local calendar: whole days, or no fixed length."""
    return step is None or step % DAY == 0


def resolve_frequency(times: pd.DatetimeIndex, frequency: str | None, source: str) -> str:
    """Return `frequency` in normal form, or the frequency of most of the sorted unique times.

    Equal steps get equal names: a step of fixed length in its largest unit (60min is h), weeks with their day (W-SUN).
    """
    if frequency is None:
        return _infer(times, source)
    offset = frequency_offset(frequency)
    if isinstance(offset, CalendarDays):
        return offset.name
    step = fixed_step(offset)
    if isinstance(offset, pd.offsets.Week) and "-" not in frequency:
        step = offset.n * 7 * DAY
    return _one_name(str(offset.freqstr)) if step is None else name_step(step, times)


def shown_frequency(times: pd.DatetimeIndex) -> str | None:
    """Return the step of most rows, as `resolve_frequency` names it; None if no step has a majority."""
    try:
        return _infer(times, "")
    except InputError:
        return None


def _one_name(alias: str) -> str:
    """Return the alias in normal form: equivalent quarters have one name (QS-APR is QS-JAN)."""
    match = re.fullmatch(r"(\d*B?Q[SE]-)(\w{3})", alias)
    if not match:
        return alias
    names = _QUARTER_STARTS if match[1].endswith("S-") else _QUARTER_ENDS
    return match[1] + names[MONTHS.index(match[2]) % 3]


def name_step(step: int, times: pd.DatetimeIndex | None = None) -> str:
    """Return the name of a step in nanoseconds; one of whole weeks has the weekday of the first time."""
    if step % (7 * DAY) == 0 and times is not None and len(times):
        count = step // (7 * DAY)
        return f"{count if count > 1 else ''}W-{WEEKDAYS[times[0].weekday()]}"
    unit, size = next((unit, size) for unit, size in _UNITS if step % size == 0)
    return f"{step // size if step > size else ''}{unit}"


def _infer(times: pd.DatetimeIndex, source: str) -> str:
    """Return the frequency of most rows, so that gaps and irregular rows can be reported."""
    if len(times) < 3:
        raise InputError(f"{source} has {len(times)} row(s), too few to infer the step: set data.frequency")
    local = times.tz_localize(None)
    step, share = most_common(np.diff(local.asi8))
    if step % DAY:  # shorter steps are steps of absolute time, because of clock changes
        step, share = most_common(np.diff(times.asi8))
    if step >= 28 * DAY and (monthly := _monthly(local, step)):
        return monthly
    if step == DAY and (local.day_of_week < 5).all() and (np.diff(local.asi8) == 3 * DAY).any():
        return "B"
    if share <= 0.5:
        raise Flaw(
            source,
            "",
            f"the rows have irregular steps (most common: {pd.Timedelta(step)}, {100 * share:.0f} % of them)",
            "correct the times",
        )
    return name_step(step, times)


def _monthly(times: pd.DatetimeIndex, step: int) -> str | None:
    """Return the pandas alias of a step of months, None if the dates are not at the starts or ends of months."""
    months = round(step / (30.436875 * DAY))
    month = MONTHS[times[0].month - 1]
    for share, side in ((np.mean(times.day == 1), "S"), (np.mean(times.is_month_end), "E")):
        if share >= 0.8:
            quarters_or_years = {3: f"Q{side}-{month}", 12: f"Y{side}-{month}"}
            return _one_name(quarters_or_years.get(months, f"{months if months > 1 else ''}M{side}"))
    for alias in ("BMS", "BME"):
        if months == 1 and all(to_offset(alias).is_on_offset(time) for time in times):
            return alias
    return None


_INSTANT = pd.Timedelta(1, "ns")


def to_wall_time(times: pd.DatetimeIndex) -> pd.DatetimeIndex:
    """Return the local times without a zone.

    If a clock change skips the most common time of day, the first instant after the change is read as that time; as
    midnight if all times are of this kind.
    """
    shown = times.tz_localize(None).as_unit("ns").asi8
    if times.tz is None:
        return pd.DatetimeIndex(shown.view("M8[ns]"))
    skipped_from = (times - _INSTANT).tz_localize(None).as_unit("ns").asi8 + 1
    after_gap = skipped_from < shown
    usual, _ = most_common(shown[~after_gap] % DAY)
    meant = skipped_from // DAY * DAY + usual
    return pd.DatetimeIndex(
        np.where(after_gap & (skipped_from <= meant) & (meant < shown), meant, shown).view("M8[ns]")
    )


def from_wall_time(times: pd.DatetimeIndex, zone: tzinfo) -> pd.DatetimeIndex:
    """Localize times: shift a skipped time forward, take the first of two ambiguous instants."""
    return times.tz_localize(zone, ambiguous=np.ones(len(times), dtype=bool), nonexistent="shift_forward")


def day_begins(times: pd.DatetimeIndex) -> str:
    """Return the most common local time of day, such as 06:00:00."""
    return str(pd.Timestamp(most_common(to_wall_time(times).asi8 % DAY)[0]).time())


def grid_places(times: pd.DatetimeIndex, frequency: str, rows: np.ndarray, source: str) -> np.ndarray:
    """Return the position of each time on the grid of the frequency, shape (N,), the first at 0.

    `times` are sorted and unique. Steps of a day or longer follow the local calendar, shorter ones absolute time.
    `rows` are spreadsheet row numbers for messages.
    """
    offset = frequency_offset(frequency)
    step = fixed_step(offset)
    plain = plain_times(times, step)
    if step is None:
        places = _places_of_days(plain, offset)
        stray = int(np.argmax(places < 0)) if (places < 0).any() else None
    else:
        since = plain.asi8 - plain.asi8[0]
        places, phase = since // step, since % step
        stray = None
        if phase.any():  # the grid of most rows, since the first row may be off it
            stray = int(np.argmax(phase != most_common(phase)[0]))
    if stray is not None:
        raise Flaw(
            source,
            f", row {rows[stray]}",
            f"{times[stray]} is off the grid of one row every {frequency}",
            _cure_of_stray(times, step),
        )
    return np.asarray(places)


def _places_of_days(times: pd.DatetimeIndex, offset: Step) -> np.ndarray:
    """Return the position of each time without a zone on the grid from the first one on; -1 off the grid."""
    if not isinstance(offset, CalendarDays):
        return np.asarray(pd.date_range(times[0], times[-1], freq=offset).get_indexer(times))
    days, hours = np.divmod(times.as_unit("ns").asi8, DAY)
    on = offset.has(times) & (hours == hours[0])
    places = np.arange(len(times)) if offset.holidays else offset.places(days)
    return np.where(on, places - places[0], -1)


def times_from(start: pd.Timestamp, count: int, offset: Step) -> pd.DatetimeIndex:
    """Return `count` times without a zone from `start` on, or from the next one on the grid."""
    if isinstance(offset, CalendarDays):
        return offset.range(start, count)
    return pd.date_range(start, periods=count, freq=offset).as_unit("ns")


def times_until(end: pd.Timestamp, count: int, offset: Step) -> pd.DatetimeIndex:
    """Return `count` times without a zone up to `end`, or to the one before it on the grid."""
    if isinstance(offset, CalendarDays):
        return offset.range(end, -count)
    return pd.date_range(end=end, periods=count, freq=offset).as_unit("ns")


def _cure_of_stray(times: pd.DatetimeIndex, step: int | None) -> str:
    """Return what to do about a time off the grid; `step` is in nanoseconds, None for months."""
    if is_daily(step) and times.tz is not None:
        return "correct the time, or write the dates of the local clock: its days begin at another hour in summer"
    return "correct the time"


def missing_rows(places: np.ndarray) -> int:
    """Return how many rows the grid lacks between the first and the last of rising positions."""
    return int(places[-1] - places[0]) + 1 - len(places)


MOST_INVENTED = 0.1
"""Largest share of filled rows or cells at which a message suggests to fill them with a line."""


def ways_to_fill(missing: int, present: int) -> str:
    """Return the options of training that fill missing values: a line only over few of them."""
    few = missing <= MOST_INVENTED * (missing + present)
    return "data.missing=ffill, interpolate or mask" if few else "data.missing=mask"


def refuse_gaps(
    times: pd.DatetimeIndex, places: np.ndarray, frequency: str, rows: np.ndarray, source: str, cure: str | None = None
) -> None:
    """Raise a flaw that names the first row missing from the grid, if any; `cure` replaces its usual cure."""
    jumps = np.diff(places) - 1
    if not jumps.any():
        return
    offset = frequency_offset(frequency)
    first = int(np.argmax(jumps > 0))
    before = times[first]
    last = to_wall_time(times)[first] if is_daily(fixed_step(offset)) else before
    absent = times_from(last, 2, offset)[1] if isinstance(offset, CalendarDays) else last + offset
    missing = int(jumps.sum())
    fillable = missing <= len(places)  # a table that is mostly missing is refused under every policy
    raise Flaw(
        source,
        f", row {rows[first]}",
        f"after {before} the row for {absent} is missing ({missing:,} missing in total, at one row per "
        f"{step_words(frequency)}{_clock_changes(times, jumps, frequency)})",
        cure or f"add the rows, or train with {ways_to_fill(missing, len(places))}",
        "data.missing=mask" if fillable else None,
        count=missing,
        unit="absent row",
        rows=int(places[-1]) + 1 if fillable else None,
    )


_NAMES = {"min": "minute", "h": "hour", "D": "day", "B": "business day", "W": "week", "MS": "month", "ME": "month"}


def step_words(frequency: str, *, one: bool = False) -> str:
    """Return a frequency in words: h is hour, or one hour, 15min is 15 minutes."""
    match = re.fullmatch(r"(\d*)([A-Za-z]+)(?:-\w+)?", frequency)
    if match is None or match[2] not in _NAMES:
        return frequency
    return f"{match[1]} {_NAMES[match[2]]}s" if match[1] else f"{'one ' * one}{_NAMES[match[2]]}"


_SUMMER_TIME_MONTHS = (3, 4, 9, 10)
"""Months in which clocks move forward, north and south."""


def _clock_changes(times: pd.DatetimeIndex, jumps: np.ndarray, frequency: str) -> str:
    """Return how many missing rows look like hours that a change to summer time skips, if most do; else nothing."""
    step = fixed_step(frequency_offset(frequency))
    if times.tz is not None or step is None or step > DAY // 24:
        return ""
    hour = jumps * step == DAY // 24
    first = times[:-1][hour] + pd.Timedelta(step, "ns")
    skipped = (first.day_of_week == 6) & np.isin(first.month, _SUMMER_TIME_MONTHS) & (first.hour <= 3)
    count, missing = int(jumps[hour][skipped].sum()), int(jumps.sum())
    return f"; {count:,} of them where clocks move to summer time" if 2 * count > missing else ""


def whole_grid(times: pd.DatetimeIndex, places: np.ndarray, frequency: str) -> pd.DatetimeIndex:
    """Return every time of the grid from the first to the last of `times`, unchanged at their positions."""
    offset = frequency_offset(frequency)
    step = fixed_step(offset)
    plain, count = plain_times(times, step), int(places[-1]) + 1
    if step is None:
        grid = times_from(plain[0], count, offset)
    else:
        grid = pd.DatetimeIndex((plain.asi8[0] + step * np.arange(count)).view("M8[ns]"))
    if times.tz is not None and is_daily(step):
        grid = from_wall_time(grid, times.tz)
    stamps = grid.asi8.copy()
    stamps[places] = times.asi8
    whole = pd.DatetimeIndex(stamps.view("M8[ns]"), name=times.name)
    return whole if times.tz is None else whole.tz_localize("UTC").tz_convert(times.tz)


def plain_times(times: pd.DatetimeIndex, step: int | None) -> pd.DatetimeIndex:
    """Return times without a zone: local for steps of a day or longer, UTC for shorter steps."""
    if times.tz is None:
        return times
    if is_daily(step):
        return to_wall_time(times)
    return times.tz_convert("UTC").tz_localize(None)
