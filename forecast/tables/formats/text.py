"""Text files as tables: delimiter, header, numbers and lines that are no data are found, and told in notes."""

import csv
import io
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.common.files import PACKED
from forecast.common.spreadsheet import unguard
from forecast.common.text import is_plain
from forecast.tables.formats.cells import Evidence, evidence_of, more_evidence, settle, text_places, with_numbers
from forecast.tables.formats.encoding import as_utf8
from forecast.tables.formats.layout import (
    DELIMITERS,
    Body,
    Layout,
    Records,
    find_body,
    find_delimiter,
    is_time_word,
    sample_of,
    tail_records,
    without_footers,
)
from forecast.tables.formats.unpacking import check_columns, read_file, read_gzip
from forecast.tables.transposed import is_header_of_dates

# the same numbers as from Parquet, to the last digit; the only mode of pandas from 3.1 on
_EXACT: Any = {} if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}
_DATE_LIKE = re.compile(r"\s*(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})([^\d.].*)?$")
_MONTH_NAMED = re.compile(r"\s*(\d{1,2}([- ])[A-Za-z]{3}\2\d{4}|(19|20)\d{2}-(0[1-9]|1[0-2]))( .*)?$")
"""Dates such as 01-Jul-2016, and months such as 2016-07."""
_NONE, _NOT_A_NUMBER = "None", ("NAN", "Nan", "NONE")
"""Words that are an empty cell among numbers, and a label among words; the first among dates too."""
_EMPTY_WORDS = [
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>"),
    *("N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"),
]
"""The words that pandas reads as an empty cell, without None."""

_TITLES = 10
"""Most lines above a header of dates."""

ORIGIN = "origin"
"""Entry of `DataFrame.attrs` of a table from a file: the spreadsheet row of its first row, and notes on the file."""


def read_text(path: Path, layout: Layout) -> pd.DataFrame:
    """Return the raw table of a text file; `ORIGIN` in its `attrs` says what was found in the file."""
    content = read_gzip(path) if path.name.lower().endswith(PACKED) else read_file(path)
    return table_of_content(content, layout, path)


def table_of_content(content: bytes, layout: Layout, path: Path) -> pd.DataFrame:
    """Return the raw table of the content of a text file, as `read_text` does; `path` names it in messages."""
    content, notes = as_utf8(content, layout.encoding, path)
    if b"\n" not in content:
        content = content.replace(b"\r", b"\n")
    return table_of_text(content, layout, path, notes)


def table_of_text(
    content: bytes, layout: Layout, path: Path, notes: tuple[str, ...] = (), *, is_plain: bool = False
) -> pd.DataFrame:
    """Return the raw table of UTF-8 text, as `read_text` does; `notes` are those on the file so far.

    `is_plain` says that numbers have a decimal point, whatever the layout says: other ones stay text.
    """
    delimiter, records, body = _found(content, layout, path)
    header = _checked_header(body, records, path)
    place = min(body.first, len(records.lines) - 1)
    row = records.lines[place] + 1
    decimal = "." if is_plain else layout.decimal
    decimal = decimal or _usual_decimal(content, delimiter, records.cells[body.first :], header, layout, path)
    table = _parsed(_file_of(content, row - 1, body.footers), header, delimiter, decimal, row, path)
    table, marks = _without_none(table), tuple[str, ...]()
    if not is_plain:
        table, marks = _with_marks(table, layout, decimal, delimiter, str(path))
    if delimiter != ",":
        notes = (*notes, f"cells are separated by {DELIMITERS.get(delimiter, repr(delimiter))}")
    table.attrs[ORIGIN] = (row, (*notes, *marks, *body.notes))
    return table


def _found(content: bytes, layout: Layout, path: Path) -> tuple[str, Records, Body]:
    """Return the delimiter, the records at the start and where the table is."""
    text, whole = sample_of(content)
    if layout.delimiter is None:
        delimiter, records = find_delimiter(text, whole)
    else:
        delimiter, records = layout.delimiter, Records.at_start(text, layout.delimiter, whole)
    if not records.cells:
        raise InputError(
            f"{path}, row 1: a quotation mark is never closed, or a cell exceeds 131,072 characters: correct it"
        )
    check_columns(max(map(len, records.cells[:2])), path)
    body, rows = find_body(records.cells, records.width, layout)
    if (place := _header_of_dates(records.cells)) is not None:
        return delimiter, records, replace(body, header=place, first=place + 1, names=tuple(records.cells[place]))
    if layout.skip_footer is not None:
        return delimiter, records, replace(body, footers=layout.skip_footer)
    last = records.cells if records.whole else tail_records(content, delimiter)
    return delimiter, records, without_footers(body, last[body.first :] if records.whole else last, rows)


def _header_of_dates(records: list[list[str]]) -> int | None:
    """Return the place of a header of dates, of a table with one series a row; None: it has none."""
    pairs = enumerate(pairwise(records[: _TITLES + 1]))
    return next((place for place, (cells, first) in pairs if is_header_of_dates(cells, first)), None)


def _checked_header(body: Body, records: Records, path: Path) -> list[str]:
    """Return the checked column names, with the blanks at their ends; an empty name becomes `Unnamed: 0`."""
    header = [cell.replace(cell.strip(), unguard(cell.strip()), 1) for cell in body.names]
    row = 1 if body.header is None else records.lines[body.header] + 1
    first = records.cells[body.first] if body.first < len(records.cells) else []
    if body.header is None and not header:
        values = [f"value_{place}" for place in range(1, len(first))] if len(first) < 9 else ["…"]
        names = ",".join(["time", *values])
        raise InputError(
            f"{path}, row 1: {first[0][:40]!r} is data, not a column name: add a header row, or name its {len(first)} "
            f"columns, such as data.columns=[{names}]"
        )
    if len(header) < 2:
        raise InputError(f"{path}, row {row}: one column only: a date column and a value column are needed")
    if len(first) == len(header) + 1 and not any(
        len(cells) > len(header) and cells[-1].strip() for cells in records.cells[body.first :]
    ):
        header = [*header, ""]  # each line ends in a delimiter
    if len(first) > len(header):
        raise InputError(
            f"{path}, row {row + 1}: {len(first)} cells under {len(header)} column names: "
            "use equally long lines, and points as decimal marks"
        )
    if 0 < len(first) < len(header) and not all(cell.strip() for cell in header[:-1]):  # values would move
        raise InputError(
            f"{path}, row {row + 1}: {len(first)} cells under {len(header)} column names, of which one is empty: "
            "remove its comma, or use equally long lines"
        )
    dates = [cell for cell in header if is_date_like(cell)]
    if dates and not is_header_of_dates(header, first):
        raise InputError(f"{path}, row {row}: {dates[0]!r} is data, not a column name: add a header row")
    header = [cell if cell.strip() else f"Unnamed: {position}" for position, cell in enumerate(header)]
    check_names([cell.strip() for cell in header], str(path), row)
    return header


def _parsed(file: io.BytesIO, header: list[str], delimiter: str, decimal: str, row: int, path: Path) -> pd.DataFrame:
    """Return the table of the lines of a file; `row` is the spreadsheet row of its first line."""
    try:
        table: pd.DataFrame = pd.read_csv(
            file,
            sep=delimiter,
            decimal=decimal,
            names=header,
            header=None,
            index_col=False,
            encoding="utf-8",
            skip_blank_lines=False,  # a blank line counts as a row, to keep the row numbers
            low_memory=False,  # one type per column
            keep_default_na=False,
            na_values=_EMPTY_WORDS,
            **_EXACT,
        )
        return table
    except pd.errors.EmptyDataError as error:
        raise InputError(f"{path} has no rows below its header: add data") from error
    except (pd.errors.ParserError, csv.Error) as error:
        raise InputError(f"{path}: {_parser_complaint(error, row)}") from error


def _file_of(content: bytes, lines: int, footers: int) -> io.BytesIO:
    """Return a text as a file, without lines at its end, whose next line is the one after `lines` lines."""
    start = 0
    for _ in range(lines):
        start = content.find(b"\n", start) + 1 or len(content)
    end = len(content.rstrip(b"\r\n")) if footers else len(content)
    for _ in range(footers):
        end = max(content.rfind(b"\n", start, end), start)
    file = io.BytesIO(content if end == len(content) else content[:end])
    file.seek(start)  # a slice would be another copy of the file
    return file


def _usual_decimal(
    content: bytes, delimiter: str, records: list[list[str]], header: list[str], layout: Layout, path: Path
) -> str:
    """Return the decimal mark that the first cells show, the point where none has one."""
    if layout.thousands in (".", ","):
        return "," if layout.thousands == "." else "."
    if delimiter == ",":
        return "."
    places = [place for place, name in enumerate(header) if not is_time_word(name)]
    found = Evidence.of(record[place] for record in records for place in places if place < len(record))
    if found.either and not found.decimal and not found.thousands:
        found = more_evidence(content, delimiter, found)
    return settle(found, layout, None, str(path)).decimal or "."


def _with_marks(
    table: pd.DataFrame, layout: Layout, decimal: str, delimiter: str, where: str
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the table with the numbers among its texts, and a note on their marks.

    Where the marks of a file with commas are unclear, its cells stay text, which is refused where numbers are needed.
    """
    places = text_places(table)
    found = evidence_of(table, places)
    usual = decimal if delimiter != "," or layout.decimal or _has_fraction(table) else None
    try:
        marks = settle(found, layout, usual, where)
    except InputError:
        if delimiter != "," or layout.decimal or layout.thousands:
            raise
        return table, ()
    if marks.thousands is None and marks.decimal != ",":
        return table, ()
    for place in places:
        table.isetitem(place, with_numbers(table.iloc[:, place], marks).array)
    return table, (f"numbers {marks}",)


def _has_fraction(table: pd.DataFrame) -> bool:
    columns = (table.iloc[:, place] for place, kind in enumerate(table.dtypes) if pd.api.types.is_float_dtype(kind))
    return any(bool((column.dropna() % 1 != 0).any()) for column in columns)


def is_date_like(cell: str) -> bool:
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
    """Return the table with the word None, or NAN, as an empty cell, except among words, where it is a label."""
    for place in range(table.shape[1]):
        column = table.iloc[:, place]
        if pd.api.types.is_numeric_dtype(column.dtype) or not (none := column.isin([_NONE, *_NOT_A_NUMBER])).any():
            continue
        others = column.mask(none)
        words = others.dropna().astype(str)
        numbers = pd.to_numeric(words, errors="coerce").notna()
        if len(words) and numbers.all():
            table.isetitem(place, others.to_numpy(np.float64))
        elif not (none := column == _NONE).any():
            continue
        elif numbers.any() or words.map(is_date_like).any():
            table.isetitem(place, column.mask(none).array)
    return table


def check_names(names: list[str], source: str, row: int = 1) -> None:
    """Raise InputError for a duplicate column name, or one with control characters."""
    if steering := [name for name in names if not is_plain(name)]:
        raise InputError(f"{source}, row {row}: the column name {steering[0]!r} has control characters: rename it")
    doubled = [name for name, count in Counter(names).items() if count > 1] if len(set(names)) < len(names) else []
    if doubled:
        raise InputError(f"{source}, row {row}: column {doubled[0]!r} appears twice: rename one of the two")


def _parser_complaint(error: Exception, first: int) -> str:
    """Return the pandas error in one line with its row; `first` is the row of the first line that pandas got."""
    text = " ".join(str(error).split())
    ragged = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", text)
    if ragged:
        expected, row, seen = ragged.groups()
        return f"row {int(row) + first - 1}: {seen} cells where the header has {expected}: use equally long lines"
    unclosed = re.search(r"EOF inside string starting at row (\d+)", text)
    if unclosed:
        return f"row {int(unclosed[1]) + first}: a quotation mark is never closed: close or remove it"
    return f"not a CSV table ({text[:100]}): save it again as CSV"
