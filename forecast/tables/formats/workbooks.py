"""Reading of tables by libraries in other languages: workbooks, Feather and Arrow, in a process of its own.

A damaged file can make such a library end its process, or take all memory. The process has limits of memory and time.
It writes what it read as plain text or as Arrow to a temporary folder.
"""

import importlib.util
import shlex
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow

from forecast.common.errors import InputError
from forecast.common.files import temporary_folder
from forecast.common.processes import Ended, run_python
from forecast.tables.flaws import value_word
from forecast.tables.formats.cells import Evidence, settle, with_numbers
from forecast.tables.formats.layout import Layout, is_time_word
from forecast.tables.formats.sheets import NUMBER_AS_TEXT
from forecast.tables.formats.unpacking import check_size, limit_bytes, refuse_large

SECONDS = 120.0
"""Most seconds for a file."""

PACKING = 8
"""Unpacked bytes of a workbook for each byte of its text, at most: a cell has its tags and its style."""

_BASE, _FACTOR = 2**29, 4
"""Memory of the process: bytes for libraries, and for each byte of the table."""

EXTRA = 'pip install -e ".[excel]"'
_SHOWN = 12
"""Largest number of sheets in a message."""


def check_extra(name: str, path: Path) -> None:
    """Raise InputError if a package of the extra for workbooks is not installed."""
    if importlib.util.find_spec(name) is None:
        raise InputError(f"{path}: workbooks need a package that is not installed: {EXTRA}, or use CSV")


def read_workbook(path: Path, sheet: str | int | None = None) -> tuple[bytes, tuple[str, ...]]:
    """Return a sheet of a workbook as UTF-8 text with commas, and a note if other sheets have cells too.

    `sheet` is its name, or its number from 1; None: the first sheet with a column of dates.
    """
    check_extra("python_calamine", path)
    _check_size(path)
    with temporary_folder() as folder:
        output = Path(folder) / "sheet.csv"
        request = {"sheet": sheet, "most_bytes": limit_bytes()}
        reply = _reply("forecast.tables.formats.sheets:write_sheet", path, output, request, "a workbook")
        content = output.read_bytes() if output.exists() else b""
    names = [str(name) for name in reply["sheets"]]
    listed = ", ".join(map(repr, names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")
    example = shlex.quote(value_word("data.sheet", names[0])) if names else ""
    if reply["large"]:
        raise refuse_large(path)
    if not names:
        raise InputError(f"{path}: all its sheets are empty: choose another file")
    if reply["sheet"] is None and sheet is not None:
        raise InputError(f"{path}: data.sheet={sheet}: it has the sheets {listed}: name one, such as {example}")
    if reply["sheet"] is None:
        raise InputError(f"{path}: none of its sheets {listed} has a column of dates: name one, such as {example}")
    if sheet is not None or len(names) == 1:
        return content, ()
    return content, (f"read from the sheet {reply['sheet']!r} of {listed} (data.sheet)",)


def with_text_numbers(table: pd.DataFrame, layout: Layout, where: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the table of a sheet with the numbers in its text cells, and a note on their marks.

    The other numbers of the sheet say nothing about these marks.
    """
    texts: dict[int, tuple[pd.Series, pd.Series]] = {}
    for place, name in enumerate(map(str, table.columns)):
        column = table.iloc[:, place]
        if pd.api.types.is_numeric_dtype(column.dtype):
            continue
        marked = column.astype("str").str.endswith(NUMBER_AS_TEXT).fillna(False).astype(bool)
        if marked.any():
            column = column.where(~marked, column.astype("str").str.removesuffix(NUMBER_AS_TEXT))
            table.isetitem(place, column.array)
            if not is_time_word(name):
                texts[place] = (column, marked)
    if not texts:
        return table, ()
    marks = settle(
        Evidence.of(cell for column, marked in texts.values() for cell in column[marked]), layout, None, where
    )
    for place, (column, marked) in texts.items():
        numbers = with_numbers(column[marked].astype("str"), marks)
        column = column.astype(object)
        column[marked] = [repr(cell) if isinstance(cell, float) else cell for cell in numbers]
        parsed = pd.to_numeric(column, errors="coerce")
        table.isetitem(place, (column if (parsed.isna() & column.notna()).any() else parsed).array)
    return table, (f"numbers in text cells {marks}",)


def _check_size(path: Path) -> None:
    """Raise InputError for a workbook whose parts say that they are too large, or that has a zip file's damage."""
    check_size(path.stat().st_size, path)
    if not path.stat().st_size:
        raise InputError(f"{path} is empty: choose another file")
    if not zipfile.is_zipfile(path):  # .xls is none
        return
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, LookupError, NotImplementedError) as error:
        raise _damaged(path, "a workbook", str(error)) from None
    if size > PACKING * limit_bytes():
        raise refuse_large(path)


def read_arrow(path: Path) -> pd.DataFrame:
    """Return the table of a Feather or Arrow file, with the index that pandas stored in it."""
    check_size(path.stat().st_size, path)
    with temporary_folder() as folder:
        output = Path(folder) / "table.arrow"
        request = {"most_bytes": limit_bytes()}
        reply = _reply("forecast.tables.formats.arrow:write_table", path, output, request, "Arrow")
        if reply["large"]:
            raise refuse_large(path)
        if reply["problem"]:
            raise InputError(reply["problem"])
        with pyarrow.OSFile(str(output)) as file, pyarrow.ipc.open_stream(file) as stream:
            table = stream.read_all()
    frame: pd.DataFrame = table.to_pandas(use_threads=False)
    return frame


def _reply(function: str, path: Path, output: Path, request: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the reply of a function in a process with limits; raise InputError if it has none."""
    limits = {"memory_bytes": _BASE + _FACTOR * limit_bytes()}
    with path.open("rb"):  # a file that cannot be read is an error of its own
        pass
    try:
        ended = run_python(
            function, {"path": str(path), "output": str(output), **request, **limits}, threads=1, seconds=SECONDS
        )
    except TimeoutError:
        raise InputError(f"{path}: reading it takes more than {SECONDS:g} s: save the table as CSV") from None
    if isinstance(ended.reply, dict):
        return ended.reply
    if ended.out_of_memory:
        raise refuse_large(path)
    raise _damaged(path, kind, _reason(ended))


def _reason(ended: Ended) -> str:
    """Return the last line that the process printed, without the name of its exception."""
    lines = [line.strip() for line in ended.printed.splitlines() if line.strip()]
    last = lines[-1] if lines else f"its reader ended with exit code {ended.code}"
    return last.partition(": ")[2] or last


def _damaged(path: Path, kind: str, reason: str) -> InputError:
    if "password" in reason.lower():
        return InputError(f"{path} has a password: save it without one")
    return InputError(f"{path} cannot be read as {kind} ({reason[:100]}): write the file again")
