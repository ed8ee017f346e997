"""Marks for a missing value: numbers such as -9999, and text such as "." among numbers."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.common.text import is_plain
from forecast.tables.flaws import quoted

Mark = float | str
"""A number or a text that counts as an empty cell."""

LONGEST = 40
"""Largest number of characters of a mark."""

MOST = 5
"""Largest number of different texts that are suggested as marks of a column."""


def check_marks(marks: Sequence[Any]) -> None:
    """Raise InputError for a mark that is neither a finite number nor a short text."""
    for mark in marks:
        is_number = isinstance(mark, int | float) and not isinstance(mark, bool) and math.isfinite(mark)
        is_text = isinstance(mark, str) and mark.strip() and len(mark) <= LONGEST and is_plain(mark)
        if not (is_number or is_text):
            shown = mark[:LONGEST] if isinstance(mark, str) else mark
            raise InputError(
                f"data.missing_values holds {shown!r}: list the numbers and texts that mean a missing value, "
                "data.missing_values=[-9999,M]; an empty cell always counts as missing"
            )


def marks_word(marks: Sequence[Mark]) -> str:
    """Return the training option that names marks, in Hydra's grammar."""
    texts = [quoted(mark) if isinstance(mark, str) else f"{mark:.12g}" for mark in marks]
    return f"data.missing_values=[{','.join(dict.fromkeys(texts))}]"


def shown_marks(marks: Sequence[Mark]) -> str:
    """Return marks for a message."""
    return ", ".join(repr(mark) if isinstance(mark, str) else f"{mark:g}" for mark in marks)


def distinct(column: pd.Series) -> tuple[np.ndarray, Any]:
    """Return the place of each cell in the distinct ones, (N,), -1 if it is empty, and those."""
    try:
        return pd.factorize(column)
    except TypeError:  # lists are no keys
        return np.arange(len(column)), column.array


def as_numbers(column: pd.Series) -> np.ndarray:
    """Return the numbers of a column of text or of mixed cells, (N,), NaN for other cells; equal cells once."""
    codes, cells = distinct(column)
    numbers = pd.to_numeric(pd.Series(cells), errors="coerce").to_numpy(np.float64, na_value=np.nan)
    return np.asarray(np.append(numbers, np.nan)[codes])  # the code of an empty cell is -1


def find_marks(column: pd.Series, numbers: np.ndarray) -> Mapping[str, int]:
    """Return the texts of a column of numbers that may mean missing, and how often each occurs.

    `numbers` (N,) are those of `as_numbers`. The texts are few, and have no digit, unless it is an error value of a
    spreadsheet such as #DIV/0!. The column has more different numbers than texts. Nothing is returned for a column with
    any other text.
    """
    is_number = ~np.isnan(numbers)
    texts = column[column.notna() & ~is_number].astype(str).str.strip()
    counts = texts[texts != ""].value_counts(sort=False)
    marks = [str(mark) for mark in counts.index[: MOST + 1]]
    if len(marks) > MOST or not all(map(_may_be_mark, marks)) or column[is_number].nunique() <= len(marks):
        return {}
    return dict(zip(marks, counts.tolist(), strict=True))


def _may_be_mark(text: str) -> bool:
    has_digit = any(letter.isdigit() for letter in text)
    return len(text) <= LONGEST and is_plain(text) and text != "???" and (text.startswith("#") or not has_digit)


def holds_mark(column: pd.Series, marks: Sequence[Mark]) -> pd.Series:
    """Return where a column holds one of the marks, numbers also as text; true and false are no numbers."""
    kind: Any = column.dtype
    numbers = [mark for mark in marks if not isinstance(mark, str)]
    if pd.api.types.is_bool_dtype(kind) or pd.api.types.is_datetime64_any_dtype(kind):
        return pd.Series(False, index=column.index)
    if not pd.api.types.is_numeric_dtype(kind):
        texts = {mark.strip() for mark in marks if isinstance(mark, str)}
        cells = column.astype(object)
        is_text = cells.map(lambda cell: isinstance(cell, str) and cell.strip() in texts).astype(bool)
        cells = cells.mask(cells.map(lambda cell: not isinstance(cell, str | int | float) or isinstance(cell, bool)))
        return is_text | pd.to_numeric(cells, errors="coerce").isin(numbers)
    if pd.api.types.is_float_dtype(kind):  # -999.9 in 32 bits is another number than in 64
        return column.isin(np.array(numbers, dtype=float).astype(getattr(kind, "numpy_dtype", kind)).tolist())
    return column.isin(numbers)
