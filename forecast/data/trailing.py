"""Rows behind the last measured target: they are for what is known ahead, and a forecast begins before them."""

from collections.abc import Sequence

import numpy as np
import pandas as pd


def rows_ahead(table: pd.DataFrame, times: pd.DatetimeIndex, targets: Sequence[str]) -> np.ndarray:
    """Return which rows (N,) stand after the last time with a value of any target; none where no row has one.

    Parameters
    ----------
    table
        Cells as they were read, in any order of time.
    times
        Of its rows.
    targets
        Columns that are forecast.
    """
    none = np.zeros(len(table), dtype=bool)
    if times.asi8[-1] == times.asi8.max() and _has_value(table.iloc[-1:], targets)[0]:
        return none  # as nearly always
    measured = _has_value(table, targets)
    return np.asarray(times.asi8 > times.asi8[measured].max()) if measured.any() else none


def note(times: pd.DatetimeIndex, count: int) -> str:
    """Say how many rows were left out and from when; `times` are those of the rows, in any order."""
    rows = "the last row has" if count == 1 else f"the last {count:,} rows have"
    return f"{rows} no target value, from {times.min()} on: the series ends there, and a forecast begins there"


def _has_value(table: pd.DataFrame, targets: Sequence[str]) -> np.ndarray:
    """Return which rows (N,) have a cell of a target that is not empty."""
    found = np.zeros(len(table), dtype=bool)
    for name in targets:
        column = table[name]
        filled = column.notna().to_numpy()
        if not pd.api.types.is_numeric_dtype(column.dtype):
            filled = filled & (column.astype(str).str.strip() != "").to_numpy()
        found |= filled
    return found
