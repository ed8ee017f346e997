"""Steps that are regular for people and that pandas has no name for: days of a week, of a month and of a year.

Their names are values of `data.frequency`:

- `week-mon-wed-fri`: these days of each week;
- `month-30`, `month-10-20-31`: these days of each month, or its last day in a shorter month; `3month-15-FEB`: every
  third month, February among them;
- `8D-year`: every eighth day from 1 January of each year on;
- `B-holidays`, `week-mon-tue-wed-thu-fri-sat-holidays`: days without a row are holidays, and a step is a row.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")

DAY = 86_400 * 10**9
"""Nanoseconds of a day."""

CYCLES = (1, 2, 3, 4, 6, 12)
"""Months of a period, which divide a year."""

_WHOLE_MONTH = 28  # a day from here on is the last of some February
_HOLIDAYS = "-holidays"
_BUSINESS_DAYS = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class CalendarDays:
    """Days of a period that repeat in every period.

    Parameters
    ----------
    period
        "week", "month" or "year".
    days
        Places in the period, rising: weekdays from Monday, 0, on; days of the month from 1 on, beyond its end the last
        one; of a year the number of days between two of them.
    months
        Months of a period of months.
    first_month
        Month of the days, counted from January, 0, and below `months`.
    holidays
        Whether days without a row are holidays, so that a step is a row.
    """

    period: str
    days: tuple[int, ...]
    months: int = 1
    first_month: int = 0
    holidays: bool = False

    @property
    def name(self) -> str:
        """Value of `data.frequency`."""
        end = _HOLIDAYS if self.holidays else ""
        if self.period == "year":
            return f"{self.days[0]}D-year"
        if self.period == "week":
            words = "-".join(WEEKDAYS[day].lower() for day in self.days)
            return f"B{end}" if self.days == _BUSINESS_DAYS else f"week-{words}{end}"
        count, phase = (self.months, f"-{MONTHS[self.first_month]}") if self.months > 1 else ("", "")
        return f"{count}month-{'-'.join(map(str, self.days))}{phase}"

    @property
    def steps(self) -> int:
        """Number of steps in a period."""
        return -(-365 // self.days[0]) if self.period == "year" else len(self.days)

    @property
    def season(self) -> int:
        """Number of steps in a week, for days of a week, else in a year, at least 1."""
        return max(1, round(12 * self.steps / self.months)) if self.period == "month" else self.steps

    @property
    def months_of_step(self) -> int:
        """Number of months in a step, 0 if it is not a number of months."""
        return self.months if self.period == "month" and self.steps == 1 else 0

    @property
    def seconds(self) -> float:
        """Mean length of a step in seconds."""
        length = {"week": 7.0, "month": 30.436875 * self.months, "year": 365.2425}[self.period]
        return 86_400.0 * length / self.steps

    def places(self, days: np.ndarray) -> np.ndarray:
        """Return the place (N,) of the last of these days at or before each day (N,), counted since 1970."""
        if self.period == "week":
            week, weekday = np.divmod(days + 3, 7)  # 1 January 1970 is a Thursday
            return np.asarray(week * self.steps + np.searchsorted(self.days, weekday, side="right") - 1)
        dates = days.astype("M8[D]")
        if self.period == "year":
            year = dates.astype("M8[Y]")
            since = (dates - year.astype("M8[D]")).astype(np.int64)
            place = np.minimum(since // self.days[0], self.steps - 1)
            return np.asarray(year.astype(np.int64) * self.steps + place)
        cycle = (dates.astype("M8[M]").astype(np.int64) - self.first_month) // self.months
        passed = sum((days >= self._of_month(cycle, day)).astype(np.int64) for day in self.days)
        return np.asarray(cycle * self.steps + passed - 1)

    def days_at(self, places: np.ndarray) -> np.ndarray:
        """Return the day (N,), counted since 1970, at each place (N,)."""
        cycle, part = np.divmod(places, self.steps)
        if self.period == "week":
            return np.asarray(cycle * 7 - 3 + np.array(self.days)[part])
        if self.period == "year":
            return np.asarray(cycle.astype("M8[Y]").astype("M8[D]").astype(np.int64) + part * self.days[0])
        return np.asarray(np.choose(part, [self._of_month(cycle, day) for day in self.days]))

    def _of_month(self, cycle: np.ndarray, day: int) -> np.ndarray:
        """Return this day of the month of each cycle (N,), counted since 1970."""
        month = cycle * self.months + self.first_month
        start, end = ((month + more).astype("M8[M]").astype("M8[D]").astype(np.int64) for more in (0, 1))
        return np.asarray(np.minimum(start + day, end) - 1)

    def has(self, times: pd.DatetimeIndex) -> np.ndarray:
        """Return which of the times (N,), without a zone, are on these days."""
        days = days_of(times)
        return np.asarray(self.days_at(self.places(days)) == days)

    def range(self, start: pd.Timestamp, count: int) -> pd.DatetimeIndex:
        """Return `count` times from `start` on, or from the next of these days on; before 0, the last ones up to it.

        They have the time of day of `start`. Raise OutOfBoundsDatetime beyond the range of pandas.
        """
        stamps = pd.DatetimeIndex([start]).as_unit("ns")
        first = int(self.places(days_of(stamps))[0])
        is_on = bool(self.has(stamps)[0])
        low = first + (count > 0 and not is_on) if count > 0 else first + count + 1
        if abs(count) > 300_000:  # more days than nanoseconds of 64 bits hold; pandas would wrap around
            raise pd.errors.OutOfBoundsDatetime(f"{count} steps of {self.name}")
        days = self.days_at(np.arange(low, low + abs(count)))
        if len(days) and (days[0] < _FIRST or days[-1] > _LAST):
            raise pd.errors.OutOfBoundsDatetime(f"{count} steps of {self.name}")
        return pd.DatetimeIndex((days * DAY + int(stamps.asi8[0]) % DAY).view("M8[ns]"))


_FIRST, _LAST = (int(np.datetime64(day).astype(np.int64)) for day in ("1677-09-22", "2262-04-10"))


def days_of(times: pd.DatetimeIndex) -> np.ndarray:
    """Return the day of each time without a zone, counted since 1970."""
    return np.asarray(times.as_unit("ns").asi8 // DAY)


def most_common(values: np.ndarray) -> tuple[int, float]:
    """Return the most common of whole numbers, the smallest in a tie, and its share; zeros without any."""
    if not len(values):
        return 0, 0.0
    found, counts = np.unique(values, return_counts=True)
    return int(found[counts.argmax()]), float(counts.max() / counts.sum())


_MONTHLY = re.compile(r"(\d{0,3})month((?:-\d{1,2}){1,6})(?:-([a-z]{3}))?")
_WEEKLY = re.compile(r"week((?:-[a-z]{3}){1,7})")
_YEARLY = re.compile(r"(\d{1,2})d-year")


def calendar_named(name: str) -> CalendarDays | None:
    """Return the calendar of a name; None if it is none."""
    text = name.strip().lower()
    holidays = text.endswith(_HOLIDAYS)
    text = text.removesuffix(_HOLIDAYS)
    if holidays and text == "b":
        return CalendarDays("week", _BUSINESS_DAYS, holidays=True)
    if match := _WEEKLY.fullmatch(text):
        words = match[1].upper().split("-")[1:]
        days = sorted({WEEKDAYS.index(word) for word in words if word in WEEKDAYS})
        return CalendarDays("week", tuple(days), holidays=holidays) if len(days) == len(words) else None
    if holidays:
        return None
    if match := _YEARLY.fullmatch(text):
        return CalendarDays("year", (int(match[1]),)) if int(match[1]) > 1 else None
    return _monthly_named(text)


def _monthly_named(text: str) -> CalendarDays | None:
    match = _MONTHLY.fullmatch(text)
    if match is None:
        return None
    days, months = tuple(sorted({int(day) for day in match[2].split("-")[1:]})), int(match[1] or 1)
    phase = (match[3] or "JAN").upper()
    whole = months in CYCLES and phase in MONTHS and (match[3] is None) == (months == 1)
    if not whole or not 1 <= days[0] <= days[-1] <= 31 or sum(day >= _WHOLE_MONTH for day in days) > 1:
        return None
    return CalendarDays("month", days, months, MONTHS.index(phase) % months)


def find_calendar(times: pd.DatetimeIndex) -> CalendarDays | None:
    """Return the calendar whose days are those of the times, sorted and unique; None if there is none.

    All times are on its days, at the same time of day, and at most a tenth of its days are missing.
    """
    stamps = times.tz_localize(None).as_unit("ns")
    if len(stamps) < LEAST_ROWS or len(np.unique(stamps.asi8 % DAY)) > 1:
        return None
    days = days_of(stamps)
    for calendar in (_weekly(days), _monthly(stamps), _yearly(days)):
        if calendar is None or not calendar.has(stamps).all():
            continue
        places = calendar.places(days)
        if 10 * (int(places[-1] - places[0]) + 1 - len(places)) <= len(places):
            return calendar
    return None


LEAST_ROWS = 8
"""Fewest rows that show a calendar."""

_LEAST_WEEKS, _MOST_DAYS = 4, 6


def _weekly(days: np.ndarray) -> CalendarDays | None:
    """Return the weekdays of the days, if they are two to six and four weeks or more."""
    present = np.unique((days + 3) % 7)
    is_long = days[-1] - days[0] >= 7 * _LEAST_WEEKS - 1
    return CalendarDays("week", tuple(present.tolist())) if 2 <= len(present) <= 6 and is_long else None


def _monthly(times: pd.DatetimeIndex) -> CalendarDays | None:
    """Return the days of the month of the times; a day from the 28th on may be the last one of a shorter month."""
    found = np.unique(times.day)
    days = [int(day) for day in found if day < _WHOLE_MONTH] + ([int(found[-1])] if found[-1] >= _WHOLE_MONTH else [])
    if len(days) > _MOST_DAYS:
        return None
    number = np.asarray((times.year - 1970) * 12 + times.month - 1)
    months = int(np.diff(number).min()) if len(days) == 1 else 1
    return CalendarDays("month", tuple(days), months, int(number[0]) % months) if months in CYCLES else None


def _yearly(days: np.ndarray) -> CalendarDays | None:
    """Return a number of days that restarts each year, if it is the most common step."""
    step, _ = most_common(np.diff(days))
    return CalendarDays("year", (step,)) if 2 <= step <= 99 else None


_TURNS = ((1, 1), (12, 25))
_DAYS_OFF = ((1, 6), (5, 1), (7, 4), (8, 15), (11, 1), (12, 24), (12, 26), (12, 31))
_EASTER_DAYS_OFF = np.array([-2, 1, 39, 50])
"""Good Friday, Easter Monday, Ascension Day and Whit Monday, in days after Easter Sunday."""

_MOST_HOLIDAYS, _LEAST_DAYS = 0.05, 100


def with_holidays(times: pd.DatetimeIndex, calendar: CalendarDays) -> CalendarDays | None:
    """Return a calendar of weekdays whose missing days are holidays, if they look like it; else None.

    At most 5 % of its days are missing. Each 25 December and 1 January is among them, or at least half of them are days
    on which many people are off.
    """
    days = days_of(times.tz_localize(None))
    places = calendar.places(days)
    missing = calendar.days_at(np.setdiff1d(np.arange(places[0], places[-1] + 1), places))
    if len(days) < _LEAST_DAYS or not 0 < len(missing) <= _MOST_HOLIDAYS * len(days):
        return None
    years = range(times[0].year, times[-1].year + 1)
    turns, others = (_days_off(years, dates) for dates in (_TURNS, _DAYS_OFF))
    easter = days_of(pd.DatetimeIndex([pd.Timestamp(year, 1, 1) + pd.offsets.Easter() for year in years]))
    turns = turns[(turns > days[0]) & (turns < days[-1]) & (calendar.days_at(calendar.places(turns)) == turns)]
    off = np.concatenate([turns, others, (easter[:, None] + _EASTER_DAYS_OFF).ravel()])
    looks = (len(turns) and np.isin(turns, missing).all()) or 2 * np.isin(missing, off).sum() >= len(missing)
    return replace(calendar, holidays=True) if looks else None


def _days_off(years: range, dates: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return these months and days of all years, counted since 1970."""
    return days_of(pd.DatetimeIndex([pd.Timestamp(year, *date) for year in years for date in dates]))
