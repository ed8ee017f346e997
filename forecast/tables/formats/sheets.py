"""Sheets of a workbook as text. This module runs in a process of its own, within limits of memory and time.

A sheet becomes text with commas, so that its cells are read as those of a text file: titles above the header, totals
below the last row, decimal commas. Dates are written as ISO text, numbers with all their digits.
"""

import csv
import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

from forecast.common.processes import limit_memory

FEW = 1000
"""Rows at the start of a sheet that show which of its columns hold dates, and whether these have a time of day."""

LEAST_DATES = 0.5
"""Least share of the cells of a column of dates that are dates."""

_ROUNDING = timedelta(milliseconds=2)
"""A workbook stores times as fractions of a day: so far from a whole second, the second is meant."""

_SECOND, _CELL = timedelta(seconds=1), 8
"""A second, and the bytes that a cell takes at least."""

NUMBER_AS_TEXT = "\u00a0"
"""Blank behind a text cell that looks like a number with a mark: 1.234 in it may be a thousand."""

_MARKED = re.compile(r"\s*[+\-\u2212]?\s*\d+[.,'\u2019\s][\d.,'\u2019\s]*")


def write_sheet(path: str, output: str, sheet: str | int | None, memory_bytes: int, most_bytes: int) -> dict[str, Any]:
    """Write a sheet of a workbook as text to `output`; return its name and those of the sheets to choose from.

    `sheet` is its name, or its number from 1. Without it the first sheet with a column of dates is written, or the only
    one that is not empty. The name is None if no sheet is chosen. `large` says that the text is over `most_bytes`.
    """
    limit_memory(memory_bytes)
    import python_calamine

    content = BytesIO(Path(path).read_bytes())  # not by the path, whose ending may be wrong
    with python_calamine.CalamineWorkbook.from_filelike(content) as book:
        kinds, seen = python_calamine.SheetTypeEnum, python_calamine.SheetVisibleEnum
        sheets = [facts for facts in book.sheets_metadata if facts.typ == kinds.WorkSheet]
        names = [facts.name for facts in sheets]
        if sheet is None:
            visible = [facts.name for facts in sheets if facts.visible == seen.Visible] or names
            chosen, names = _dated(book, visible)
        else:
            name = _named(sheet, names)
            chosen = None if name is None else book.get_sheet_by_name(name)
        large = chosen is not None and not _write(chosen, Path(output), most_bytes)
    return {"sheet": None if chosen is None else chosen.name, "sheets": names, "large": large}


def _dated(book: Any, names: list[str]) -> tuple[Any, list[str]]:
    """Return the first sheet with a column of dates, and all names; without one the only sheet with cells, and those.

    A sheet is parsed once, and not at all behind the first with dates.
    """
    filled: list[Any] = []
    for name in names:
        sheet = book.get_sheet_by_name(name)
        if rows := _start(sheet):
            if _has_dates(rows):
                return sheet, names
            filled.append(sheet)
    return filled[0] if len(filled) == 1 else None, [sheet.name for sheet in filled]


def _named(sheet: str | int, names: Sequence[str]) -> str | None:
    """Return the sheet of this name or number; the name counts first, and the case of its letters does not."""
    text = str(sheet).strip().casefold()
    same = [name for name in names if name == sheet] or [name for name in names if name.strip().casefold() == text]
    if same or not (text.isascii() and text.isdecimal()):
        return same[0] if same else None
    return names[int(text) - 1] if 1 <= int(text) <= len(names) else None


def _start(sheet: Any) -> list[list[Any]]:
    """Return the first rows of a sheet that are not empty."""
    rows = (row for row in sheet.iter_rows() if any(cell != "" for cell in row)) if sheet.start is not None else ()
    return list(islice(rows, FEW))


def _has_dates(rows: list[list[Any]]) -> bool:
    """Return whether a column holds dates, as dates or as text."""
    columns = [[cell for cell in column[1:] if cell != ""] for column in zip(*rows, strict=True)]
    return any(_is_dated(cells) for cells in columns if cells)


def _is_dated(cells: list[Any]) -> bool:
    dates = sum(isinstance(cell, date) for cell in cells)
    if dates > LEAST_DATES * len(cells):
        return True
    texts = [cell for cell in cells if isinstance(cell, str)]
    if len(texts) <= LEAST_DATES * len(cells):
        return False
    import pandas as pd  # imported here: most workbooks have one sheet, or cells that are dates

    from forecast.tables.times.forms import holds_times

    return holds_times(pd.Series(texts, dtype=object))


def _write(sheet: Any, output: Path, most_bytes: int) -> bool:
    """Write the cells of a sheet as text with commas; return whether it is within the limit."""
    rows = iter(sheet.iter_rows()) if sheet.start is not None else iter(())
    first = list(islice(rows, FEW))
    timed = {place for row in first for place, cell in enumerate(row) if isinstance(cell, datetime)}
    width = _width(first)
    cells = 0
    with output.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        chunk = first
        while chunk:
            lines.writerows(
                [_text(cell, place in timed) for place, cell in enumerate(row[: max(width, _length(row))])]
                for row in chunk
            )
            cells += sum(map(len, chunk))
            if max(file.tell(), _CELL * cells) > most_bytes:
                return False
            chunk = list(islice(rows, FEW))
    return True


def _width(rows: list[list[Any]]) -> int:
    """Return the width of the table in a sheet, which may be less than that of a title above it.

    The row above the first cell that is no text, and all rows below it, count; without such a cell, the lower half.
    """
    typed = (place for place, row in enumerate(rows) if any(not isinstance(cell, str) for cell in row))
    start = next(typed, len(rows) // 2 + 1) - 1
    return max((_length(row) for row in rows[max(start, 0) :]), default=0)


def _length(row: list[Any]) -> int:
    """Return the number of cells up to the last that is not empty."""
    return next((place for place in range(len(row), 0, -1) if row[place - 1] != ""), 0)


def _text(cell: Any, timed: bool) -> str:
    """Return a cell as text of one line; `timed` says that the dates of its column have a time of day."""
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else repr(cell)
    if isinstance(cell, str):
        text = " ".join(cell.splitlines()) if "\n" in cell or "\r" in cell else cell
        return text + NUMBER_AS_TEXT if _MARKED.fullmatch(text) else text
    if isinstance(cell, datetime):
        return _whole_second(cell).isoformat(" ")
    if isinstance(cell, date):
        return f"{cell.isoformat()} 00:00:00" if timed else cell.isoformat()
    if isinstance(cell, time):
        return _whole_second(datetime.combine(date(2000, 1, 1), cell)).time().isoformat()
    if isinstance(cell, timedelta):
        minutes, seconds = divmod(round(cell.total_seconds()), 60)
        return f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}"
    return str(cell)


def _whole_second(moment: datetime) -> datetime:
    """Return the nearest whole second of a moment within the rounding of a workbook, else the moment."""
    if not moment.microsecond:
        return moment
    below = moment.replace(microsecond=0)
    near = below if moment - below < _SECOND / 2 else below + _SECOND
    return near if abs(moment - near) <= _ROUNDING else moment
