"""Cells in, numbers out: float64 values of which every one is finite and fits float32."""

import numpy as np
import pandas as pd

from forecast.errors import InputError

_LARGEST = float(np.finfo(np.float32).max)


def to_numbers(table: pd.DataFrame, rows: np.ndarray, source: str, *, empty_allowed: bool = False) -> np.ndarray:
    """Values of the table, shape (N, C), float64; NaN where a cell is empty, if that is allowed.

    Raises `InputError` that names row and column of the first cell that is empty, no number, infinite, or too
    large for the model's float32; `rows` holds the row numbers as a spreadsheet shows them.
    """
    values = np.empty(table.shape, dtype=np.float64, order="F")  # as pandas keeps it, which then need not copy it
    for place, name in enumerate(table.columns):
        values[:, place] = _column(table[name], rows, f"{source}, column {name!r}", empty_allowed)
    return values


def _column(column: pd.Series, rows: np.ndarray, where: str, empty_allowed: bool) -> np.ndarray:
    numbers = _parse(column, rows, where)
    for bad, problem in (
        (
            np.isnan(numbers) & (not empty_allowed),
            "no value ({count} empty in all): fill it in the file (rows can only go at its ends), "
            "or train with data.missing=ffill, interpolate or mask",
        ),
        (np.isinf(numbers), "an infinite value ({count} in all): correct it in the file"),
        (np.abs(numbers) > _LARGEST, "{value:g} is beyond float32 ({count} such in all): use a larger unit"),
    ):
        if bad.any():
            first = int(np.argmax(bad))
            text = problem.format(count=int(bad.sum()), value=numbers[first])
            raise InputError(f"{where}, row {rows[first]}: {text}")
    return numbers


def _parse(column: pd.Series, rows: np.ndarray, where: str) -> np.ndarray:
    """Numbers of one column, NaN where a cell is empty."""
    kind = pd.api.types
    if kind.is_bool_dtype(column.dtype) or pd.api.types.infer_dtype(column, skipna=True) == "boolean":
        raise InputError(f"{where}: holds true and false: write 1 and 0, or leave it out of data.targets")
    if kind.is_complex_dtype(column.dtype) or column.dtype.kind in "mM":
        raise InputError(f"{where}: holds {column.dtype}, not numbers: leave it out of data.targets")
    if kind.is_numeric_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    unread = np.flatnonzero(np.isnan(numbers) & column.notna().to_numpy())
    for place in unread:
        text = str(column.iloc[place])
        if text.strip():
            raise InputError(
                f"{where}, row {rows[place]}: {text[:40]!r} is no number: write it with a decimal point and "
                "without unit or thousands mark, or leave its column out of data.targets"
            )
    return numbers
