"""The raw table of a file, by its type: text, packed text, a workbook, Parquet, Feather or Arrow."""

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow

from forecast.common.errors import InputError
from forecast.common.files import ARROW, PACKED, PARQUET, TEXT, TEXTS, WORKBOOK, temporary_folder
from forecast.tables.formats.folders import Folder
from forecast.tables.formats.layout import RECOGNIZED, Layout
from forecast.tables.formats.text import ORIGIN, check_names, read_text, table_of_content, table_of_text
from forecast.tables.formats.unpacking import check_size, read_parquet_bytes
from forecast.tables.formats.workbooks import read_arrow, read_workbook, with_text_numbers

READ = (TEXT, TEXT + PACKED, *TEXTS[1:], *WORKBOOK, PARQUET[0], *ARROW)
"""Endings of the files that are read, for messages."""
_DAMAGED = (ValueError, OSError, LookupError, TypeError, AttributeError, OverflowError, pyarrow.ArrowException)
_SHOWN = 12
"""Largest number of names in a note."""
MOST_JUMPS = 0.01
"""Largest share of rows at which a counter may jump: a logger starts again, or loses rows."""
LEAST_COUNTED = 30
"""Least number of rows of a named counter: a few small numbers may rise by chance."""


@dataclass(frozen=True)
class Upload(os.PathLike[str]):
    """A table that was sent, which is read as a file at a path is: a DataFrame, or the bytes of a file.

    `name` stands for the path in messages, and `ending` says what the bytes are. Text is read in memory. Another file
    is in a temporary folder while its process reads it.
    """

    name: str
    content: pd.DataFrame | bytes
    ending: str = TEXT

    def __fspath__(self) -> str:
        return self.name

    __str__ = __fspath__

    def read(self, layout: Layout) -> pd.DataFrame:
        """Return the raw table."""
        if isinstance(self.content, pd.DataFrame):
            return self.content
        if self.ending == TEXT:
            return table_of_content(self.content, layout, Path(self.name))
        with temporary_folder() as folder:
            path = Path(folder) / f"table{self.ending}"
            path.write_bytes(self.content)
            try:
                return read_table(path, layout)
            except InputError as error:
                error.args = (str(error).replace(str(path), self.name),)
                raise


def read_table(path: str | os.PathLike[str], layout: Layout = RECOGNIZED) -> pd.DataFrame:
    """Return the raw table of a file, one row per record; raise InputError if the file is not a table."""
    if isinstance(path, Upload):
        return path.read(layout)
    path = Path(path)
    try:
        if path.is_dir():
            check_acts(layout, (), path)
            folder = Folder(path)
            check_size(folder.bytes, path)
            return folder.frame()
        if path.exists() and not path.is_file():  # reading a pipe could block forever
            raise InputError(f"{path} is a pipe or a device: save the table as a file")
        name = path.name.lower()
        if not path.exists():
            raise InputError(f"{path}: no such file: check the path")
        if name.endswith((*PARQUET, *ARROW)):
            check_acts(layout, (), path)
            return _read_columns(path, "Parquet" if name.endswith(PARQUET) else "Arrow")
        if name.endswith(WORKBOOK):
            check_acts(layout, _OF_WORKBOOKS, path)
            return _read_workbook(path, layout)
        if name.removesuffix(PACKED).endswith(TEXTS):
            check_acts(layout, _OF_TEXT, path)
            return read_text(path, layout)
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        raise InputError(f"{path}: {reason}: check the path") from error
    raise InputError(f"{path}: only {', '.join(READ)} are read: save the table as one of these")


_OF_TEXT = ("delimiter", "decimal", "thousands", "encoding", "header_row", "skip_footer", "columns")
_OF_WORKBOOKS = ("decimal", "thousands", "header_row", "skip_footer", "columns", "sheet")
"""Parts of a layout that act on text files, and on workbooks."""


def check_acts(layout: Layout, acting: Sequence[str], path: Path) -> None:
    """Raise InputError if a part of the layout is given that such a file does not have."""
    if idle := [key for key in layout.facts() if key not in acting]:
        raise InputError(f"{path}: data.{idle[0]}: does not apply to a {path.suffix} file: leave it out")


def _read_workbook(path: Path, layout: Layout) -> pd.DataFrame:
    """Return the table of a sheet; its cells that are text are read as those of a text file."""
    content, notes = read_workbook(path, layout.sheet)
    table = table_of_text(content, replace(layout, delimiter=","), path, notes, is_plain=True)
    row, notes = table.attrs[ORIGIN]
    table, more = with_text_numbers(table, layout, str(path))
    table.attrs[ORIGIN] = (row, (*notes, *more))
    return table


def _read_columns(path: Path, kind: str) -> pd.DataFrame:
    try:
        if kind == "Arrow":
            return read_arrow(path)
        content = io.BytesIO(read_parquet_bytes(path))
        # one thread is as fast at this size, and holds the memory of one column at a time
        return pd.read_parquet(content, engine="pyarrow", use_threads=False, pre_buffer=False)
    except (InputError, FileNotFoundError, PermissionError):
        raise
    except _DAMAGED as error:
        reason = str(error).splitlines()[0][:100] if str(error) else "unknown reason"
        raise InputError(f"{path} cannot be read as {kind} ({reason}): write the file again") from error
    finally:
        pyarrow.default_memory_pool().release_unused()  # a gigabyte after a large table


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


def without_counters(table: pd.DataFrame, kept: Sequence[str]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Drop unnamed columns that are empty (a comma at each line's end), and columns without information; return notes.

    A named column that only counts the rows, or that holds one text, stays if it is in `kept` or if nothing else is
    there to forecast.
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
    same = {name: text for name in table.columns if name not in kept and (text := _only_text(table[name]))}
    if {*table.columns} - {*kept, *dropped, *named, *same}:
        lines = {name: f"{name!r} only counts the rows: left out, unless data.targets names it" for name in named}
        lines |= {name: f"{name!r} holds {text!r} in every row: left out" for name, text in same.items()}
        dropped = lines | dropped
    return table.drop(columns=[*dropped]), tuple(dropped.values())


def _only_text(column: pd.Series) -> str | None:
    """Return the text that every cell of a column holds; None for other columns, and for a text that has a digit."""
    first = column.iloc[0] if len(column) > 1 else None
    is_word = isinstance(first, str) and first.strip()[:1].isalpha() and not any(map(str.isdigit, first))
    if not is_word or not (column == first).all():
        return None
    return str(first)[:40]


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
