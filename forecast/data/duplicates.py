"""Rows in any order in, sorted rows out, one for each time."""

import numpy as np
import pandas as pd

from forecast.data.flaws import Flaw

Rows = tuple[pd.DatetimeIndex, np.ndarray, np.ndarray]
"""Times, values (N, C), and row numbers (N,) as a spreadsheet shows them."""


def one_row_a_time(table: Rows, how: str, source: str, time_column: str) -> tuple[Rows, tuple[str, ...]]:
    """Give the rows in order of time, doubled times made one as `how` says, and notes on what was changed.

    Parameters
    ----------
    table
        Empty cells are NaN.
    how
        "mean", "first" or "last" of the values that are there, column by column, in the order of the file;
        "error" refuses doubled times. A merged row keeps the row number of the first.
    source, time_column
        For the messages.

    Raises
    ------
    Flaw
        If times are doubled and `how` is "error".
    """
    times, values, rows = table
    stamps = times.asi8
    late = int((stamps < np.maximum.accumulate(stamps)).sum())
    notes = (f"{late} rows were out of order: sorted by {time_column}",) if late else ()
    if late:  # a table in order stays as it is, uncopied
        order = np.argsort(stamps, kind="stable")
        times, values, rows = times[order], values[order], rows[order]
    again = np.diff(times.asi8) == 0  # row n + 1 is for the time of row n
    if not again.any():
        return (times, values, rows), notes
    if how == "error":
        place = int(np.argmax(again))
        raise Flaw(
            source,
            f", rows {rows[place]} and {rows[place + 1]}",
            f"both are for {times[place]} ({int(again.sum())} duplicate times in all)",
            "keep one row for each time, or train with data.duplicates=mean, first or last",
            "data.duplicates=mean",
        )
    starts = np.flatnonzero(np.concatenate([[True], ~again]))
    merged = np.column_stack([_merge(column, starts, how) for column in values.T])
    doubled = int((np.diff(starts, append=len(times)) > 1).sum())
    note = f"{doubled} times had more than one row: {doubled + int(again.sum())} rows became {doubled} by their {how}"
    return (times[starts], merged, rows[starts]), (*notes, note)


def _merge(column: np.ndarray, starts: np.ndarray, how: str) -> np.ndarray:
    """Give one value for each group of rows, which begin at `starts`; NaN where a group has none."""
    seen = ~np.isnan(column)
    if how == "mean":
        total = np.add.reduceat(np.where(seen, column, 0.0), starts)
        count = np.add.reduceat(seen.astype(np.int64), starts)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)
    place = np.arange(len(column))
    if how == "first":
        chosen = np.minimum.reduceat(np.where(seen, place, len(column)), starts)
        found = chosen < len(column)
    else:
        chosen = np.maximum.reduceat(np.where(seen, place, -1), starts)
        found = chosen >= 0
    return np.where(found, column[np.where(found, chosen, 0)], np.nan)
