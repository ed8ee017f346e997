"""Covariates that are not numbers: booleans become 0 and 1, text and other labels become numbers of a list."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from forecast.common.spreadsheet import unguard
from forecast.common.text import is_plain
from forecast.data.flaws import Flaw


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
    `categorical`, or if it holds text and no cell of it is a number. A column of `numeric` never is; its text remains,
    except true and false. `rows` are row numbers for messages.
    """
    labels: dict[str, tuple[str, ...]] = {}
    encoded = table.copy(deep=False)
    for name in covariates:
        column = _without_blanks(table[name])
        if name in numeric:
            encoded[name] = column if pd.api.types.is_numeric_dtype(column.dtype) else column.map(_truth)
        elif name in categorical or isinstance(table[name].dtype, pd.CategoricalDtype) or _is_text(column):
            codes, values = pd.factorize(column.map(label_of, na_action="ignore"), use_na_sentinel=True)
            labels[name] = tuple(str(value) for value in values)
            if bad := [label for label in labels[name] if not is_plain(label)]:
                row = rows[int(np.argmax(codes == labels[name].index(bad[0])))]
                where = f", column {name!r}, row {row}"
                raise Flaw(source, where, f"the label {bad[0]!r} has control characters", "correct it in the file")
            encoded[name] = np.where(codes < 0, np.nan, codes.astype(np.float64))
        if name not in labels and _is_boolean(encoded[name]):
            encoded[name] = column.map({True: 1.0, False: 0.0}).astype(np.float64)
    return encoded, labels


def _truth(cell: object) -> object:
    """Return true and false as 1 and 0, also as text; other cells are unchanged."""
    word = cell.strip().lower() if isinstance(cell, str) else cell
    if isinstance(word, bool | np.bool_):
        return float(word)
    return _TRUTHS.get(word, cell) if isinstance(word, str) else cell


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
    plain = column.astype(object)
    return plain.mask(plain.map(lambda cell: isinstance(cell, str) and not cell.strip()).astype(bool))


def _is_text(column: pd.Series) -> bool:
    """Return whether the column holds text, and none of its cells is a number, also with a comma."""
    if pd.api.types.infer_dtype(column, skipna=True) not in ("string", "mixed", "mixed-integer"):
        return False
    numbers = pd.to_numeric(column, errors="coerce").notna()
    return not (numbers.any() or column.dropna().astype(str).str.match(_NUMBER_LIKE).all())


_NUMBER_LIKE = r"\s*[-+]?\d[\d.,' ]*$"
"""Numbers with a decimal comma or a separator of thousands, which are mistakes and no labels."""


def _is_boolean(column: pd.Series) -> bool:
    return pd.api.types.infer_dtype(column, skipna=True) == "boolean"
