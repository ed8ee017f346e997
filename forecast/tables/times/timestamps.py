"""Parsing of times: the columns that hold dates and hours, and their format, without guessing day or month."""

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.common.text import is_plain
from forecast.tables.flaws import Flaw, value_word

_SAMPLE = 100
FEW_LATE = 0.05
"""Largest share of rows out of order, and of those before, at which swapped days and months are accepted."""
_TIME = r"(?:(?P<gap>[T ])(?P<hour>\d{1,2}):\d{2}(?P<second>:\d{2})?(?P<part>[.]\d+)?(?P<half> ?[AaPp][Mm])?)?"
_ZONE = r"(?P<zone> ?(?:Z|[+-]\d{2}(?::?\d{2})?))"
_YEAR_FIRST = re.compile(rf"\d{{4}}(?P<mark>[-/.])\d{{1,2}}(?P<day>(?P=mark)\d{{1,2}})?{_TIME}{_ZONE}?")
_YEAR_LAST = re.compile(rf"\d{{1,2}}(?P<mark>[-/.])\d{{1,2}}(?P=mark)(?P<year>\d{{4}}|\d{{2}}){_TIME}")
_MONTH_NAMED = re.compile(rf"\d{{1,2}}(?P<mark>[- ])[A-Za-z]{{3}}(?P=mark)\d{{4}}{_TIME}")
_ENDS_IN_ZONE = r":\d{2}(?:[.]\d+)? ?(?:Z|[+-]\d{2}(?::?\d{2})?)$"  # not the day of 2016-07-01
_ZONE_AT_END = r" ?(?:Z|[+-]\d{2}(?::?\d{2})?)$"
_NAMES_OF_UTC, _UTC = ("UTC", "GMT"), r"(?<=\d) ?(?:UTC|GMT)$"
_ISO = "ISO8601"
_FIRST, _LAST = pd.Timestamp("1678-01-01"), pd.Timestamp("2262-01-01")  # the range of 64-bit nanoseconds
_CURE = "write dates as 2016-07-01 00:00:00"
_CLOCK_WORDS = ("now", "today")  # pandas reads them as the current time
_CONVERTED = "the times have several offsets from UTC: converted to UTC"
_TAKEN_AS_DATES = "the times have several offsets from UTC and one time of day: taken as dates, without an offset"
_YEARS = ("%Y", "%y", "%G", "%c", "%x")
"""Codes of a date format that have the year."""

_PROBE = pd.Timestamp("2013-12-25 16:05:06.789", tz="UTC")  # each part differs from its default, and from the others


@dataclass(frozen=True)
class TimeFormat:
    """Layout and format of the times in a table.

    Parameters
    ----------
    columns
        A column of dates and one of hours, which make the time; None: the times are in one column.
    date_format
        Format of text dates, as for `strptime`; None: recognized.
    first_hour
        Number of the hour that begins at 00:00, 0 or 1; None: decided from all hours.
    day_first
        Whether the day is before the month in dates such as 01/02/2016; None: decided from all dates.
    """

    columns: tuple[str, str] | None = None
    date_format: str | None = None
    first_hour: int | None = None
    day_first: bool | None = None

    def __post_init__(self) -> None:
        if self.columns is not None and not len(set(self.columns)) == len(self.columns) == 2:
            raise InputError(
                f"data.time_columns=[{','.join(self.columns)}]: name two columns, the dates and the hours, such as "
                "[Date,Hour]"
            )
        if self.date_format is not None:
            _check_date_format(self.date_format)
        if self.first_hour is not None and (type(self.first_hour) is not int or self.first_hour not in (0, 1)):
            raise InputError(f"first_hour {self.first_hour!r}: must be 0 or 1")
        if type(self.day_first) not in (bool, type(None)):
            raise InputError(f"day_first {self.day_first!r}: must be true or false")

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "TimeFormat":
        """Return the format of a `data` group or of a manifest's data."""
        columns, date_format = data.get("time_columns"), data.get("date_format")
        if columns is not None and not isinstance(columns, list):
            raise InputError(f"data.time_columns={columns}: must be a list of names")
        if date_format is not None and not isinstance(date_format, str):
            raise InputError(f"data.date_format={date_format}: must be text")
        named = None if columns is None else tuple(str(name).strip() for name in columns)
        first_hour, day_first = data.get("first_hour"), data.get("day_first")
        return cls(named, date_format, first_hour, day_first)  # type: ignore[arg-type]  # __post_init__ counts them

    def facts(self) -> dict[str, Any]:
        """Return the values that are set as plain values."""
        facts = {"time_columns": self.columns and list(self.columns), **vars(self)}
        del facts["columns"]
        return {key: value for key, value in facts.items() if value is not None}

    def fitting(self, table: pd.DataFrame, time_column: str | None) -> "TimeFormat":
        """Return the format of a table that is forecast, which may have its times in one column in another format.

        Such a table is a forecast file, or one that a user made in pandas. Its dates must be unmistakable, or have
        the order of day and month of training.
        """
        plain = TimeFormat(day_first=self.day_first)
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
        return self if _is_unread(dates) else replace(self, date_format=None)


PLAIN = TimeFormat()
"""Times in one column, in a format that is recognized."""


def _check_date_format(date_format: str) -> None:
    """Raise InputError for a format that does not read back a date."""
    key, cure = f"data.date_format={date_format}", "use one such as %d.%m.%Y or %m/%d/%y %H:%M"
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


def find_time_column(table: pd.DataFrame, source: str, date_format: str | None = None) -> tuple[str, Flaw | None]:
    """Return the name of the column that holds dates, of this format if it is set; numbers never count as dates.

    If several columns hold dates, return the one with the most distinct cells, and a flaw.
    """
    candidates = [str(name) for name in table.columns if holds_times(table[name], date_format)]
    if len(candidates) == 1:
        return candidates[0], None
    names = ", ".join(map(repr, candidates or list(table.columns)[:12]))
    if not candidates:
        if date_format is not None:
            raise InputError(
                f"{source}: no column holds dates of data.date_format={date_format} (its columns: {names}): correct "
                "it, or set data.time_column"
            )
        cure = f"{_CURE}, or set data.date_format or data.time_column"
        raise InputError(f"{source}: no column holds dates (its columns: {names}): {cure}")
    finest = max(candidates, key=lambda name: table[name].nunique())
    cure = "set data.time_column to one of them"
    return finest, Flaw(source, "", f"{names} all hold dates", cure, value_word("data.time_column", finest))


def holds_times(column: pd.Series, date_format: str | None = None) -> bool:
    """Return whether most of the first cells hold dates, of this format if it is set and the cells are text."""
    if isinstance(column.dtype, pd.PeriodDtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        return True
    if pd.api.types.is_numeric_dtype(column.dtype):
        return False
    sample = column.dropna().iloc[:_SAMPLE]
    if date_format is not None and _is_unread(column):
        return 2 * int(np.count_nonzero(_read_as(_to_text(sample), date_format)[0].notna())) > len(sample)
    return 2 * sum(_form(str(cell)) is not None for cell in sample) > len(sample)


def parse_times(
    column: pd.Series, rows: np.ndarray, where: str, time_format: TimeFormat = PLAIN
) -> tuple[pd.DatetimeIndex, TimeFormat, tuple[str, ...]]:
    """Return the times of the column in nanoseconds, in row order, the format, and notes on how they were read.

    `column` holds strings, dates or datetimes; strings, and numbers such as 20160701, are read by
    `time_format.date_format` if it is set. The returned format has `day_first` set if the dates show it. `rows` are
    spreadsheet row numbers (the header is row 1), and `where` is file and column, both for messages.
    """
    date_format = time_format.date_format if _is_unread(column) else None
    if date_format is None and pd.api.types.is_numeric_dtype(column.dtype) and column.notna().any():
        place = int(column.notna().to_numpy().argmax())
        raise InputError(f"{where}, row {rows[place]}: {column.iloc[place]} is a number, not a date: {_CURE}")
    text = None
    empty = column.isna().to_numpy()
    if not isinstance(column.dtype, pd.PeriodDtype) and not pd.api.types.is_datetime64_any_dtype(column.dtype):
        text = _to_text(column)
        empty = empty | (text == "").to_numpy()
    if empty.any():
        count = int(empty.sum())
        raise InputError(f"{where}, row {rows[empty.argmax()]}: no date ({count} empty in total): fill it in")
    notes: tuple[str, ...] = ()
    if text is not None and date_format is not None:
        exact = pd.api.types.is_numeric_dtype(column.dtype)
        index, notes = _parse_formatted(text, date_format, rows, where, exact=exact)
    elif text is not None:
        if text.iloc[0].endswith(_NAMES_OF_UTC):
            text = text.str.replace(_UTC, "Z", regex=True)
        index, day_first, notes = _parse_text(text, rows, where, time_format.day_first)
        time_format = time_format if day_first is None else replace(time_format, day_first=day_first)
    elif isinstance(column.dtype, pd.PeriodDtype):
        index = pd.PeriodIndex(column).to_timestamp()
    else:
        index = pd.DatetimeIndex(column)
    return _within_range(index, rows, where), time_format, notes


def _is_unread(column: pd.Series) -> bool:
    """Return whether a column holds text or numbers, not times."""
    if isinstance(column.dtype, pd.PeriodDtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        return False
    return pd.api.types.infer_dtype(column, skipna=True) not in ("datetime64", "datetime", "date", "period")


def _to_text(column: pd.Series) -> pd.Series:
    """Return the cells as text without blanks at their ends; a whole number has no decimals."""
    if pd.api.types.is_float_dtype(column.dtype) and (column.dropna().abs() < 1e15).all():
        column = (
            column.astype("Int64") if (column.dropna() % 1 == 0).all() else column
        )  # an empty cell makes a column of numbers floats
    return column.astype(str).str.strip()


def _within_range(index: pd.DatetimeIndex, rows: np.ndarray, where: str) -> pd.DatetimeIndex:
    plain = index.tz_localize(None)
    outside = np.flatnonzero((plain < _FIRST) | (plain >= _LAST))
    if outside.size:
        place = outside[0]
        raise InputError(
            f"{where}, row {rows[place]}: {plain[place]} is outside the years 1678 to 2261: correct the year"
        )
    return index.as_unit("ns")


def _form(text: str) -> re.Match[str] | None:
    """Return the match of a cell with a known date format, else None."""
    text = re.sub(_UTC, "Z", text.strip())
    matches = (form.fullmatch(text) for form in (_YEAR_FIRST, _YEAR_LAST, _MONTH_NAMED))
    return next((match for match in matches if match), None)


def _parse_text(
    text: pd.Series, rows: np.ndarray, where: str, day_first: bool | None
) -> tuple[pd.DatetimeIndex, bool | None, tuple[str, ...]]:
    """Return the times, whether the day is before the month, if that matters, and notes.

    `day_first` is the order in training. It counts if the text can be read in both orders.
    """
    form = _first_form(text)
    if form is None:
        cure = f"{_CURE}, or set data.date_format"
        raise InputError(f"{where}, row {rows[0]}: {text.iloc[0]!r} is not a readable date: {cure}")
    if form.re is _YEAR_LAST and len(form["year"]) == 2:
        raise InputError(
            f"{where}, row {rows[0]}: {text.iloc[0]!r} has a year of two digits: {_CURE}, or set data.date_format, "
            f"such as {_formats(form).replace('%Y', '%y')}"
        )
    notes: tuple[str, ...] = ()
    if several := form.re is _YEAR_FIRST and _has_several_offsets(text, rows, where):
        plain = text.str.replace(_ZONE_AT_END, "", regex=True)
        local = pd.to_datetime(plain, format="mixed", errors="coerce")  # the year is first in all of them
        if several := not _is_a_day_a_row(pd.DatetimeIndex(local)):
            notes = (_CONVERTED,)
        else:
            text = plain
            notes = (_TAKEN_AS_DATES,)
    readings = {}
    dates = text.where(text.str.match(r"\d"))  # no clock words
    for words, pattern in _patterns(form).items():
        parsed = pd.to_datetime(dates, format=pattern, errors="coerce", utc=several)
        readings[words] = pd.DatetimeIndex(parsed)
        if form.re is _YEAR_FIRST and not readings[words].hasnans:
            break  # only day and month can be swapped
    whole = {words: index for words, index in readings.items() if not index.hasnans}
    if not whole:
        _refuse_unread(text, rows, where, readings)
    words, index = next(iter(whole.items()))
    if form.re is not _YEAR_LAST:
        return index, None, notes
    if len(whole) == 1:
        (other,) = (reading for name, reading in readings.items() if name != words)
        index, swapped_notes = _with_swapped_days(index, other, text, rows)
        whole, notes = {words: index}, (*notes, *swapped_notes)
    if all(index.equals(other) for other in whole.values()):
        known = None if len(whole) > 1 else words.startswith("day")  # 05/05/2013 does not show the order
        return index, known, (*notes, f"dates were read as {words}")
    if day_first is None:
        differing = int(np.argmax(index != list(whole.values())[1]))
        raise InputError(
            f"{where}, row {rows[differing]}: {text.iloc[differing]!r} is ambiguous, day or month first: {_CURE}, "
            f"or set data.date_format to {_formats(form)}"
        )
    words = next(words for words in whole if words.startswith("day") == day_first)
    return whole[words], day_first, (*notes, f"dates were read as {words}, as in training")


def _with_swapped_days(
    index: pd.DatetimeIndex, other: pd.DatetimeIndex, text: pd.Series, rows: np.ndarray
) -> tuple[pd.DatetimeIndex, tuple[str, ...]]:
    """Return the times with day and month swapped where the order of the rows shows it, and a note.

    A spreadsheet of another country swaps them in each date whose day is at most 12. `other` has the swapped times, NaT
    where there is none. Row by row the time counts that is nearer to the row before, or to the row after for those
    before the first row that can be read in one way only. The result counts if it is in order but for few rows.
    """
    if index.is_monotonic_increasing or index.is_monotonic_decreasing or not other.hasnans:
        return index, ()
    times, swapped, both = index.asi8.copy(), other.asi8, ~np.asarray(other.isna())
    start = int(np.argmin(both))
    for places, step in ((range(start + 1, len(times)), -1), (range(start - 1, -1, -1), 1)):
        for place in places:
            near = times[place + step]
            if both[place] and abs(swapped[place] - near) < abs(times[place] - near):
                times[place] = swapped[place]
    changed, late = np.flatnonzero(times != index.asi8), _out_of_order(times)
    if late > min(FEW_LATE * len(times), FEW_LATE * _out_of_order(index.asi8)):
        return index, ()
    result = index.where(times == index.asi8, other)
    note = f"{len(changed):,} dates have day and month swapped, as the order of the rows shows, such as row "
    return result, (f"{note}{rows[changed[0]]}: {text.iloc[changed[0]]} is {result[changed[0]]:%Y-%m-%d}",)


def _out_of_order(times: np.ndarray) -> int:
    """Return the number of times (N,) out of order, in the direction of most."""
    rising, falling = np.maximum.accumulate(times), np.minimum.accumulate(times)
    return int(min((times < rising).sum(), (times > falling).sum()))


def _patterns(form: re.Match[str]) -> dict[str, str]:
    """Return the possible patterns of the form by their name in a note."""
    mark, time = form["mark"], ""
    if form["hour"]:
        half = form["half"] or ""
        seconds = (":%S" if form["second"] else "") + (".%f" if form["part"] else "")
        time = form["gap"] + ("%I" if half else "%H") + ":%M" + seconds + half[:-2] + ("%p" if half else "")
    if form.re is _MONTH_NAMED:
        return {"day month year": f"%d{mark}%b{mark}%Y{time}"}
    if form.re is _YEAR_LAST:
        return {
            f"day{mark}month{mark}year": f"%d{mark}%m{mark}%Y{time}",
            f"month{mark}day{mark}year": f"%m{mark}%d{mark}%Y{time}",
        }
    written_out = f"%Y{mark}%m" + (f"{mark}%d" if form["day"] else "") + time
    if form["zone"]:
        return {_ISO: _ISO, "written out": f"{written_out}{' ' * form['zone'].count(' ')}%z"}
    return {_ISO: _ISO, "written out": written_out}  # the second pattern reads 2002.1.1 1:00


def _formats(form: re.Match[str]) -> str:
    """Return the possible formats of the form for a message."""
    return " or ".join(_patterns(form).values())


def _first_form(text: pd.Series) -> re.Match[str] | None:
    return next((match for cell in text.iloc[:_SAMPLE] if (match := _form(cell))), None)


def _is_a_day_a_row(local: pd.DatetimeIndex) -> bool:
    """Return whether all rows have the same local time of day, and no day occurs twice."""
    return bool(not local.hasnans and local.is_unique and (local - local.normalize()).nunique() == 1)


def _has_several_offsets(text: pd.Series, rows: np.ndarray, where: str) -> bool:
    """Return whether the offsets differ; raise InputError if only some times have an offset."""
    zoned = text.str.contains(_ENDS_IN_ZONE, regex=True).to_numpy(dtype=bool)
    if not zoned.any():
        return False
    if not zoned.all():
        place = int(np.argmin(zoned))
        raise InputError(
            f"{where}, row {rows[place]}: {text.iloc[place]!r} has no UTC offset, other rows have: add one to all"
        )
    return bool(text.str.extract(f"({_ZONE_AT_END})", expand=False).str.strip().nunique() > 1)


def _refuse_unread(text: pd.Series, rows: np.ndarray, where: str, readings: Mapping[str, pd.DatetimeIndex]) -> NoReturn:
    unread = min((np.asarray(index.isna()) for index in readings.values()), key=lambda bad: int(bad.sum()))
    place, good = int(np.argmax(unread)), int(np.argmin(unread))
    if unread.all():
        raise InputError(f"{where}, row {rows[place]}: {text.iloc[place]!r} is not a readable date: {_CURE}")
    raise InputError(
        f"{where}, row {rows[place]}: {text.iloc[place]!r} is not a date, or has another format than "
        f"{text.iloc[good]!r} in row {rows[good]}: {_CURE}"
    )


def _parse_formatted(
    text: pd.Series, date_format: str, rows: np.ndarray, where: str, *, exact: bool
) -> tuple[pd.DatetimeIndex, tuple[str, ...]]:
    """Return the times of text in one format, and notes.

    With `exact`, a cell must be equal to its date in the format: a number has lost its leading zeros.
    """
    index, notes = _read_as(text, date_format)
    unread = np.asarray(index.isna())
    if exact:
        unread |= np.asarray(index.strftime(date_format) != text.to_numpy())
    if unread.any():
        place = int(np.argmax(unread))
        raise InputError(
            f"{where}, row {rows[place]}: {text.iloc[place]!r} does not match data.date_format={date_format} "
            f"({int(unread.sum())} such cells): correct the date or the format"
        )
    return index, notes


def _read_as(text: pd.Series, date_format: str) -> tuple[pd.DatetimeIndex, tuple[str, ...]]:
    """Return the times of text in a format, NaT for other cells, and a note on several offsets from UTC."""
    dates = text.where(~text.str.lower().isin(_CLOCK_WORDS))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # pandas before version 3 warns of several offsets
            return pd.DatetimeIndex(pd.to_datetime(dates, format=date_format, errors="coerce")), ()
    except (ValueError, FutureWarning):
        pass
    if date_format.endswith("%z"):
        plain = dates.str.replace(_ZONE_AT_END, "", regex=True)
        local = pd.to_datetime(plain, format=date_format.removesuffix("%z").rstrip(), errors="coerce")
        if _is_a_day_a_row(index := pd.DatetimeIndex(local)):
            return index, (_TAKEN_AS_DATES,)
    converted = pd.to_datetime(dates, format=date_format, errors="coerce", utc=True)
    return pd.DatetimeIndex(converted), (_CONVERTED,)


def join_hours(
    table: pd.DataFrame, time_format: TimeFormat, rows: np.ndarray, source: str
) -> tuple[pd.DataFrame, TimeFormat, tuple[str, ...]]:
    """Return the table with its dates and hours as one time column, the format with `first_hour` set, and notes.

    The time column has the name and place of the column of dates. Without `time_format.columns` nothing changes.
    """
    if time_format.columns is None:
        return table, time_format, ()
    date, hour = time_format.columns
    where = f"{source}, column {date!r}"
    dates, time_format, notes = parse_times(table[date], rows, where, time_format)
    late = np.asarray(dates != dates.normalize())
    if late.any():
        place = int(np.argmax(late))
        raise InputError(
            f"{where}, row {rows[place]}: {dates[place]} has a time of day beside the hour of {hour!r}: set "
            "data.time_column instead of data.time_columns, or remove it from the dates"
        )
    hours, first = _hours(table[hour], rows, f"{source}, column {hour!r}", time_format.first_hour)
    table = table.drop(columns=hour)
    table[date] = dates + pd.to_timedelta(hours - first, unit="h")
    range_of_hours = f"hours {first} to {first + 23}{': hour 1 begins at 00:00' if first else ''}"
    note = f"times were made of {date!r} and {hour!r} ({range_of_hours})"
    return table, replace(time_format, first_hour=first), (*notes, note)


def _hours(column: pd.Series, rows: np.ndarray, where: str, first: int | None) -> tuple[np.ndarray, int]:
    """Return the hours, shape (N,), int64, and the number of the one that begins at 00:00, `first` if it is known."""
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    least, most = (0, 24) if first is None else (first, first + 23)
    wrong = ~((numbers >= least) & (numbers <= most) & (numbers == np.round(numbers)))
    if wrong.any():
        place = int(np.argmax(wrong))
        text = str(column.iloc[place])
        shown = "no hour" if pd.isna(column.iloc[place]) or not text.strip() else f"{text[:40]!r} is not an hour"
        known = "from 0 to 23 or from 1 to 24" if first is None else f"from {least} to {most}, as in training"
        raise InputError(
            f"{where}, row {rows[place]}: {shown} ({int(wrong.sum())} such cells): write whole numbers {known}"
        )
    hours = numbers.astype(np.int64)
    if first is not None:
        return hours, first
    begins, ends = bool((hours == 0).any()), bool((hours == 24).any())
    if begins == ends:
        problem = "both 0 and 24" if begins else "neither 0 nor 24, so the number of the first hour is unknown"
        cure = "number the hours from 0 to 23, or from 1 to 24" if begins else "write date and hour in one column"
        raise InputError(f"{where}: holds {problem}: {cure}")
    return hours, int(ends)
