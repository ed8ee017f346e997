"""Covariates that are not numbers: booleans become 0 and 1, text and other labels become numbers of a list."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from forecast.common.spreadsheet import unguard
from forecast.common.text import counted, is_plain
from forecast.tables.flaws import Flaw
from forecast.tables.marks import as_numbers, distinct


def encode_covariates(
    table: pd.DataFrame,
    covariates: Sequence[str],
    categorical: Sequence[str],
    rows: np.ndarray,
    source: str,
    numeric: Sequence[str] = (),
) -> tuple[pd.DataFrame, dict[str, tuple[str, ...]]]:
    """Return the table with numbers in its covariates, and the labels of each categorical one.

    A cell of a categorical column is a place in its labels, NaN if empty. A column is categorical if it is named in
    `categorical`, or if it holds text, no cell of it is a number, and at most half are like numbers, as with a unit. A
    column of `numeric` never is; its text remains, except true and false. `rows` are row numbers for messages.
    """
    labels: dict[str, tuple[str, ...]] = {}
    encoded = table.copy(deep=False)
    for name in covariates:
        column = _without_blanks(table[name])
        if name in numeric:
            encoded[name] = column if pd.api.types.is_numeric_dtype(column.dtype) else column.map(_truth)
        elif name in categorical or isinstance(table[name].dtype, pd.CategoricalDtype) or _is_text(column):
            codes, values = pd.factorize(_of_each(column, label_of), use_na_sentinel=True)
            labels[name] = tuple(str(value) for value in values)
            if bad := [label for label in labels[name] if not is_plain(label)]:
                row = rows[int(np.argmax(codes == labels[name].index(bad[0])))]
                where = f", column {name!r}, row {row}"
                raise Flaw(source, where, f"the label {bad[0]!r} has control characters", "correct it in the file")
            encoded[name] = np.where(codes < 0, np.nan, codes.astype(np.float64))
        if name not in labels and pd.api.types.infer_dtype(encoded[name], skipna=True) == "boolean":
            encoded[name] = column.map({True: 1.0, False: 0.0}).astype(np.float64)
    return encoded, labels


EMPTY = ""
"""Label of an empty cell in a column that has labels: most days have no holiday."""


def name_empty_cells(
    values: np.ndarray, places: Mapping[str, int], labels: Mapping[str, tuple[str, ...]], names: Sequence[str] | None
) -> tuple[dict[str, tuple[str, ...]], dict[int, float], list[str]]:
    """Set the empty cells of columns with labels to `EMPTY`; return the labels, its numbers, and notes.

    `values` (N, C) is changed. `places` are the columns with labels by name. The numbers of `EMPTY` are by place, NaN
    where it is no label. `names` are the columns in which it was a label in training; None: this is the training, and
    each column with an empty cell gets it and a note.
    """
    named, numbers, notes = dict(labels), dict.fromkeys(places.values(), np.nan), []
    for name, place in places.items():
        empty = np.isnan(values[:, place])
        is_label = bool(empty.any() and labels[name]) if names is None else name in names
        if not is_label:
            continue
        numbers[place], named[name] = float(len(labels[name])), (*labels[name], EMPTY)
        values[empty, place] = numbers[place]
        if names is None:
            notes.append(f"{name!r}: {counted(int(empty.sum()), 'empty cell')} of labels: empty is a label of its own")
    return named, numbers, notes


def _truth(cell: object) -> object:
    """Return true and false as 1 and 0, also as text; other cells are unchanged."""
    return _TRUTHS.get(str(cell).strip().lower(), cell) if isinstance(cell, str | bool | np.bool_) else cell


_TRUTHS = {"true": 1.0, "false": 0.0}


def decode_labels(frame: pd.DataFrame, labels: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return a copy of the frame with labels in its categorical columns, NaN in empty cells."""
    decoded = frame.copy()
    for name in frame.columns.intersection(list(labels)):
        decoded[name] = frame[name].map(dict(enumerate(labels[name]))).astype(object)
    return decoded


def label_of(cell: object) -> str:
    """Return a cell as a label: a whole number without a decimal point, text without blanks around it.

    Text that `forecast.common.spreadsheet` guards in the program's own tables, such as a template, is unguarded.
    """
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    return unguard(str(cell).strip())


def _without_blanks(column: pd.Series) -> pd.Series:
    """Return the column with blank text as an empty cell."""
    if pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        return column
    blank = _of_each(column, lambda cell: isinstance(cell, str) and not cell.strip())
    return column.astype(object).mask(blank.eq(True))


def _of_each(column: pd.Series, function: Callable[[Any], object]) -> pd.Series:
    """Return a function of each cell, NaN for an empty one; of equal text once, not of 1 and True."""
    codes, cells = distinct(column)
    if column.dtype == object and not all(isinstance(cell, str) for cell in cells):
        return column.map(function, na_action="ignore")
    return pd.Series(np.array([*map(function, cells), np.nan], dtype=object)[codes], column.index)


def _is_text(column: pd.Series) -> bool:
    """Return whether the column holds text, none of its cells is a number, and at most half are like numbers."""
    if pd.api.types.infer_dtype(column, skipna=True) not in ("string", "mixed", "mixed-integer"):
        return False
    if not np.isnan(as_numbers(column)).all():
        return False
    return bool(_of_each(column.dropna(), lambda cell: _NUMBER_LIKE.match(str(cell)) is not None).mean() <= 0.5)


_POWER, _OTHERS = "[kMGT]?Wh|[kMG]W|[kMm]V|[kMG]?Hz", "[hkM]?Pa|m?bar|kg|[mck]m[23²³]?|k?m/[sh]|mph|min|ms"
_UNITS = rf"%|°\s?[A-Za-z]?|{_POWER}|{_OTHERS}|EUR|USD|[€$£]"
_NUMBER_LIKE = re.compile(rf"\s*[-+]?\d[\d.,' ]*+(?:{_UNITS})?\s*$")
"""Numbers with a decimal comma, a separator of thousands or a unit, which are mistakes and no labels."""
