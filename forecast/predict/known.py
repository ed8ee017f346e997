"""Known covariates of the horizon, gathered from the tables of the user, and a template of what is missing."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.data.known import KnownEncoder
from forecast.tables.labels import EMPTY
from forecast.tables.series import Ahead, Series
from forecast.tables.times.clock import Clock

SHOWN = 3
"""Largest number of column names in a message."""


class MissingKnown(InputError):
    """Known covariates of the horizon are missing.

    `template` has the dates with an empty cell as index and the known covariates as columns, with the values that are
    there.
    """

    def __init__(self, message: str, template: pd.DataFrame) -> None:
        super().__init__(message)
        self.template = template


def gather_known(
    tables: Sequence[Ahead],
    columns: Sequence[str],
    times: pd.DatetimeIndex,
    dates: pd.DatetimeIndex,
    clock: Clock,
    check: Callable[[pd.DataFrame, str], None] = lambda *_: None,
    empty_allowed: Sequence[str] = (),
) -> pd.DataFrame:
    """Return the known covariates at the `times` of the horizon, on the clock of training.

    The first of the `tables` with a value counts. `dates` are the same times in the user's time zone, for messages.
    `check` is called with the values that each table contributes, NaN elsewhere, and the name of the table. In the
    columns `empty_allowed` a row with an empty cell has the label `EMPTY`.

    Raises
    ------
    MissingKnown
        If a value is missing in every table.
    """
    found = pd.DataFrame(index=times, columns=list(columns), dtype=object)
    for table in tables:
        rows = _places(table, times, clock)  # for all tables, since it checks their clock
        if (rows < 0).all() or found.notna().all(axis=None):
            continue
        own = _at_places(table, columns, times, rows)
        check(own.where(found.isna()).set_axis(dates), table.source)
        found = found.where(found.notna(), own)
    for name in empty_allowed:
        places = [_places(table, times, clock) for table in tables if name in table.frame.columns]
        has_row = np.any([own >= 0 for own in places], axis=0) if places else np.zeros(len(times), bool)
        found[name] = found[name].mask(found[name].isna() & has_row, EMPTY)
    empty = np.asarray(found.isna())
    if not empty.any():
        return found.infer_objects()
    template = pd.DataFrame(found.set_axis(dates).iloc[np.flatnonzero(empty.any(1))])
    message = _gap(tables, found, times, dates, clock)
    if message is None:
        message = _absence(found, empty, dates, _clue(tables, found, times, clock))
    raise MissingKnown(message, template)


def rows_at(table: Ahead, columns: Sequence[str], times: pd.DatetimeIndex, clock: Clock) -> pd.DataFrame:
    """Return the columns of a table at the `times`, on the clock of training; NaN where the table has no value."""
    return _at_places(table, columns, times, _places(table, times, clock))


def _at_places(table: Ahead, columns: Sequence[str], times: pd.DatetimeIndex, places: np.ndarray) -> pd.DataFrame:
    rows = table.frame.reindex(columns=list(columns)).astype(object).iloc[places].set_axis(times)
    rows.loc[places < 0] = np.nan  # place -1 took the last row
    return rows


def with_unread(frame: pd.DataFrame, encoder: KnownEncoder, unread: Sequence[str]) -> pd.DataFrame:
    """Return a frame with the known covariates that no forecast depends on: the mean of training, or no label."""
    if not unread:
        return frame
    means = dict(zip(encoder.numbers, encoder.mean, strict=True))
    values = pd.DataFrame({name: means.get(name, np.nan) for name in unread}, index=frame.index)
    return pd.concat([frame, values], axis=1)


def series_with_unread(series: Series, encoder: KnownEncoder, unread: Sequence[str]) -> Series:
    """Return a checked series with the columns of `with_unread`, which count as measured."""
    if not unread:
        return series
    observed = series.observed
    return replace(
        series,
        frame=with_unread(series.frame, encoder, unread),
        observed=None if observed is None else np.pad(observed, ((0, 0), (0, len(unread))), constant_values=True),
        labels={**series.labels, **{name: () for name in unread if name in encoder.categories}},
    )


def _places(table: Ahead, times: pd.DatetimeIndex, clock: Clock) -> np.ndarray:
    """Return the place of each time in a table, -1 if it has no such row."""
    wanted = clock.comparable(times)
    own = comparable_times(table, wanted, clock)
    first = np.flatnonzero(~own.duplicated())  # an hour occurs twice in a table of hours for a model of days
    return np.append(first, -1)[own[first].get_indexer(wanted)]


def comparable_times(table: Ahead, wanted: pd.DatetimeIndex, clock: Clock) -> pd.DatetimeIndex:
    """Return the times of a table as `wanted` has them, on the clock of training; raise InputError if they differ."""
    index = pd.DatetimeIndex(table.frame.index)
    clock.check(index, table.source)
    own = clock.comparable(index)
    if (own.tz is None) != (wanted.tz is None):
        raise InputError(
            f"{table.source}: only its times, or only those of the input, have a time zone: write both alike"
        )
    return own


def _gap(
    tables: Sequence[Ahead], found: pd.DataFrame, times: pd.DatetimeIndex, dates: pd.DatetimeIndex, clock: Clock
) -> str | None:
    """Return a message on the first empty cell in a row that is there; None if whole rows are missing."""
    for table in tables:
        places = _places(table, times, clock)
        cells = np.asarray(found.isna()) & (places >= 0)[:, None] & found.columns.isin(table.frame.columns)
        if cells.any():
            step, column = (int(place) for place in np.argwhere(cells)[0])
            count = int(cells.sum())
            total = f" ({count} such cells in the horizon)" if count > 1 else ""
            return (
                f"{table.source}, column {found.columns[column]!r}, row {table.rows[places[step]]}: no value at "
                f"{dates[step]}, where the forecast needs one{total}: fill it in"
            )
    return None


def _clue(tables: Sequence[Ahead], found: pd.DataFrame, times: pd.DatetimeIndex, clock: Clock) -> str:
    """Return why the rows of a table do not help, in brackets; empty if there is nothing to say."""
    for table in tables:
        shown = pd.DatetimeIndex(table.frame.index)
        own, wanted = clock.comparable(shown), clock.comparable(times)
        inside = (own >= wanted[0]) & (own <= wanted[-1])
        off_grid = inside & ~own.isin(wanted)
        absent = [name for name in found.columns[found.isna().any()] if name not in table.frame.columns]
        if not inside.any():
            return f" ({table.source} has {shown[0]} to {shown[-1]})"
        if off_grid.any():
            place = int(off_grid.argmax())
            return f" ({table.source}, row {table.rows[place]}: {shown[place]} is off the grid)"
        if absent and not any(absent[0] in other.frame.columns for other in tables):
            return f" ({table.source} has no column {absent[0]!r})"
    return ""


def _absence(found: pd.DataFrame, empty: np.ndarray, dates: pd.DatetimeIndex, clue: str) -> str:
    names = [repr(found.columns[int(place)]) for place in np.flatnonzero(empty.any(0))]
    listed = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    missing = dates.take(np.flatnonzero(empty.any(1)))
    where = f"{len(missing)} dates, {missing[0]} to {missing[-1]}" if len(missing) > 1 else f"{missing[0]}"
    return (
        f"no values of {listed} for {where}{clue}: the model needs its known covariates over the whole horizon: add "
        "rows with these dates and empty targets to the input, or give them in a second table, or train with a shorter "
        "horizon"
    )
