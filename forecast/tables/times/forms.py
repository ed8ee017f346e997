"""Forms of dates in text: their patterns, and the reading of a column by one format."""

import re
import shlex
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from forecast.tables.flaws import value_word

_SAMPLE = 100
_TIME = r"(?:(?P<gap>[T ])(?P<hour>\d{1,2}):\d{2}(?P<second>:\d{2})?(?P<part>[.]\d+)?(?P<half> ?[AaPp][Mm])?)?"
_ZONE = r"(?P<zone> ?(?:Z|[+-]\d{2}(?::?\d{2})?))"
YEAR_FIRST = re.compile(rf"\d{{4}}(?P<mark>[-/.])\d{{1,2}}(?P<day>(?P=mark)\d{{1,2}})?{_TIME}{_ZONE}?")
YEAR_LAST = re.compile(rf"\d{{1,2}}(?P<mark>[-/.])\d{{1,2}}(?P=mark)(?P<year>\d{{4}}|\d{{2}}){_TIME}")
MONTH_NAMED = re.compile(rf"\d{{1,2}}(?P<mark>[- ])[A-Za-z]{{3}}(?P=mark)\d{{4}}{_TIME}")
ZONE_AT_END = r" ?(?:Z|[+-]\d{2}(?::?\d{2})?)$"
UTC = r"(?<=\d) ?(?:UTC|GMT)$"
ISO = "ISO8601"
_CLOCK_WORDS = ("now", "today")  # pandas reads them as the current time
CONVERTED = "the times have several offsets from UTC: converted to UTC"
TAKEN_AS_DATES = "the times have several offsets from UTC and one time of day: taken as dates, without an offset"

EPOCHS = {
    "epoch_s": (10**9, "seconds"),
    "epoch_ms": (10**6, "milliseconds"),
    "epoch_us": (10**3, "microseconds"),
    "epoch_ns": (1, "nanoseconds"),
}
"""Nanoseconds and name of the unit of times since 1970, by their word in `data.date_format`."""

EXCEL = "excel"
"""Word in `data.date_format` for the serial days of Excel."""


def holds_times(column: pd.Series, date_format: str | None = None) -> bool:
    """Return whether most of the first cells hold dates, of this format if it is set and the cells are text."""
    if isinstance(column.dtype, pd.PeriodDtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        return True
    if pd.api.types.is_numeric_dtype(column.dtype):
        return False
    sample = column.dropna().iloc[:_SAMPLE]
    if date_format is not None and is_unread(column):
        return 2 * int(np.count_nonzero(read_as(to_text(sample), date_format)[0].notna())) > len(sample)
    return 2 * sum(form_of(str(cell)) is not None for cell in sample) > len(sample)


def is_unread(column: pd.Series) -> bool:
    """Return whether a column holds text or numbers, not times."""
    if isinstance(column.dtype, pd.PeriodDtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        return False
    return pd.api.types.infer_dtype(column, skipna=True) not in ("datetime64", "datetime", "date", "period")


def to_text(column: pd.Series) -> pd.Series:
    """Return the cells as text without blanks at their ends; a whole number has no decimals."""
    numbers = column.dropna() if pd.api.types.is_float_dtype(column.dtype) else None
    if numbers is not None and (numbers.abs() < 1e15).all() and (numbers % 1 == 0).all():
        column = column.astype("Int64")  # an empty cell makes a column of numbers floats
    return column.astype(str).str.strip()


def form_of(text: str) -> re.Match[str] | None:
    """Return the match of a cell with a known date format, else None."""
    text = re.sub(UTC, "Z", text.strip())
    matches = (form.fullmatch(text) for form in (YEAR_FIRST, YEAR_LAST, MONTH_NAMED))
    found = next((match for match in matches if match), None)
    if found is not None and found.re is YEAR_FIRST and not found["day"] and not 1 <= int(text[5:7].rstrip("T ")) <= 12:
        return None  # 2400.71 is a number
    return found


def patterns_of(form: re.Match[str]) -> dict[str, str]:
    """Return the possible patterns of the form by their name in a note."""
    mark, time = form["mark"], ""
    if form["hour"]:
        half = form["half"] or ""
        seconds = (":%S" if form["second"] else "") + (".%f" if form["part"] else "")
        time = form["gap"] + ("%I" if half else "%H") + ":%M" + seconds + half[:-2] + ("%p" if half else "")
    if form.re is MONTH_NAMED:
        return {"day month year": f"%d{mark}%b{mark}%Y{time}"}
    if form.re is YEAR_LAST:
        return {
            f"day{mark}month{mark}year": f"%d{mark}%m{mark}%Y{time}",
            f"month{mark}day{mark}year": f"%m{mark}%d{mark}%Y{time}",
        }
    written_out = f"%Y{mark}%m" + (f"{mark}%d" if form["day"] else "") + time
    if form["zone"]:
        return {ISO: ISO, "written out": f"{written_out}{' ' * form['zone'].count(' ')}%z"}
    return {ISO: ISO, "written out": written_out}  # the second pattern reads 2002.1.1 1:00


def format_word(date_format: str) -> str:
    """Return the training option of a format, quoted for the shell if it has a blank."""
    word = value_word("data.date_format", date_format) if " " in date_format else f"data.date_format={date_format}"
    return shlex.quote(word) if " " in word else word


def first_form(text: pd.Series) -> re.Match[str] | None:
    """Return the form of the first cell that has a known one."""
    return next((match for cell in text.iloc[:_SAMPLE] if (match := form_of(cell))), None)


def is_a_day_a_row(local: pd.DatetimeIndex) -> bool:
    """Return whether all rows have the same local time of day, and no day occurs twice."""
    return bool(not local.hasnans and local.is_unique and (local - local.normalize()).nunique() == 1)


def read_as(text: pd.Series, date_format: str) -> tuple[pd.DatetimeIndex, tuple[str, ...]]:
    """Return the times of text in a format, NaT for other cells, and a note on several offsets from UTC."""
    dates = text.where(~text.str.lower().isin(_CLOCK_WORDS))
    if len(dates) >= LEAST_ROWS and (by_parts := parse_by_parts(dates, date_format)) is not None:
        return by_parts, ()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # pandas before version 3 warns of several offsets
            return pd.DatetimeIndex(pd.to_datetime(dates, format=date_format, errors="coerce")), ()
    except (ValueError, FutureWarning):
        pass
    if date_format.endswith("%z"):
        plain = dates.str.replace(ZONE_AT_END, "", regex=True)
        local = pd.to_datetime(plain, format=date_format.removesuffix("%z").rstrip(), errors="coerce")
        if is_a_day_a_row(index := pd.DatetimeIndex(local)):
            return index, (TAKEN_AS_DATES,)
    converted = pd.to_datetime(dates, format=date_format, errors="coerce", utc=True)
    return pd.DatetimeIndex(converted), (CONVERTED,)


LEAST_ROWS = 50_000
"""Fewest rows that are parsed by their parts; of fewer, pandas parses each cell in no time."""

_CODES_OF_TIME, _CODES_OF_DATE = re.compile("%[HIMSfpzZ]"), re.compile("%[^HIMSfp]")


def parse_by_parts(text: pd.Series, pattern: str) -> pd.DatetimeIndex | None:
    """Return the times of text (N,) in a format, as `pandas.to_datetime` reads it; NaT for a cell that has another.

    A year of minutes has 366 dates and 1,440 times of day, but half a million cells. None: the format or a cell cannot
    be split into a date and a time of day.
    """
    mark = "T" if "T" in pattern else " "
    date, _, time = pattern.partition(mark)
    if not time or _CODES_OF_TIME.search(date) or _CODES_OF_DATE.search(time):
        return None
    parts = pc.split_pattern(pa.array(text.array, type=pa.large_string(), from_pandas=True), mark, max_splits=1)
    if parts.null_count or not pc.all(pc.equal(pc.list_value_length(parts), 2)).as_py():
        return None
    days = _parsed(pc.list_element(parts, 0), date)
    clock = _parsed(pc.list_element(parts, 1), time)
    return pd.DatetimeIndex(days + (clock - clock.astype("M8[D]")))


def _parsed(cells: pa.Array, pattern: str) -> np.ndarray:
    """Return the times (N,) of cells in a format; each different cell is parsed once."""
    coded = cells.dictionary_encode()
    read = pd.to_datetime(pd.Series(coded.dictionary.to_pylist()), format=pattern, errors="coerce")
    return np.asarray(read.to_numpy("M8[ns]")[coded.indices.to_numpy()])
