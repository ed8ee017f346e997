"""CSV files without cells that a spreadsheet runs as formulas.

A spreadsheet runs a cell that begins with =, +, - or @, also after a tab or a line end. Such a text, with or without
leading apostrophes, gets one more apostrophe in front; removing it restores the text. Numbers are unchanged.
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd


_SIGN = r"[=+\-@\uff1d\uff0b\uff0d\uff20]"
_RUN = rf"(?:[\t\r\n]|\s*{_SIGN})"
_FORMULA, _GUARDED = re.compile(rf"'*{_RUN}"), re.compile(rf"'+{_RUN}")
_INNER = re.compile(rf"[;\t]'*(?:[\t\r\n]|[^\S\t]*{_SIGN})")  # blanks from the last tab on: linear in their number
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)? ?%?")


def guard(text: str) -> str:
    """Return the text as a cell that no spreadsheet runs; a plain number or percentage is unchanged."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unguard(cell: str) -> str:
    """Undo `guard`."""
    return cell[1:] if _GUARDED.match(cell) else cell


def write_frame(file: IO[bytes], frame: "pd.DataFrame", *, index: bool = True, float_format: str | None = None) -> None:
    """Write a frame as CSV with guarded names and text cells."""
    import pandas as pd  # imported here: most writers of tables do not need pandas

    guarded = frame.rename(columns=_guarded_cell)
    texts = [str(name) for name in (*frame.columns, frame.index.name)]
    for place, kind in enumerate(guarded.dtypes):
        if not (pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_datetime64_any_dtype(kind)):
            cells = [_guarded_cell(cell) for cell in guarded.iloc[:, place]]
            texts += [cell for cell in cells if isinstance(cell, str)]
            guarded.isetitem(place, pd.Series(cells, guarded.index, dtype=object).to_numpy())
    if index and not isinstance(guarded.index, pd.DatetimeIndex):
        guarded.index = guarded.index.map(_guarded_cell)
        texts += [cell for cell in guarded.index if isinstance(cell, str)]
    guarded.to_csv(
        file,
        index=index,
        index_label=None if frame.index.name is None else guard(str(frame.index.name)),
        float_format=float_format,
        lineterminator="\n",
        quoting=_quoting(texts),
    )


def csv_bytes(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    """Return rows as a CSV file with a header and guarded texts; None is an empty cell."""
    lines = [[guard(name) for name in columns], *([_guarded_cell(row.get(name)) for name in columns] for row in rows)]
    text = io.StringIO(newline="")
    quoting = _quoting(cell for line in lines for cell in line if isinstance(cell, str))
    csv.writer(text, lineterminator="\n", quoting=quoting).writerows(lines)
    return text.getvalue().encode()


def _quoting(texts: Iterable[str]) -> Literal[0, 2]:
    """Return the quoting rule: quote all texts if one needs quotation marks that csv would leave out.

    These are texts with a carriage return, and with a formula after a semicolon or tab, where a spreadsheet may take
    them for the end of a cell.
    """
    needed = any("\r" in text or _INNER.search(text) for text in texts)
    return csv.QUOTE_NONNUMERIC if needed else csv.QUOTE_MINIMAL


def read_rows(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the header of a CSV file that this program wrote, and each row with the number of its last line."""
    reader = csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline=""))
    names = [unguard(cell) for cell in next(reader, [])]
    return names, [(reader.line_num, [unguard(cell) for cell in cells]) for cells in reader if cells]


def _guarded_cell(cell: Any) -> Any:
    return guard(cell) if isinstance(cell, str) else cell
