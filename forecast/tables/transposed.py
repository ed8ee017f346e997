"""Tables that lie on their side: the dates are the names of the columns, and each row is a series."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.common.text import counted
from forecast.tables.flaws import list_word
from forecast.tables.times.forms import form_of, holds_times, read_as
from forecast.tables.times.numbered import find_numbered_column, is_regular
from forecast.tables.times.parts import find_calendar
from forecast.tables.times.spellings import PLAIN, YEAR_FIRST, YEAR_LAST, spell

TIME, VALUE = "date", "value"
"""Names of the columns that a table has once its dates are in rows."""

FEWEST = 3
"""Fewest columns of dates by which a table lies on its side."""

_FORMATS = (
    *("%m/%d/%Y", "%d/%m/%Y", "%m-%d-%Y", "%d-%m-%Y", "%d.%m.%Y", "%m.%d.%Y"),
    *("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%Y%m", "%Y"),
    *("%m/%d/%y", "%d/%m/%y", "%y/%m/%d", "%d.%m.%y", "%m-%d-%y", "%d-%m-%y", "%y-%m-%d"),
)
_DAY = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}( 0?0:00(:00)?)?")
_EMPTY = "(none)"


@dataclass(frozen=True)
class Upright:
    """A table with its dates in rows: its ids, the format of its dates if the names show it, and notes."""

    frame: pd.DataFrame
    ids: tuple[str, ...] = ()
    date_format: str | None = None
    notes: tuple[str, ...] = ()


def is_header_of_dates(cells: Sequence[str], first_row: Sequence[str] = ()) -> bool:
    """Return whether the names of columns end in at least three dates, which rise or fall without a repetition.

    With a date before them in the first row, the names are data.
    """
    names = [str(cell).strip() for cell in cells]
    dates = _dates_at_end(names)
    if len(dates) < FEWEST or 2 * len(dates) < len(names) - 1 or len(set(dates)) < len(dates):
        return False
    if any(form_of(str(cell)) is not None for cell in first_row[: names.index(dates[0])]):
        return False
    return bool(_formats(dates) or _spelled(dates) is not None)


def _dates_at_end(names: Sequence[str]) -> list[str]:
    """Return the names of the last columns that look like dates; unnamed columns at the end do not count."""
    last = len(names)
    while last and (not names[last - 1] or names[last - 1].startswith("Unnamed: ")):
        last -= 1
    first = last
    while first and _looks_like_date(names[first - 1]):
        first -= 1
    return list(names[first:last])


def _looks_like_date(name: str) -> bool:
    if not any(letter.isdigit() for letter in name):
        return False
    plain = _plain(name)
    return bool(_DAY.fullmatch(plain) or re.fullmatch(r"(1[89]|2[01])\d{2}((0[1-9]|1[0-2])([0-3]\d)?)?", plain)) or (
        form_of(plain) is not None or any(spell(plain, style) is not None for style in (PLAIN, YEAR_LAST, YEAR_FIRST))
    )


def _plain(name: str) -> str:
    """Return a date without the X that R writes before it, as X2015.01.31."""
    return re.sub(r"^X(?=\d{4}|\d{1,2}\.)", "", name)


def _formats(dates: Sequence[str]) -> list[str]:
    """Return the formats by which the names are dates that rise or fall, those of regular dates if some are."""
    cells = pd.Series([_plain(name) for name in dates])
    read: dict[str, pd.DatetimeIndex] = {}
    for date_format in _FORMATS:
        index, _ = read_as(cells, date_format)
        exact = any(mark in date_format for mark in "-/.") or index.strftime(date_format).tolist() == cells.tolist()
        if exact and _runs_on(index):
            read[date_format] = index
    regular = [date_format for date_format, index in read.items() if is_regular(index)]
    return regular or [date_format for date_format in read if not cells.str.isdigit().all()]


def _runs_on(index: pd.DatetimeIndex) -> bool:
    """Return whether times rise or fall without a repetition."""
    return not index.hasnans and index.is_unique and (index.is_monotonic_increasing or index.is_monotonic_decreasing)


def _spelled(dates: Sequence[str]) -> list[str] | None:
    """Return the names as usual dates, None if one of them has no known spelling."""
    read = {style: texts for style in (PLAIN, YEAR_LAST, YEAR_FIRST) if (texts := _in_style(dates, style))}
    if PLAIN in read or len(read) < 2:
        return next(iter(read.values()), None)
    regular = [texts for texts in read.values() if is_regular(_times(texts))]
    return regular[0] if len(regular) == 1 else None


def _in_style(dates: Sequence[str], style: str) -> list[str] | None:
    """Return the names as usual dates, with years of two digits read in this style."""
    found = [each for name in dates if (each := spell(_plain(name), style)) is not None and not each.end]
    texts = [each.text for each in found]
    if len(found) < len(dates) or (style == YEAR_FIRST and {each.kind for each in found} == {"month"}):
        return None
    return texts if _runs_on(_times(texts)) else None


def _times(texts: Sequence[str]) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(pd.to_datetime(pd.Series(texts), format="ISO8601", errors="coerce"))


def upright(
    frame: pd.DataFrame,
    source: str,
    date_format: str | None = None,
    ids: Sequence[str] = (),
    *,
    time_column: str | None = None,
    is_panel: bool = False,
) -> Upright:
    """Return a table with its dates in rows, unchanged if they are not the names of its columns.

    The columns before the dates identify the series, as many as are needed, or `ids`. A table of one row is one series
    with the name of that row, unless `is_panel`. A table with its times in a column, such as `time_column`, is upright.
    """
    names = [str(name) for name in frame.columns]
    if not names or not is_header_of_dates(names):
        return Upright(frame)
    dates = _dates_at_end(names)
    first = names.index(dates[0])
    before, values = frame.iloc[:, :first], frame.iloc[:, first : first + len(dates)]
    if time_column in before or any(map(holds_times, (pd.Series(frame.index), *(before[name] for name in before)))):
        return Upright(frame)
    if find_calendar(before, (), ()) or find_numbered_column(before, (), None) is not None:
        return Upright(frame)
    found, cells = _read_names(dates, source, date_format)
    values = values[~values.isna().all(axis=1)]
    before = before.loc[values.index]
    if values.empty:
        raise InputError(f"{source} has no rows below its header: add data")
    columns = _ids_of(before, ids, source)
    note = f"the names of {counted(len(dates), 'column')} are dates: each row is a series"
    if len(values) == 1 and not is_panel:
        name = str(before[columns[0]].iloc[0]) if columns else VALUE
        name = VALUE if name in ("", "nan", TIME) else name
        return Upright(pd.DataFrame({TIME: cells, name: values.iloc[0].to_numpy()}), (), found, (note,))
    if not columns:
        raise InputError(f"{source}: each row is a series without a name: add a column of names before the dates")
    count, length = values.shape
    labels = before[columns].astype(object).where(before[columns].notna(), _EMPTY)
    long = {name: np.repeat(labels[name].to_numpy(), length) for name in columns}
    kind = np.float64 if all(map(pd.api.types.is_numeric_dtype, values.dtypes)) else object
    cells_of_rows = values.to_numpy(kind).ravel()
    table = pd.DataFrame({**long, TIME: np.tile(np.array(cells, dtype=object), count), VALUE: cells_of_rows})
    option = list_word("data.id_columns", columns)
    return Upright(table, tuple(columns), found, (f"{note} ({option})",))


def _read_names(dates: Sequence[str], source: str, date_format: str | None) -> tuple[str | None, list[str]]:
    """Return the format of the names if they need one, and the names as text that can be read."""
    cells = [_plain(name) for name in dates]
    if date_format is not None:
        return None, cells
    formats = _formats(dates)
    if len(formats) > 1:
        raise InputError(
            f"{source}, row 1: {dates[0]!r} is a date that may be {' or '.join(formats)}: set data.date_format to one "
            "of them"
        )
    if formats and ("%y" in formats[0] or formats[0] in ("%Y", "%Y%m%d")):
        return formats[0], cells
    if formats:
        index, _ = read_as(pd.Series(cells), formats[0])
        return None, [f"{time:%Y-%m-%d}" for time in index]
    return None, _spelled(dates) or cells


def _ids_of(before: pd.DataFrame, ids: Sequence[str], source: str) -> list[str]:
    """Return the first columns before the dates that identify each row, or the named ones."""
    if ids:
        return [name for name in ids if name in before.columns] or [str(name) for name in before.columns]
    columns: list[str] = []
    names = [str(name) for name in before.columns if not str(name).startswith("Unnamed: ") or len(before.columns) == 1]
    for name in names:
        if columns and (pd.api.types.is_float_dtype(before[name].dtype) or before[name].nunique(dropna=False) == 1):
            continue
        columns.append(name)
        if not before[columns].duplicated().any():
            return columns
    if columns and before[columns].duplicated().any():
        row = int(np.argmax(before[columns].duplicated().to_numpy())) + 2
        raise InputError(
            f"{source}, row {row}: {', '.join(map(repr, columns))} have the same cells as a row before: give each "
            "series a name of its own"
        )
    return columns
