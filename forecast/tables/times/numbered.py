"""Times that are numbers: dates such as 20190101, seconds since 1970, and the serial days of Excel."""

import shlex
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.tables.flaws import value_word
from forecast.tables.times.calendar_words import means_time, part_kinds
from forecast.tables.times.calendars import most_common
from forecast.tables.times.forms import EPOCHS, EXCEL, to_text
from forecast.tables.times.frequency import shown_frequency
from forecast.tables.times.time_format import TimeFormat

_CALENDAR = {4: "%Y", 6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Formats of whole numbers by their digits."""
_MONTH_POINT_YEAR = "%m.%Y"
"""Format of 01.2003, which a table has as the number 1.2003."""
_SHOWN = {
    "%Y": "years",
    "%Y%m": "years and months",
    _MONTH_POINT_YEAR: "months and years",
    "%Y%m%d": "dates",
    EXCEL: "serial days of Excel",
}
_EARLIEST, _LATEST = pd.Timestamp("1700-01-01"), pd.Timestamp("2200-01-01")
_FIRST_EPOCH, _LAST_EPOCH = pd.Timestamp("1973-01-01"), pd.Timestamp("2100-01-01")
_EXCEL_ORIGIN = pd.Timestamp("1899-12-30")
_FINER = {"month", "week", "quarter", "day", "hour", "time", "period"}
"""Parts of a time beside which doubled years or dates are not the whole time."""


def is_number(column: pd.Series) -> bool:
    """Return whether a column holds numbers other than true and false."""
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)


def with_numbered_format(column: pd.Series, time_format: TimeFormat, where: str, row: int) -> TimeFormat:
    """Return the format with `date_format` set if the column of times holds numbers, found by their range.

    Raise InputError if several formats read them, or none.
    """
    if time_format.date_format is not None or not is_number(column) or not column.notna().any():
        return time_format
    words = number_formats(column)
    if len(words) == 1:
        return replace(time_format, date_format=words[0])
    value = to_text(column.dropna().iloc[:1]).iloc[0]
    name = str(column.name)
    if words:
        named = " or ".join(f"data.date_format={word}" for word in words)
        raise InputError(
            f"{where}, row {row}: {value} is a number that may be several dates: set "
            f"{shlex.quote(value_word('data.time_column', name))} and {named}"
        )
    raise InputError(
        f"{where}, row {row}: {value} is a number, not a date: write dates as 2016-07-01 00:00:00, or set "
        f"{value_word('data.time_column', name)} and data.date_format to its format, such as %Y%m%d, %d%m%Y, epoch_s "
        "or excel"
    )


def numbered_note(column: pd.Series, date_format: str) -> str:
    """Return the line on how a column of numbers was read."""
    unit = f"{EPOCHS[date_format][1]} since 1970" if date_format in EPOCHS else None
    shown = unit or _SHOWN.get(date_format, "dates and times")
    return f"{str(column.name)!r} holds numbers, read as {shown} (data.date_format={date_format})"


def number_formats(column: pd.Series) -> list[str]:
    """Return the formats that read all numbers of a column as plausible times; the most regular of them."""
    numbers = column.dropna().to_numpy(np.float64)
    if not len(numbers) or not np.isfinite(numbers).all():
        return []
    words = [word for word in _RANGES if _may_be(word, column, numbers)]
    if words == [EXCEL] and not is_regular(_serial(column.dropna())):
        return []
    if len(words) > 1:
        times = {word: np.unique(read_numbers(column.dropna(), word).asi8) for word in words}
        shares = {word: most_common(np.diff(distinct))[1] for word, distinct in times.items()}
        words = [word for word in words if shares[word] == max(shares.values())]
    return words


def is_regular(times: pd.DatetimeIndex) -> bool:
    """Return whether most steps between the distinct times are equal."""
    unique = pd.DatetimeIndex(times.unique().sort_values())
    return len(unique) >= 3 and shown_frequency(unique) is not None


def find_numbered_column(table: pd.DataFrame, taken: Sequence[str], date_format: str | None) -> str | None:
    """Return the column of numbers that are times, None without one: a column of counts must not become times.

    It is the only one whose name means time, or the first column if its times rise from row to row and are regular.
    """
    names = [str(name) for name in table.columns if name not in taken and is_number(table[name])]
    meant = [name for name in names if means_time(name) and _reads_as(table[name], date_format)]
    if meant:
        unique = [name for name in meant if table[name].is_unique]
        others = [name for name in table.columns if name not in meant and set(part_kinds(str(name))) & _FINER]
        if (others and not unique) or len(unique or meant) > 1:
            return None
        return (unique or meant)[0]
    first = next(iter(names), None)
    if first is None or first != str(table.columns[0]) or not _reads_as(table[first], date_format):
        return None
    words = [date_format] if date_format is not None else number_formats(table[first])
    if len(words) != 1 or words[0] in ("%Y", "%Y%m", EXCEL):
        return None
    times, numbers = read_numbers(table[first], words[0]), table[first].to_numpy(np.float64)
    counts = bool((np.diff(numbers) == 1).all())
    return first if times.is_monotonic_increasing and times.is_unique and is_regular(times) and not counts else None


def propose_numbered_column(table: pd.DataFrame, taken: Sequence[str], source: str) -> None:
    """Raise InputError with the options that read a column of rising numbers as times, if one may be times."""
    for name in map(str, table.columns):
        if name in taken or not is_number(table[name]) or not table[name].is_monotonic_increasing:
            continue
        words = [word for word in number_formats(table[name]) if word != EXCEL] if table[name].is_unique else []
        if words:
            option = shlex.quote(value_word("data.time_column", name))
            raise InputError(
                f"{source}: no column holds dates, and {name!r} holds numbers: if they are times, set {option} "
                f"data.date_format={words[0]}, else add a column of dates as 2016-07-01 00:00:00"
            )


def _reads_as(column: pd.Series, date_format: str | None) -> bool:
    """Return whether all numbers are times of a format, or of a known one if it is None."""
    if date_format is None:
        return len(number_formats(column)) > 0
    cells = column.dropna()
    if not len(cells):
        return False
    index = read_numbers(cells, date_format)
    plausible = (index >= _EARLIEST) & (index < _LATEST)
    return bool(plausible.all())


def read_numbers(column: pd.Series, date_format: str) -> pd.DatetimeIndex:
    """Return numbers as times of a format, NaT for others; a number has lost its leading zeros."""
    if date_format in EPOCHS:
        return _since(column, EPOCHS[date_format][0])
    if date_format == EXCEL:
        return _serial(column)
    text = to_text(column)
    if date_format == _MONTH_POINT_YEAR:
        text = column.map(lambda number: f"{number:07.4f}" if abs(number) < 100 else "")
    index = pd.DatetimeIndex(pd.to_datetime(text, format=date_format, errors="coerce"))
    return pd.DatetimeIndex(index.where(np.asarray(index.strftime(date_format) == text.to_numpy())))


def _since(column: pd.Series, nanoseconds: int) -> pd.DatetimeIndex:
    """Return numbers of a unit since 1970 as times."""
    if pd.api.types.is_integer_dtype(column.dtype) and column.notna().all():
        numbers = column.to_numpy(np.int64)
        most = (2**63 - 1) // nanoseconds
        inside = (numbers <= most) & (numbers >= -most)
        stamps = np.where(inside, numbers * nanoseconds, np.iinfo(np.int64).min)
    else:
        floats = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
        whole = np.floor(floats)
        inside = np.isfinite(floats) & (np.abs(floats) * nanoseconds < 9.2e18)
        part = np.where(inside, np.rint((floats - whole) * min(nanoseconds, 10**6)), 0)  # to the microsecond
        base = np.where(inside, whole, 0).astype(np.int64) * nanoseconds
        stamps = base + part.astype(np.int64) * (nanoseconds // min(nanoseconds, 10**6))
        stamps = np.where(inside, stamps, np.iinfo(np.int64).min)
    return pd.DatetimeIndex(stamps.view("M8[ns]"))


def _serial(column: pd.Series) -> pd.DatetimeIndex:
    """Return serial days of Excel as times, to the second."""
    days = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    inside = (days > 60) & (days < 130_000)  # Excel has a 29 February 1900
    seconds = np.where(inside, np.rint(np.where(inside, days, 0) * 86_400), 0).astype(np.int64)
    stamps = np.where(inside, _EXCEL_ORIGIN.value + seconds * 10**9, np.iinfo(np.int64).min)
    return pd.DatetimeIndex(stamps.view("M8[ns]"))


_RANGES: dict[str, tuple[int, int]] = {
    **{word: (10 ** (digits - 1), 10**digits) for digits, word in _CALENDAR.items()},
    **{word: (_FIRST_EPOCH.value // size, _LAST_EPOCH.value // size) for word, (size, _) in EPOCHS.items()},
    _MONTH_POINT_YEAR: (1, 13),
    EXCEL: (10_000, 75_000),  # 1927 and 2105
}
"""The least number, and the first one beyond the largest, of plausible times by their format."""


def _may_be(word: str, column: pd.Series, numbers: np.ndarray) -> bool:
    """Return whether all numbers of a column are plausible times of a format."""
    low, high = _RANGES[word]
    if not ((numbers >= low) & (numbers < high)).all():
        return False
    if word == _MONTH_POINT_YEAR:
        years = np.rint(numbers * 1e4)
        is_whole = np.isclose(numbers * 1e4, years, rtol=0, atol=1e-6)
        return bool((is_whole & (years % 1e4 >= 1700) & (years % 1e4 < 2200)).all())
    return word not in _CALENDAR.values() or (bool((numbers % 1 == 0).all()) and _reads_as(column, word))
