"""The raw table of a file, by its type: CSV, packed CSV or Parquet."""

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow

from forecast.common.errors import InputError
from forecast.common.files import PACKED, PARQUET, TEXT
from forecast.common.spreadsheet import unguard
from forecast.common.text import is_plain
from forecast.tables.formats.unpacking import check_columns, read_file, read_gzip, read_parquet_bytes
from forecast.tables.transposed import is_header_of_dates

# the same numbers as from Parquet, to the last digit; the only mode of pandas from 3.1 on
_EXACT: Any = {} if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}
_DAMAGED_PARQUET = (ValueError, OSError, LookupError, TypeError, AttributeError, OverflowError, pyarrow.ArrowException)
_DATE_LIKE = re.compile(r"\s*(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})([^\d.].*)?$")
_MONTH_NAMED = re.compile(r"\s*(\d{1,2}([- ])[A-Za-z]{3}\2\d{4}|(19|20)\d{2}-(0[1-9]|1[0-2]))( .*)?$")
"""Dates such as 01-Jul-2016, and months such as 2016-07."""
_NONE = "None"
_EMPTY_WORDS = [
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>"),
    *("N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"),
]
"""The words that pandas reads as an empty cell, without None."""
_SHOWN = 12
"""Largest number of names in a note."""
MOST_JUMPS = 0.01
"""Largest share of rows at which a counter may jump: a logger starts again, or loses rows."""
LEAST_COUNTED = 30
"""Least number of rows of a named counter: a few small numbers may rise by chance."""
_OTHER_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def read_table(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Return the raw table of a file, one row per record; raise InputError if the file is not a table."""
    path = Path(path)
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder: name a .csv, .csv.gz or .parquet file")
        if path.exists() and not path.is_file():  # reading a pipe could block forever
            raise InputError(f"{path} is a pipe or a device: save the table as a file")
        name = path.name.lower()
        if name.endswith(PARQUET):
            return _read_parquet(path)
        if name.endswith((TEXT, TEXT + PACKED)):
            return _read_csv(path)
        if not path.exists():
            raise InputError(f"{path}: no such file: check the path")
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        raise InputError(f"{path}: {reason}: check the path") from error
    raise InputError(f"{path}: only .csv, .csv.gz and .parquet are read: save the table as one of these")


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        content = io.BytesIO(read_parquet_bytes(path))
        # one thread is as fast at this size, and holds the memory of one column at a time
        return pd.read_parquet(content, engine="pyarrow", use_threads=False, pre_buffer=False)
    except (InputError, FileNotFoundError, PermissionError):
        raise
    except _DAMAGED_PARQUET as error:
        reason = str(error).splitlines()[0][:100] if str(error) else "unknown reason"
        raise InputError(f"{path} cannot be read as Parquet ({reason}): write the file again") from error


def _read_csv(path: Path) -> pd.DataFrame:
    content = _text_bytes(path)
    header = _read_header(content, path)
    try:
        table: pd.DataFrame = pd.read_csv(
            io.BytesIO(content),
            names=header,
            header=0,
            index_col=False,
            encoding="utf-8-sig",
            skip_blank_lines=False,  # a blank line counts as a row, to keep the row numbers
            low_memory=False,  # one type per column
            keep_default_na=False,
            na_values=_EMPTY_WORDS,
            **_EXACT,
        )
        return _without_none(table)
    except pd.errors.EmptyDataError as error:
        raise InputError(f"{path} has no rows below its header: add data") from error
    except (pd.errors.ParserError, csv.Error) as error:
        raise InputError(f"{path}: {_parser_complaint(error)}") from error


def _text_bytes(path: Path) -> bytes:
    """Return the unpacked content of the file, checked to be UTF-8 text."""
    content = read_gzip(path) if path.name.lower().endswith(PACKED) else read_file(path)
    if not content.strip(b"\xef\xbb\xbf \t\r\n"):
        raise InputError(f"{path} is empty: choose another file")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path} is UTF-16 text: save it as UTF-8")
    zero = content.find(b"\0")
    if zero >= 0:
        row = content.count(b"\n", 0, zero) + 1
        raise InputError(f"{path}, row {row}: a zero byte: the file is binary or damaged: save it as CSV text")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        row = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, row {row}: not UTF-8 text (or binary): save the file as UTF-8") from error
    return content


def _read_header(content: bytes, path: Path) -> list[str]:
    """Return the checked column names, with the blanks at their ends; an empty name becomes `Unnamed: 0`."""
    records = csv.reader(io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline=""))
    header: list[str] = []
    try:
        header = [cell.replace(cell.strip(), unguard(cell.strip()), 1) for cell in next(records, [])]
        first = next(records, [])
    except csv.Error:  # a cell has more characters than the reader accepts
        row = 2 if header else 1
        raise InputError(
            f"{path}, row {row}: a quotation mark is never closed, or a cell exceeds 131,072 characters: correct it"
        ) from None
    check_columns(len(header), path)
    if header and header[0].lower().startswith("sep="):
        raise InputError(f"{path}, row 1: {header[0]!r} is a line for Excel: delete it, and save the file with commas")
    marks = [word for mark, word in _OTHER_DELIMITERS.items() if header and mark in header[0]]
    if marks and (len(header) < 2 or _is_in_cells(first, header[0])):
        hint = ""
        if marks[0] == _OTHER_DELIMITERS[";"]:  # a decimal comma is likely, and cannot stay
            hint = f", in pandas: read_csv({path.name!r}, sep=';', decimal=',').to_csv('commas.csv', index=False)"
        raise InputError(f"{path}, row 1: columns are separated by {marks[0]}: save the file with commas{hint}")
    if len(header) < 2:
        raise InputError(f"{path}, row 1: one column only: a date column and a value column are needed")
    if len(first) > len(header):
        raise InputError(
            f"{path}, row 2: {len(first)} cells under {len(header)} column names: "
            "use equally long lines, and points as decimal marks"
        )
    if 0 < len(first) < len(header) and not all(cell.strip() for cell in header[:-1]):  # values would move
        raise InputError(
            f"{path}, row 2: {len(first)} cells under {len(header)} column names, of which one is empty: "
            "remove its comma, or use equally long lines"
        )
    dates = [cell for cell in header if _is_date_like(cell)]
    if dates and not is_header_of_dates(header, first):
        raise InputError(f"{path}, row 1: {dates[0]!r} is data, not a column name: add a header row")
    header = [cell if cell.strip() else f"Unnamed: {position}" for position, cell in enumerate(header)]
    check_names([cell.strip() for cell in header], str(path))
    return header


def _is_in_cells(cells: list[str], name: str) -> bool:
    """Return whether a cell of the first row has a separator that the name of the first column has too."""
    return any(mark in name and any(mark in cell for cell in cells) for mark in _OTHER_DELIMITERS)


def _is_date_like(cell: str) -> bool:
    """Return whether a cell looks like a date, and not like the code of a meter (1.8.0) or an address (10.0.0.1)."""
    if _MONTH_NAMED.match(cell):
        return True
    if (match := _DATE_LIKE.match(cell)) is None:
        return False
    first, _, middle, last, _ = match.groups()
    year_first = len(first) == 4 and 1 <= int(last) <= 31
    year_last = len(last) in (2, 4) and 1 <= int(first) <= 31
    return 1 <= int(middle) <= 31 and (year_first or year_last)


def _without_none(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the word None as an empty cell, except among words, where it is a label."""
    for place in range(table.shape[1]):
        column = table.iloc[:, place]
        if pd.api.types.is_numeric_dtype(column.dtype) or not (none := column == _NONE).any():
            continue
        others = column.mask(none)
        words = others.dropna().astype(str)
        numbers = pd.to_numeric(words, errors="coerce").notna()
        if len(words) and numbers.all():
            table.isetitem(place, others.to_numpy(np.float64))
        elif numbers.any() or words.map(_is_date_like).any():
            table.isetitem(place, others.array)
    return table


def tidy_names(frame: pd.DataFrame, source: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the frame with checked names, as text without blanks at their ends, and a note on the changed ones.

    The name of the index counts as well. A column name of blanks alone becomes `Unnamed: 0`.
    """
    if isinstance(frame.index, pd.MultiIndex) or isinstance(frame.columns, pd.MultiIndex):
        raise InputError(f"{source} has an index of several levels: use one row per time and one column per series")
    labels = [str(label) for label in frame.columns]
    names = [tidy_name(label) or (label and f"Unnamed: {place}") for place, label in enumerate(labels)]
    check_names(names, source)
    changed = [tidy_name(label) for label in labels if label != tidy_name(label) != ""]
    frame = frame.set_axis(names, axis=1)
    index = frame.index.name
    if tidy_name(index) != index:
        frame = frame.rename_axis(index=tidy_name(index))
        changed.insert(0, tidy_name(index))
    if not changed:
        return frame, ()
    listed = ", ".join(map(repr, changed[:_SHOWN])) + (", …" if len(changed) > _SHOWN else "")
    return frame, (f"column names without their blanks: {listed}",)


def tidy_name(name: Any) -> Any:
    """Return a name without blanks at its ends, and a list with such names; other values are unchanged."""
    if isinstance(name, list):
        return [tidy_name(item) for item in name]
    return name.strip() if isinstance(name, str) else name


def rows_at_end(
    times: pd.DatetimeIndex, count: int, source: str, *, fewer_allowed: bool = False
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return a mask (N,) of the last `count` rows by time, and a note on the others; `times` may be in any order."""
    if count > len(times):
        if fewer_allowed:
            return np.ones(len(times), dtype=bool), ()
        raise InputError(f"{source}: data.last_rows={count}: the table has {len(times):,} rows: lower it, or set null")
    kept = np.zeros(len(times), dtype=bool)
    kept[np.argsort(times.asi8, kind="stable")[-count:]] = True
    left_out = len(times) - count
    rows = "the first row was" if left_out == 1 else f"the first {left_out:,} rows were"
    note = f"{rows} left out: data.last_rows={count} begins at {times[kept].min()}"
    return kept, (note,) if left_out else ()


def without_counters(table: pd.DataFrame, kept: Sequence[str]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Drop unnamed columns that are empty (a comma at each line's end), and columns that count the rows; return notes.

    A named counter stays if it is in `kept` or if nothing else is there to forecast.
    """
    dropped: dict[str, str] = {}
    named = [name for name in table.columns if name not in kept and _counts_rows(table[name])]
    for place, name in enumerate(table.columns):
        if name == f"Unnamed: {place}":
            column = table[name].dropna()
            counts = _is_numeric(column) and column.iloc[:1].isin((0, 1)).all() and (column.diff().iloc[1:] == 1).all()
            if column.empty or counts:
                why = "no data" if column.empty else "only counts the rows"
                dropped[name] = f"column {place} has no name and {why}: left out"
    if {*table.columns} - {*kept, *dropped, *named}:
        lines = {name: f"{name!r} only counts the rows: left out, unless data.targets names it" for name in named}
        dropped = lines | dropped
    return table.drop(columns=[*dropped]), tuple(dropped.values())


def _counts_rows(column: pd.Series) -> bool:
    """Return whether a column of whole numbers rises by 1 from row to row, or falls by 1."""
    if not _is_numeric(column):
        return False
    numbers = column.to_numpy(np.float64, na_value=np.nan)
    numbers = numbers[np.isfinite(numbers)]
    if len(numbers) < LEAST_COUNTED:
        return False
    steps = np.diff(numbers)
    return bool((numbers % 1 == 0).all() and max((steps == 1).mean(), (steps == -1).mean()) >= 1 - MOST_JUMPS)


def _is_numeric(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)


def check_names(names: list[str], source: str) -> None:
    """Raise InputError for a duplicate column name, or one with control characters."""
    if steering := [name for name in names if not is_plain(name)]:
        raise InputError(f"{source}, row 1: the column name {steering[0]!r} has control characters: rename it")
    doubled = [name for name, count in Counter(names).items() if count > 1] if len(set(names)) < len(names) else []
    if doubled:
        raise InputError(f"{source}, row 1: column {doubled[0]!r} appears twice: rename one of the two")


def _parser_complaint(error: Exception) -> str:
    """Return the pandas error in one line with its row; pandas counts lines from 1, like a spreadsheet."""
    text = " ".join(str(error).split())
    ragged = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", text)
    if ragged:
        expected, row, seen = ragged.groups()
        return f"row {row}: {seen} cells where the header has {expected}: use equally long lines"
    unclosed = re.search(r"EOF inside string starting at row (\d+)", text)
    if unclosed:
        return f"row {int(unclosed[1]) + 1}: a quotation mark is never closed: close or remove it"
    return f"not a CSV table ({text[:100]}): save it again as CSV"
