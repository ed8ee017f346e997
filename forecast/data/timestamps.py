"""Parsing of times: the column that holds dates, and their format, without guessing day or month."""

import re
from collections.abc import Mapping
from typing import NoReturn

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.data.flaws import Flaw, value_word

_SAMPLE = 100
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


def find_time_column(table: pd.DataFrame, source: str) -> tuple[str, Flaw | None]:
    """Return the name of the column that holds dates; numbers never count as dates.

    If several columns hold dates, return the one with the most distinct cells, and a flaw.
    """
    candidates = [str(name) for name in table.columns if holds_times(table[name])]
    if len(candidates) == 1:
        return candidates[0], None
    names = ", ".join(map(repr, candidates or list(table.columns)[:12]))
    if not candidates:
        raise InputError(f"{source}: no column holds dates (its columns: {names}): {_CURE}, or set data.time_column")
    finest = max(candidates, key=lambda name: table[name].nunique())
    cure = "set data.time_column to one of them"
    return finest, Flaw(source, "", f"{names} all hold dates", cure, value_word("data.time_column", finest))


def holds_times(column: pd.Series) -> bool:
    """Return whether most of the first cells hold dates."""
    if isinstance(column.dtype, pd.PeriodDtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        return True
    if pd.api.types.is_numeric_dtype(column.dtype):
        return False
    sample = column.dropna().iloc[:_SAMPLE]
    return 2 * sum(_form(str(cell)) is not None for cell in sample) > len(sample)


def parse_times(column: pd.Series, rows: np.ndarray, where: str) -> tuple[pd.DatetimeIndex, tuple[str, ...]]:
    """Return the times of the column in nanoseconds, in row order, and notes on how they were read.

    `column` holds strings, dates or datetimes. `rows` are spreadsheet row numbers (the header is row 1), and `where` is
    file and column, both for messages.
    """
    if pd.api.types.is_numeric_dtype(column.dtype) and column.notna().any():
        place = int(column.notna().to_numpy().argmax())
        raise InputError(f"{where}, row {rows[place]}: {column.iloc[place]} is a number, not a date: {_CURE}")
    text = None
    empty = column.isna().to_numpy()
    if not isinstance(column.dtype, pd.PeriodDtype) and not pd.api.types.is_datetime64_any_dtype(column.dtype):
        text = column.astype(str).str.strip()
        empty = empty | (text == "").to_numpy()
    if empty.any():
        count = int(empty.sum())
        raise InputError(f"{where}, row {rows[empty.argmax()]}: no date ({count} empty in total): fill it in")
    notes: tuple[str, ...] = ()
    if text is not None:
        if text.iloc[0].endswith(_NAMES_OF_UTC):
            text = text.str.replace(_UTC, "Z", regex=True)
        index, notes = _parse_text(text, rows, where)
    elif isinstance(column.dtype, pd.PeriodDtype):
        index = pd.PeriodIndex(column).to_timestamp()
    else:
        index = pd.DatetimeIndex(column)
    return _within_range(index, rows, where), notes


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


def _parse_text(text: pd.Series, rows: np.ndarray, where: str) -> tuple[pd.DatetimeIndex, tuple[str, ...]]:
    form = _first_form(text)
    if form is None:
        raise InputError(f"{where}, row {rows[0]}: {text.iloc[0]!r} is not a readable date: {_CURE}")
    if form.re is _YEAR_LAST and len(form["year"]) == 2:
        raise InputError(f"{where}, row {rows[0]}: {text.iloc[0]!r} has a year of two digits: {_CURE}")
    notes: tuple[str, ...] = ()
    if several := form.re is _YEAR_FIRST and _has_several_offsets(text, rows, where):
        plain = text.str.replace(_ZONE_AT_END, "", regex=True)
        if several := not _is_a_day_a_row(plain):
            notes = ("the times have several offsets from UTC: converted to UTC",)
        else:
            text, form = plain, _first_form(plain) or form
            notes = ("the times have several offsets from UTC and one time of day: taken as dates, without an offset",)
    readings = {}
    dates = text.where(text.str.match(r"\d"))  # pandas reads "now" and "today" as the current time
    for words, pattern in _patterns(form).items():
        parsed = pd.to_datetime(dates, format=pattern, errors="coerce", utc=several)
        readings[words] = pd.DatetimeIndex(parsed)
        if form.re is _YEAR_FIRST and not readings[words].hasnans:
            break  # only day and month can be swapped
    whole = {words: index for words, index in readings.items() if not index.hasnans}
    if not whole:
        _refuse_unread(text, rows, where, readings)
    words, index = next(iter(whole.items()))
    if not all(index.equals(other) for other in whole.values()):
        differing = int(np.argmax(index != list(whole.values())[1]))
        raise InputError(
            f"{where}, row {rows[differing]}: {text.iloc[differing]!r} is ambiguous, day or month first: {_CURE}"
        )
    return index, (*notes, f"dates were read as {words}") if form.re is _YEAR_LAST else notes


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


def _first_form(text: pd.Series) -> re.Match[str] | None:
    return next((match for cell in text.iloc[:_SAMPLE] if (match := _form(cell))), None)


def _is_a_day_a_row(plain: pd.Series) -> bool:
    """Return whether all rows have the same local time of day, and no day occurs twice."""
    local = pd.DatetimeIndex(pd.to_datetime(plain, format="mixed", errors="coerce"))  # the year is first in all of them
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
