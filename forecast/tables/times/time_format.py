"""Layout and format of the times in a table, as an option says it or as training found it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from forecast.common.errors import InputError
from forecast.common.text import is_plain
from forecast.tables.times.forms import EPOCHS, EXCEL, holds_times, is_unread
from forecast.tables.times.zones import check_zone

_YEARS = ("%Y", "%y", "%G", "%c", "%x")
"""Codes of a date format that have the year."""

_PROBE = pd.Timestamp("2013-12-25 16:05:06.789", tz="UTC")  # each part differs from its default, and from the others


@dataclass(frozen=True)
class TimeFormat:
    """Layout and format of the times in a table.

    Parameters
    ----------
    columns
        Columns that make the time together, such as a date and an hour, or year and month; None: one column has it.
    date_format
        Format of text dates, as for `strptime`, or a word for numbers: epoch_s, epoch_ms, epoch_us, epoch_ns, excel;
        None: recognized.
    first_hour
        Number of the hour or period that begins at 00:00, 0 or 1; None: decided from all hours.
    day_first
        Whether the day is before the month in dates such as 01/02/2016; None: decided from all dates.
    zone
        Time zone of times without an offset, such as Europe/Berlin; None: they have no zone.
    periods
        Number of periods of a day that are counted, such as 48; None: hours, or decided from all numbers.
    counted
        Whether the hours count from midnight, so that the days of a clock change have 23 and 25; None: decided from
        all hours.
    """

    columns: tuple[str, ...] | None = None
    date_format: str | None = None
    first_hour: int | None = None
    day_first: bool | None = None
    zone: str | None = None
    periods: int | None = None
    counted: bool | None = None

    def __post_init__(self) -> None:
        if self.columns is not None and not len(set(self.columns)) == len(self.columns) >= 2:
            raise InputError(
                f"data.time_columns=[{','.join(self.columns)}]: name two columns or more, such as [Date,Hour] or "
                "[Year,Month,Day]"
            )
        if self.date_format is not None:
            _check_date_format(self.date_format)
        if self.zone is not None:
            check_zone(self.zone)
        if self.first_hour is not None and (type(self.first_hour) is not int or self.first_hour not in (0, 1)):
            raise InputError(f"first_hour {self.first_hour!r}: must be 0 or 1")
        if self.periods is not None and (type(self.periods) is not int or not 24 <= self.periods <= 1440):
            raise InputError(f"periods {self.periods!r}: must be from 24 to 1440")
        for key in ("day_first", "counted"):
            if type(value := getattr(self, key)) not in (bool, type(None)):
                raise InputError(f"{key} {value!r}: must be true or false")

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "TimeFormat":
        """Return the format of a `data` group or of a manifest's data."""
        columns, date_format = data.get("time_columns"), data.get("date_format")
        if columns is not None and not isinstance(columns, list):
            raise InputError(f"data.time_columns={columns}: must be a list of names")
        if date_format is not None and not isinstance(date_format, str):
            raise InputError(f"data.date_format={date_format}: must be text")
        named = None if columns is None else tuple(str(name).strip() for name in columns)
        keys = ("first_hour", "day_first", "periods", "counted")
        return cls(named, date_format, zone=data.get("local_zone"), **{key: data.get(key) for key in keys})

    def facts(self) -> dict[str, Any]:
        """Return the values that are set as plain values."""
        facts = {"time_columns": self.columns and list(self.columns), "local_zone": self.zone, **vars(self)}
        del facts["columns"], facts["zone"]
        return {key: value for key, value in facts.items() if value is not None}

    def fitting(self, table: pd.DataFrame, time_column: str | None) -> "TimeFormat":
        """Return the format of a table that is forecast, which may have its times in one column in another format.

        Such a table is a forecast file, or one that a user made in pandas. Its dates must be unmistakable, or have
        the order of day and month of training.
        """
        plain = TimeFormat(day_first=self.day_first, zone=self.zone)
        if self.columns is not None:
            return self if set(self.columns) <= set(table.columns) else plain
        if self.date_format is None:
            return self
        if time_column is None:
            return self if any(holds_times(table[name], self.date_format) for name in table.columns) else plain
        column = table[time_column]
        is_number = pd.api.types.is_numeric_dtype(column.dtype)  # such as 20160701, which only the format can read
        return self if is_number or holds_times(column, self.date_format) else plain

    def acting_on(self, dates: pd.Series) -> "TimeFormat":
        """Return the format without `date_format` unless the column holds text or numbers."""
        return self if is_unread(dates) else replace(self, date_format=None)


PLAIN = TimeFormat()
"""Times in one column, in a format that is recognized."""


def _check_date_format(date_format: str) -> None:
    """Raise InputError for a format that does not read back a date."""
    key, cure = f"data.date_format={date_format}", "use one such as %d.%m.%Y or %m/%d/%y %H:%M"
    if date_format in (*EPOCHS, EXCEL):
        return
    if not is_plain(date_format):
        raise InputError(f"data.date_format={date_format!r}: has control characters: {cure}")
    if "%p" in date_format and "%I" not in date_format:
        raise InputError(f"{key}: %p needs the hour as %I: correct it")
    has_year = any(word in date_format for word in _YEARS)
    dated = date_format if has_year else f"%Y {date_format}"  # Python 3.13 warns of a day without a year
    try:
        text = _PROBE.strftime(dated)
        read = pd.to_datetime(text, format=dated) if "%" in date_format else None
    except (ValueError, LookupError, ArithmeticError, NotImplementedError, re.error):
        read = None
    if not isinstance(read, pd.Timestamp):
        raise InputError(f"{key}: is not a format of dates: {cure}")
    if not has_year or read.year != _PROBE.year:
        raise InputError(f"{key}: has no year: {cure}")
    if read.hour not in (0, _PROBE.hour):
        raise InputError(f"{key}: %I needs AM or PM, %p: correct it, or use %H")
