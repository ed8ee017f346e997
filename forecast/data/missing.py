"""Rows of a grid with holes in, a whole table out; what was filled stays marked."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.data.duplicates import Rows
from forecast.data.flaws import Flaw
from forecast.data.grid import grid_places, refuse_gaps, whole_grid


class Filled(NamedTuple):
    """A table without holes.

    `times` (N,) and `values` (N, C) are whole; `observed` (N, C) is False where a value was filled, None where
    none was; `notes` say what was done.
    """

    times: pd.DatetimeIndex
    values: np.ndarray
    observed: np.ndarray | None
    notes: tuple[str, ...] = ()


def whole_table(table: Rows, how: str, *, columns: list[str], frequency: str, source: str) -> Filled:
    """Give the table with a row for every time of the grid and a value in every cell.

    Rows before the first at which every column has had a value could only be filled from what came later:
    they are left out.

    Parameters
    ----------
    table
        Sorted, no time twice; NaN where a cell is empty.
    how
        "ffill" and "mask": the last value before. "interpolate": linear in time between the neighbours, the
        last value before where none follows. "error" refuses gaps; there must be no empty cell then.
    columns, source
        For the messages.
    frequency
        Step of the grid.

    Raises
    ------
    InputError
        If a time is off the grid, a column is empty, or more rows are missing than are there.
    """
    times, values, rows = table
    places = grid_places(times, frequency, rows, source)
    if how == "error":
        refuse_gaps(times, places, frequency, rows, source)
        return Filled(times, values, None)
    _refuse_mostly_missing(times, places, frequency, rows, source)
    absent = np.ones(int(places[-1]) + 1, dtype=bool)
    absent[places] = False
    if absent.any():
        times, found = whole_grid(times, places, frequency), values
        values = np.full((len(absent), len(columns)), np.nan)
        values[places] = found
    observed = ~np.isnan(values)
    start, notes = _start(times, observed, columns, source)
    fill = _line if how == "interpolate" else _last
    for place in np.flatnonzero(~observed.all(0)):
        values[:, place] = fill(values[:, place], observed[:, place], times)
    times, values, observed, absent = times[start:], values[start:], observed[start:], absent[start:]
    if observed.all():
        return Filled(times, values, None, notes)
    partial = int((~observed.all(1) & ~absent).sum())
    note = (
        f"{int(absent.sum())} absent rows and {partial} rows with empty cells were filled by {how} "
        f"({int((~observed).sum())} of {observed.size} values)"
    )
    return Filled(times, values, observed, (*notes, note))


def _refuse_mostly_missing(
    times: pd.DatetimeIndex, places: np.ndarray, frequency: str, rows: np.ndarray, source: str
) -> None:
    """Refuse a grid that is mostly holes before it is made: a slip in one date can ask for any amount."""
    steps = np.diff(places)
    missing = int(steps.sum()) - len(steps)
    if missing <= len(places):
        return
    widest = int(steps.argmax())
    raise Flaw(
        source,
        f", row {rows[widest + 1]}",
        f"{times[widest + 1]} is {steps[widest]} steps of {frequency} after {times[widest]} in row {rows[widest]}; "
        f"{missing} rows are missing in all and {len(places)} are there",
        "correct the date, or data.frequency",
    )


def _start(
    times: pd.DatetimeIndex, observed: np.ndarray, columns: list[str], source: str
) -> tuple[int, tuple[str, ...]]:
    """Give the first row at which every column has had a value, with a note where it is not the very first."""
    some = observed.any(0)
    if not some.all():
        name = columns[int(np.argmin(some))]
        raise InputError(f"{source}, column {name!r}: has no value in any row: leave it out of data.targets")
    first = observed.argmax(0)
    start = int(first.max())
    if not start:
        return 0, ()
    name = columns[int(first.argmax())]
    return start, (f"the first {start} rows were left out: {name!r} has no value before {times[start]}",)


def _last(column: np.ndarray, seen: np.ndarray, times: pd.DatetimeIndex) -> np.ndarray:
    """Give the last value seen at each time; NaN before the first."""
    return np.asarray(column[np.maximum.accumulate(np.where(seen, np.arange(len(seen)), 0))])


def _line(column: np.ndarray, seen: np.ndarray, times: pd.DatetimeIndex) -> np.ndarray:
    """Give a straight line over each gap, level after the last value (and before the first, which is left out)."""
    since = (times.asi8 - times.asi8[0]).astype(np.float64)
    return np.where(seen, column, np.interp(since, since[seen], column[seen]))
