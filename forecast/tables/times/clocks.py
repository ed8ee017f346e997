"""Times of day in a column of their own: clocks, hours, minutes, and counted periods of a day."""

import re
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.tables.flaws import refuse_first
from forecast.tables.times.forms import to_text
from forecast.tables.times.spellings import clock_seconds
from forecast.tables.times.time_format import TimeFormat
from forecast.tables.times.zones import EARLIER, LATER, proposed_long_day

_SAMPLE = 100
_HOUR = 3_600 * 10**9  # nanoseconds
_CLOCK = re.compile(
    r"(?:0 days )?(?P<hour>\d{1,2})[:.hH](?P<minute>\d{2})(?:[:.m](?P<second>\d{2})(?:[.,](?P<part>\d{1,9}))?)?"
    r"(?: ?(?P<half>[AaPp]\.? ?[Mm]\.?))?(?: ?(?:[hH]|[Uu]hr|hrs?|uur))?(?: ?(?P<mark>[ABXabx*]))?"
)
_HALF_DAY = re.compile(r"(?P<hour>\d{1,2}) ?(?P<half>[AaPp]\.? ?[Mm]\.?)")
_SPAN = re.compile(
    r"(?P<start>\d{1,2}(?:[:.hH]\d{2}){0,2}) ?(?:-|\u2013|\u2014|/|to|bis|\.\.) ?\d{1,2}(?:[:.hH]\d{2}){0,2}"
)
_NUMBER = re.compile(
    r"(?:(?:HE|HB|HR|Hr|Hour|hour|Stunde|H|h|P|SP)[ _.-]?)?"
    r"(?P<hour>\d{1,4})(?:\.0)?(?: ?h)?[ _-]?(?P<mark>[ABXabx*]|DST)?"
)
_MARKS = {"A": EARLIER, "B": LATER, "X": LATER, "*": LATER, "DST": LATER}
_LONGEST = {24: 25, 48: 50, 96: 100, 288: 300, 1440: 1500}
"""Periods of a day, and those of the day with 25 hours."""


@dataclass(frozen=True)
class Clock:
    """Times of day of N rows: nanoseconds since midnight, and which of two equal hours is meant (`zones`), 0: unknown.

    With `counted`, the nanoseconds count from midnight on the days of a clock change too.
    """

    since: np.ndarray
    marks: np.ndarray
    counted: bool = False
    note: str = ""


def holds_clocks(column: pd.Series) -> bool:
    """Return whether the first cells are times of day such as 18:00:00, 18.00.00, 6:00 PM or 00:00 - 01:00."""
    if pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        return False
    cells = [str(cell).strip() for cell in column.dropna().iloc[:_SAMPLE]]
    return bool(cells) and all(_read_clock(cell) is not None for cell in cells)


def _read_clock(cell: str) -> tuple[int, int] | None:
    """Return the nanoseconds since midnight of a clock, and its mark."""
    if span := _SPAN.fullmatch(cell):
        start = span["start"] if re.search(r"\D", span["start"]) else f"{span['start']}:00"
        cell = start if not _CLOCK.fullmatch(cell) else cell
    match = _CLOCK.fullmatch(cell) or _HALF_DAY.fullmatch(cell)
    if match is None or (seconds := clock_seconds(match)) is None:
        return None
    parts = match.groupdict()
    part = int((parts.get("part") or "0").ljust(9, "0"))
    return seconds * 10**9 + part, _MARKS.get((parts.get("mark") or "").upper(), 0)


def read_clock(
    column: pd.Series,
    dates: pd.DatetimeIndex,
    rows: np.ndarray,
    where: str,
    time_format: TimeFormat,
    *,
    counts: bool = False,
) -> tuple[Clock, TimeFormat]:
    """Return the times of day in a column of clocks, hours or periods, and the format with what was found.

    In a column of hours (`counts`), 1:00 to 24:00 are the hours 1 to 24. `dates` (N,) serve for messages.
    """
    if pd.api.types.is_numeric_dtype(column.dtype):
        numbers = column.to_numpy(np.float64, na_value=np.nan)
        if time_format.first_hour is None and (fraction := _of_fractions(numbers, where)) is not None:
            return fraction, time_format
        return _of_numbers(column, numbers, np.zeros(len(column), dtype=np.int64), dates, rows, where, time_format)
    text = to_text(column).fillna("")
    codes, cells = pd.factorize(text)
    clocks = [_read_clock(str(cell)) for cell in cells]
    if all(clock is not None for clock in clocks):
        pairs = np.array([clock for clock in clocks if clock is not None], dtype=np.int64).reshape(-1, 2)[codes]
        since, marks = pairs[:, 0], pairs[:, 1]
        if counts and not (since % _HOUR).any() and (since > 0).all() and (since == 24 * _HOUR).any():
            return _of_numbers(column, since / _HOUR, marks, dates, rows, where, time_format)
        return Clock(since, marks), time_format
    if 2 * sum(clock is not None for clock in clocks) > len(clocks):
        bad = clocks.index(None)
        problem, cure = f"{str(cells[bad])[:40]!r} is not a time of day", "write times such as 18:00:00"
        refuse_first(codes == bad, rows, where, lambda _, count: f"{problem} ({count} such cells): {cure}")
    matches = [_NUMBER.fullmatch(str(cell)) for cell in cells]
    numbers = np.array([float(match["hour"]) if match else np.nan for match in matches])[codes]
    of_cells = [_MARKS.get((match["mark"] or "").upper(), 0) if match else 0 for match in matches]
    return _of_numbers(column, numbers, np.array(of_cells, dtype=np.int64)[codes], dates, rows, where, time_format)


def _of_fractions(numbers: np.ndarray, where: str) -> Clock | None:
    """Return hours with minutes (18.3 is 18:30), hours with a fraction, or shares of a day; None for other numbers.

    Of the first two, the reading counts whose minutes are equally spaced.
    """
    if not (np.isfinite(numbers).all() and (numbers >= 0).all() and (numbers < 24).all() and (numbers % 1).any()):
        return None
    hours, rest = np.floor(numbers), numbers % 1
    readings = [minutes for minutes in (rest * 100, rest * 60) if _are_spaced(minutes)]
    if numbers.max() < 1:
        readings = [numbers * 1440]
        hours = np.zeros(len(numbers))
    if len(readings) != 1:
        raise InputError(f"{where}: its numbers are no clear times of day: write them as 18:30:00")
    seconds = hours * 3600 + np.rint(readings[0] * 60)
    return Clock(seconds.astype(np.int64) * 10**9, np.zeros(len(numbers), dtype=np.int64))


def _are_spaced(minutes: np.ndarray) -> bool:
    """Return whether minutes are whole, and divide the hour into equal steps from 0 on."""
    distinct = np.unique(np.rint(minutes * 100) / 100)
    return bool((distinct % 1 == 0).all() and np.array_equal(distinct, np.arange(len(distinct)) * 60 / len(distinct)))


def _of_numbers(
    column: pd.Series,
    numbers: np.ndarray,
    marks: np.ndarray,
    dates: pd.DatetimeIndex,
    rows: np.ndarray,
    where: str,
    time_format: TimeFormat,
) -> tuple[Clock, TimeFormat]:
    """Return hours, counted periods, or clocks such as 1830."""
    whole = np.isfinite(numbers) & (numbers == np.round(numbers)) & (numbers >= 0)
    most = int(numbers[whole].max()) if whole.any() else 0
    if time_format.periods is None and whole.all() and _are_digits(numbers):
        hundred = 100 if most <= 2400 else 10_000
        hours, rest = numbers // hundred, numbers % hundred
        seconds = hours * 3600 + (rest * 60 if hundred == 100 else rest // 100 * 60 + rest % 100)
        return Clock(seconds.astype(np.int64) * 10**9, marks), time_format
    fitting = (periods for periods, longest in _LONGEST.items() if periods - 1 <= most <= longest)
    periods = time_format.periods or next(fitting, 24)
    if time_format.zone is None:
        _refuse_long_days(numbers, dates, periods, rows, where)
    first, counted = _first_of(column, numbers, rows, where, periods, time_format)
    since = (numbers.astype(np.int64) - first) * (86_400 * 10**9 // periods)
    what = "hours" if periods == 24 else f"periods of {1440 / periods:g} minutes"
    begins = f": {'hour' if periods == 24 else 'period'} 1 begins at 00:00" if first else ""
    note = f"{what} {first} to {first + periods - 1}{begins}"
    read_as = replace(
        time_format, first_hour=first, periods=None if periods == 24 else periods, counted=True if counted else None
    )
    return Clock(since, marks, counted, note), read_as


def _are_digits(numbers: np.ndarray) -> bool:
    """Return whether whole numbers are clocks such as 30, 1830 or 183000, not counted periods."""
    most = numbers.max()
    if most <= 2400:
        return bool(most > 100 and (numbers % 100 < 60).all())
    if most <= 240_000:
        return bool((numbers % 100 < 60).all() and (numbers // 100 % 100 < 60).all())
    return False


def _first_of(
    column: pd.Series, numbers: np.ndarray, rows: np.ndarray, where: str, periods: int, time_format: TimeFormat
) -> tuple[int, bool]:
    """Return the number of the period that begins at 00:00, and whether the periods of a day of 25 hours count on."""
    first, zone = time_format.first_hour, time_format.zone
    longest = _LONGEST.get(periods, periods)
    low, high = (0, periods) if first is None else (first, first + periods - 1)
    counts_on = bool(np.nanmax(numbers, initial=0) > high)
    if zone is not None and (counts_on or time_format.counted):
        high += longest - periods
    one_of_two = f"from 0 to {periods - 1} or from 1 to {periods}"
    known = one_of_two if first is None else f"from {low} to {high}, as in training"

    def problem(place: int, count: int) -> str:
        text = str(column.iloc[place])
        shown = "no hour" if pd.isna(column.iloc[place]) or not text.strip() else f"{text[:40]!r} is not an hour"
        return f"{shown} ({count} such cells): write whole numbers {known}"

    refuse_first(~((numbers >= low) & (numbers <= high) & (numbers == np.round(numbers))), rows, where, problem)
    if first is not None:
        return first, bool(time_format.counted) or counts_on
    begins, ends = bool((numbers == 0).any()), bool((numbers >= periods).any())
    if begins and ends and zone is not None and (numbers >= periods).sum() < (numbers == 0).sum() / 2:
        return 0, True  # the hour 24 of the days with 25 hours
    if begins and ends:
        numbered = f"number the hours from 0 to {periods - 1}, or from 1 to {periods}"
        raise InputError(f"{where}: holds both 0 and {periods}: {numbered}")
    if not begins and not ends:
        unknown = "so the number of the first hour is unknown: write date and hour in one column"
        raise InputError(f"{where}: holds neither 0 nor {periods}, {unknown}")
    return int(ends), counts_on


def _refuse_long_days(numbers: np.ndarray, dates: pd.DatetimeIndex, periods: int, rows: np.ndarray, where: str) -> None:
    """Raise InputError with the option for the hour 25 of a day on which clocks move back, if it comes after 24."""
    over = numbers > periods
    longest = _LONGEST.get(periods, periods)
    steps = np.diff(numbers, prepend=numbers[0] - 1)
    if over.any() and (numbers[over] <= longest).all() and (np.abs(steps[over]) == 1).all():
        place = int(np.argmax(over))
        proposed = proposed_long_day(pd.DatetimeIndex(dates[over].unique())) or "Europe/Berlin"
        raise InputError(
            f"{where}, row {rows[place]}: {numbers[place]:g} is a period of a day with 25 hours: set the time zone of "
            f"the clocks, such as data.time_zone={proposed}"
        )
