"""Tables as files, by the ending of the name: CSV, Parquet, Feather, Arrow, a workbook with scores and picture."""

import math
from collections.abc import Sequence
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.common.files import ARROW, PARQUET, TEXT, WORKBOOK, replacing
from forecast.common.spreadsheet import write_frame
from forecast.common.tables import Table
from forecast.tables.formats.workbooks import check_extra

OUTPUTS = (TEXT, PARQUET[0], *ARROW, WORKBOOK[0])
"""Endings of the tables that are written."""

_MOST_ROWS, _MOST_COLUMNS = 2**20 - 1, 2**14
"""Rows below a header, and columns, that a sheet has."""

_FIRST_YEAR = 1900
"""First year of the dates of a workbook."""

_NARROW, _WIDE = 12, 40
"""Least and most characters of the width of a column."""


def check_output(path: Path) -> None:
    """Raise InputError for the name of a table whose ending is not written, or for which a package is missing."""
    if path.suffix.lower() not in OUTPUTS:
        endings = f"{', '.join(OUTPUTS[:-1])} or {OUTPUTS[-1]}"
        raise InputError(f"{path}: a table of --output or --write must end in {endings}")
    if is_workbook(path):
        check_extra("xlsxwriter", path)


def is_workbook(path: Path) -> bool:
    """Return whether a table of this name is written as a workbook."""
    return path.suffix.lower() in WORKBOOK


def write_table(
    path: Path, frame: pd.DataFrame, *, index: bool = True, scores: Sequence[Table] = (), picture: Path | None = None
) -> None:
    """Write a table; a workbook also gets a sheet of scores and one of the picture, if there are some."""
    with replacing(path) as file:
        write_into(file, path, frame, index=index, scores=scores, picture=picture)


def write_into(
    file: IO[bytes],
    path: Path,
    frame: pd.DataFrame,
    *,
    index: bool = True,
    scores: Sequence[Table] = (),
    picture: Path | None = None,
) -> None:
    """Write into an open file what `write_table` writes to `path`."""
    kind = path.suffix.lower()
    plain = frame.reset_index() if index else frame
    if kind == TEXT:
        write_frame(file, frame, index=index)
    elif kind in ARROW:
        plain.to_feather(file)
    elif is_workbook(path):
        file.write(_workbook(path, plain, scores, picture))
    else:
        frame.to_parquet(file, index=None if index else False)


def _workbook(path: Path, frame: pd.DataFrame, scores: Sequence[Table], picture: Path | None) -> bytes:
    """Return a workbook with the sheets forecast, scores and picture; no cell of it is a formula or a link."""
    import xlsxwriter  # imported here: the package is an extra

    if len(frame) > _MOST_ROWS or frame.shape[1] > _MOST_COLUMNS:
        size = f"{len(frame):,} rows and {frame.shape[1]:,} columns"
        raise InputError(
            f"{path}: {size} do not fit a sheet of {_MOST_ROWS:,} and {_MOST_COLUMNS:,}: choose an --output in .csv"
        )
    content = BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with xlsxwriter.Workbook(content, options) as book:
        book.set_properties({"created": datetime(2000, 1, 1)})  # the same table gives the same bytes
        _fill(book, book.add_worksheet("forecast"), frame)
        if scores:
            _fill_scores(book, book.add_worksheet("scores"), scores)
        if picture is not None:
            sheet = book.add_worksheet("picture")
            sheet.insert_image(0, 0, "forecast.png", {"image_data": BytesIO(picture.read_bytes())})
    return content.getvalue()


def _fill(book: Any, sheet: Any, frame: pd.DataFrame) -> None:
    """Write a table: dates as dates where a workbook has them, else as in a CSV file."""
    bold = book.add_format({"bold": True})
    sheet.freeze_panes(1, 0)
    for place, name in enumerate(map(str, frame.columns)):
        column = frame.iloc[:, place]
        sheet.write_string(0, place, name, bold)
        dates = _dates(column)
        if dates is not None:
            whole = bool((column.dt.normalize() == column).all())
            form = book.add_format({"num_format": "yyyy-mm-dd" if whole else "yyyy-mm-dd hh:mm:ss"})
            for row, moment in enumerate(dates, 1):
                sheet.write_datetime(row, place, moment, form)
        elif pd.api.types.is_numeric_dtype(column.dtype):
            numbers = column.to_numpy(np.float64, na_value=np.nan)
            shown = book.add_format({"num_format": _shown_digits(numbers)})
            for row, value in enumerate(numbers.tolist(), 1):
                if math.isfinite(value):
                    sheet.write_number(row, place, value, shown)
        else:
            for row, cell in enumerate(column.astype(str).where(column.notna(), ""), 1):
                sheet.write_string(row, place, cell)
        sheet.set_column(place, place, min(max(len(name) + 2, _NARROW if dates is None else 20), _WIDE))


def _shown_digits(numbers: np.ndarray) -> str:
    """Return the format of a column (N,): five digits of its largest number; the cells hold all digits."""
    numbers = numbers[np.isfinite(numbers)]
    largest = float(np.abs(numbers).max(initial=0.0))
    if (numbers % 1 == 0).all():
        return "0" if largest < 1e11 else "General"
    decimals = 4 - math.floor(math.log10(largest))
    return ("0." + "0" * decimals if decimals > 0 else "0") if decimals < 10 else "General"


def _dates(column: pd.Series) -> list[datetime] | None:
    """Return the dates of a column, None if a workbook cannot hold them: with a zone, too early, below a second."""
    if not pd.api.types.is_datetime64_any_dtype(column.dtype) or column.dt.tz is not None or column.isna().any():
        return None
    if (column.dt.year < _FIRST_YEAR).any() or (column != column.dt.floor("s")).any():
        return None
    return list(column.dt.to_pydatetime())


def _fill_scores(book: Any, sheet: Any, scores: Sequence[Table]) -> None:
    """Write tables of scores below one another, with their titles and notes; numbers keep their decimals."""
    bold, row = book.add_format({"bold": True}), 0
    sheet.set_column(0, 0, _WIDE)
    sheet.set_column(1, 20, _NARROW)
    for table in scores:
        sheet.write_string(row, 0, table.title, bold)
        for place, heading in enumerate(table.headings):
            sheet.write_string(row + 1, place, heading, bold)
        for below, cells in enumerate(table.cells, row + 2):
            for place, cell in enumerate(cells):
                _write_score(book, sheet, (below, place), cell)
        row += 2 + len(table.cells)
        for note in table.notes:
            sheet.write_string(row, 0, note)
            row += 1
        row += 1


def _write_score(book: Any, sheet: Any, at: tuple[int, int], cell: str) -> None:
    """Write a score as a number with its decimals or as a percentage, and other cells as text."""
    share = cell.endswith("%")
    try:
        value = float(cell.removesuffix("%"))
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        sheet.write_string(*at, cell)
        return
    _, _, decimals = cell.removesuffix("%").partition(".")
    form = "0" + (f".{'0' * len(decimals)}" if decimals.isdigit() else "") + "%" * share
    form = "0.0000E+00" if "e" in cell else form
    sheet.write_number(*at, value / 100 if share else value, book.add_format({"num_format": form}))
