"""Cells in, times out: which column holds the dates, and what they say, without guessing at day and month."""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from forecast.errors import InputError

_SAMPLE = 100
_TIME = r"(?:(?P<sep>[T ]\s*)(?P<hour>\d{1,2}):(?P<minute>\d{2})(?P<second>:\d{2})?(?P<part>[.]\d+)?(?P<half>\s?[AaPp][Mm])?)?"
_ZONE = r"\s?(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2})?"
_YEAR_FIRST = re.compile(rf"\d{{4}}(?P<mark>[-/.])\d{{1,2}}(?:(?P=mark)(?P<day>\d{{1,2}}))?{_TIME}{_ZONE}")
_YEAR_LAST = re.compile(rf"\d{{1,2}}(?P<mark>[-/.])\d{{1,2}}(?P=mark)(?P<year>\d{{4}}|\d{{2}}){_TIME}{_ZONE}")
_DAY_NAMED = re.compile(rf"\d{{1,2}}(?P<mark>[- ])[A-Za-z]{{3}}(?P=mark)\d{{4}}{_TIME}{_ZONE}")
_FORMS = (_YEAR_FIRST, _YEAR_LAST, _DAY_NAMED)
_HAS_ZONE = r"(?:Z|UTC|GMT|\d[+-]\d{2}:?\d{2}|\s[+-]\d{2}:?\d{2})\s*$"
_FIRST, _LAST = pd.Timestamp("1678-01-01"), pd.Timestamp("2262-01-01")
_CURE = "write dates as 2016-07-01 00:00:00"


def find_time_column(frame: pd.DataFrame, source: str) -> str:
    """Name of the one column that holds dates; numbers are never taken for dates.

    Raises `InputError` where there is none or more than one.
    """
    candidates = [str(name) for name in frame.columns if _looks_like_time(frame[name])]
    if len(candidates) == 1:
        return candidates[0]
    names = ", ".join(map(repr, candidates or [str(name) for name in frame.columns][:12]))
    if candidates:
        raise InputError(f"{source}: {names} all hold dates: name the one to use in data.time_column")
    raise InputError(
        f"{source}: none of the columns {names} holds dates: {_CURE}, and name the column in data.time_column"
    )


def _looks_like_time(column: pd.Series) -> bool:
    if isinstance(column.dtype, pd.PeriodDtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        return True
    if pd.api.types.is_numeric_dtype(column.dtype):
        return False
    sample = column.dropna().iloc[:_SAMPLE]
    hits = sum(_form_of(str(cell)) is not None for cell in sample)
    return 2 * hits > len(sample)


def _form_of(text: str) -> re.Match[str] | None:
    return next((match for form in _FORMS if (match := form.fullmatch(text.strip()))), None)


def parse_times(column: pd.Series, rows: np.ndarray, where: str) -> tuple[pd.DatetimeIndex, tuple[str, ...]]:
    """Times of the column in nanoseconds, in the order of the rows, with notes on how they were read.

    Parameters
    ----------
    column
        Strings, dates or datetimes.
    rows
        Row number of each cell as a spreadsheet shows it (the header is row 1), for the messages.
    where
        File and column, for the messages.
    """
    empty = np.flatnonzero(column.isna().to_numpy())
    if empty.size:
        raise InputError(
            f"{where}, row {rows[empty[0]]}: no date ({empty.size} empty in all): fill in the date"
        )
    if pd.api.types.is_numeric_dtype(column.dtype):
        raise InputError(f"{where}, row {rows[0]}: {column.iloc[0]} is a plain number, not a date: {_CURE}")
    notes: tuple[str, ...] = ()
    if isinstance(column.dtype, pd.PeriodDtype):
        index = pd.PeriodIndex(column).to_timestamp()
    elif pd.api.types.is_datetime64_any_dtype(column.dtype):
        index = pd.DatetimeIndex(column)
    else:
        index, notes = _parse_text(column.astype(str).str.strip(), rows, where)
    return _within_range(index, rows, where), notes


def _within_range(index: pd.DatetimeIndex, rows: np.ndarray, where: str) -> pd.DatetimeIndex:
    plain = index.tz_localize(None)
    outside = np.flatnonzero((plain < _FIRST) | (plain >= _LAST))
    if outside.size:
        raise InputError(
            f"{where}, row {rows[outside[0]]}: {plain[outside[0]]} is outside 1678 to 2261: correct the year"
        )
    return index.as_unit("ns")


def _parse_text(text: pd.Series, rows: np.ndarray, where: str) -> tuple[pd.DatetimeIndex, tuple[str, ...]]:
    blank = np.flatnonzero((text == "").to_numpy())
    if blank.size:
        raise InputError(
            f"{where}, row {rows[blank[0]]}: no date ({blank.size} empty in all): fill in the date"
        )
    form = next((match for cell in text.iloc[:_SAMPLE] if (match := _form_of(cell))), None)
    if form is None:
        raise InputError(f"{where}, row {rows[0]}: {text.iloc[0]!r} is no date that can be read: {_CURE}")
    if form.re is _YEAR_LAST and len(form["year"]) == 2:
        raise InputError(f"{where}, row {rows[0]}: {text.iloc[0]!r} has a year of two digits: {_CURE}")
    notes: tuple[str, ...] = ()
    if form["zone"]:
        notes = _check_zones(text, rows, where)
    parsed = {words: _to_datetime(text, pattern, bool(notes)) for words, pattern in _patterns(form).items()}
    whole = {words: index for words, index in parsed.items() if not index.hasnans}
    if len(whole) > 1 and not _all_same(list(whole.values())):
        raise InputError(f"{where}, row {rows[0]}: {text.iloc[0]!r} may be day or month first: {_CURE}")
    if not whole:
        _refuse_unread(text, rows, where, list(parsed.values()))
    words, index = next(iter(whole.items()))
    return index, (*notes, f"dates read as {words}") if len(parsed) > 1 else notes


def _all_same(readings: Sequence[pd.DatetimeIndex]) -> bool:
    return all(reading.equals(readings[0]) for reading in readings[1:])


def _patterns(form: re.Match[str]) -> dict[str, str]:
    """Ways to read the form, in words and for strptime."""
    mark = form["mark"]
    time = ""
    if form["hour"]:
        seconds = (":%S" if form["second"] else "") + (".%f" if form["part"] else "")
        half = (" %p" if form["half"][0].isspace() else "%p") if form["half"] else ""
        time = form["sep"] + ("%I" if half else "%H") + ":%M" + seconds + half
    tail = time + (
        (" " if re.search(r"\s\S*$", form[0]) and form[0].rstrip().endswith(" " + form["zone"]) else "")
        + "%z"
        if form["zone"]
        else ""
    )
    if form.re is _DAY_NAMED:
        return {"day-month-year": f"%d{mark}%b{mark}%Y{tail}"}
    if form.re is _YEAR_LAST:
        return {
            "day, month, year": f"%d{mark}%m{mark}%Y{tail}",
            "month, day, year": f"%m{mark}%d{mark}%Y{tail}",
        }
    if mark == "-":
        return {"year-month-day": "ISO8601"}
    return {"year-month-day": f"%Y{mark}%m" + (f"{mark}%d" if form["day"] else "") + tail}


def _to_datetime(text: pd.Series, pattern: str, utc: bool) -> pd.DatetimeIndex:
    """Times by one pattern, NaT where a cell does not fit it."""
    try:
        index = pd.DatetimeIndex(pd.to_datetime(text, format=pattern, errors="coerce", utc=utc))
    except ValueError:  # some cells have an offset and some have none: those that have none are right here
        zoned = text.str.contains(_HAS_ZONE, regex=True)
        return pd.DatetimeIndex(pd.to_datetime(text.where(~zoned), format=pattern, errors="coerce"))
    if (
        index.hasnans and pattern == "ISO8601"
    ):  # hours or months of one digit are not ISO: read these one by one
        form = _form_of(text.iloc[0])
        if form is not None and form["day"]:
            time = "" if not form["hour"] else form["sep"] + "%H:%M" + (":%S" if form["second"] else "")
            zone = "%z" if form["zone"] else ""
            other = pd.DatetimeIndex(
                pd.to_datetime(text, format=f"%Y-%m-%d{time}{zone}", errors="coerce", utc=utc)
            )
            return index if other.isna().sum() > index.isna().sum() else other
    return index


def _check_zones(text: pd.Series, rows: np.ndarray, where: str) -> tuple[str, ...]:
    """Refuse a mixture of times with and without an offset; say so where offsets differ."""
    offsets = text.str.extract(r"(Z|UTC|GMT|[+-]\d{2}:?\d{2})$", expand=False)
    without = np.flatnonzero(offsets.isna().to_numpy())
    if without.size:
        row = rows[without[0]]
        raise InputError(
            f"{where}, row {row}: {text.iloc[without[0]]!r} has no time zone, others have: give all rows one"
        )
    if offsets.nunique() > 1:
        return ("times with different offsets from UTC: converted to UTC",)
    return ()


def _refuse_unread(
    text: pd.Series, rows: np.ndarray, where: str, readings: Sequence[pd.DatetimeIndex]
) -> None:
    best = min(readings, key=lambda index: int(index.isna().sum()))
    place = int(np.flatnonzero(best.isna())[0])
    raise InputError(
        f"{where}, row {rows[place]}: {text.iloc[place]!r} is no date, or is written differently from "
        f"{text.iloc[int(np.argmax(~best.isna()))]!r}: {_CURE}"
    )
