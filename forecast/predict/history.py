"""The past of a table, cut so that each forecast of a backtest reads only what was known when it began."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.data.calendar import common_grid, seasonal_period
from forecast.data.contract import DataContract
from forecast.data.scaler import SeriesScaler
from forecast.predict.contexts import TrainedModel
from forecast.predict.input import check_columns, ids_of, reading_as_trained, time_column_of
from forecast.tables.files import tidy_names
from forecast.tables.labels import decode_labels
from forecast.tables.panel import Id, first_of, shown_id
from forecast.tables.roles import Roles
from forecast.tables.series import Ahead, Series, series_from_frame
from forecast.tables.times.calendars import CalendarDays
from forecast.tables.times.frequency import (
    frequency_offset,
    from_wall_time,
    times_from,
    to_wall_time,
)

Time = str | pd.Timestamp

_YEAR_FIRST = re.compile(r"\d{4}(?!\d)")


@dataclass(frozen=True)
class Origins:
    """The times at which the forecasts of a backtest begin.

    Parameters
    ----------
    start
        The first time that is forecast.
    end
        No forecast begins after it; None: the last one has a whole horizon of rows.
    step
        Time between two origins, such as "7d" or "1MS", or a number of rows; None: the horizon.
    """

    start: Time
    end: Time | None = None
    step: str | int | None = None

    def places(self, grid: pd.DatetimeIndex, horizon: int) -> np.ndarray:
        """Return the rising places of the origins on the grid of a table; raise InputError if there are none."""
        start = time_of(self.start, grid, "start")
        last = grid[-min(horizon, len(grid))] if self.end is None else min(time_of(self.end, grid, "end"), grid[-1])
        first = int(grid.searchsorted(start))
        stop = int(grid.searchsorted(last, side="right"))
        if first >= stop:
            reach = f"the last forecast can begin at {last}" if self.end is None else f"the end is {last}"
            raise InputError(f"start {start}: {reach} and the table goes from {grid[0]} to {grid[-1]}: start earlier")
        step = horizon if self.step is None else self.step
        if isinstance(step, int) or step.isdecimal():
            if int(step) < 1:
                raise InputError(f"step {step}: is not a number of rows above 0: give such a number, or a time as 7d")
            return np.arange(first, stop, int(step))
        return self._by_time(grid, first, stop)

    def _by_time(self, grid: pd.DatetimeIndex, first: int, stop: int) -> np.ndarray:
        """Return the places of the first rows at or after each step of time."""
        wall = grid.tz_localize(None) if grid.tz is None else to_wall_time(grid)
        words = str(self.step)
        try:
            offset = frequency_offset(words[:-1] + "D" if words.endswith("d") else words)
            if isinstance(offset, CalendarDays):  # at most one a day
                wanted = times_from(wall[first], (wall[stop - 1] - wall[first]).days + 2, offset)
                wanted = wanted[wanted <= wall[stop - 1]]
            else:
                wanted = pd.date_range(wall[first], wall[stop - 1], freq=offset)
        except (InputError, ValueError):
            raise InputError(f"step {words}: is not a time above 0: give one such as 7d, 24h or 1MS") from None
        if len(wanted) > stop - first:
            raise InputError(f"step {self.step}: is shorter than the step of the table: give 1 for every row")
        if grid.tz is not None:
            wanted = from_wall_time(wanted, grid.tz)
        return np.unique(grid.searchsorted(wanted))


@dataclass(frozen=True)
class Chosen(Origins):
    """Origins at given places of the grid."""

    listed: tuple[int, ...] = ()

    def places(self, grid: pd.DatetimeIndex, horizon: int) -> np.ndarray:
        return np.array(self.listed)


def time_of(time: Time, grid: pd.DatetimeIndex, name: str) -> pd.Timestamp:
    """Return a time in the zone of the grid; raise InputError if it is none."""
    try:
        if isinstance(time, str) and not _YEAR_FIRST.match(time.strip()):
            raise ValueError  # pandas would take 03.04.2023 for 4 March
        stamp = pd.Timestamp(time)
        if pd.isna(stamp):
            raise ValueError
    except ValueError:
        raise InputError(f"{name} {time!r}: is not a time: write it as 2017-01-31 or 2017-01-31 06:00") from None
    if stamp.tz is not None and grid.tz is None:
        raise InputError(f"{name} {time}: has a time zone and the table has none: leave the zone out")
    if grid.tz is None:
        return stamp
    zoned = from_wall_time(pd.DatetimeIndex([stamp]), grid.tz)[0] if stamp.tz is None else stamp.tz_convert(grid.tz)
    return pd.Timestamp(zoned)


@dataclass(frozen=True)
class Rows:
    """The rows of one or many series on the common `grid` of times.

    `series` begin at the places `first` (S,) of the grid, and at the rows `offsets` (S + 1,); `names` are their ids.
    """

    series: Series
    grid: pd.DatetimeIndex

    @cached_property
    def names(self) -> tuple[Id, ...]:
        return ((),) if self.series.ids is None else self.series.ids.names

    @cached_property
    def offsets(self) -> np.ndarray:
        ids = self.series.ids
        return np.array([0, len(self.series.frame)]) if ids is None else ids.offsets

    @cached_property
    def first(self) -> np.ndarray:
        index = pd.DatetimeIndex(self.series.frame.index)
        return np.asarray(self.grid.get_indexer(index[self.offsets[:-1]]))

    def at(self, place: int) -> np.ndarray:
        """Return the row (S,) of each series at a place of the grid, which may lie outside the series."""
        return np.asarray(self.offsets[:-1] + place - self.first)

    def ready(self, place: int, least: int, targets: Sequence[str]) -> np.ndarray:
        """Return which series (S,) have enough rows before a place, and a target value in the last of them."""
        stops = self.at(place)
        enough = (stops - self.offsets[:-1] >= least) & (stops <= self.offsets[1:])
        measured = self.series.observed_of(targets)
        if measured is None:
            return np.asarray(enough)
        return np.asarray(enough & measured[(stops - 1).clip(0, len(measured) - 1)].any(1))


@dataclass(frozen=True)
class History:
    """A table for a backtest.

    Attributes
    ----------
    past
        The rows before the last origin, checked and repaired as in training.
    whole
        All rows, whose measured targets are the truth.
    places
        The origins, as places on the grid.
    left_out
        Number of origins that no series can be forecast from.
    series_left_out
        Line on series that can be forecast from no origin; None if there are none.
    """

    model: TrainedModel
    past: Rows
    whole: Rows
    places: np.ndarray
    left_out: int = 0
    series_left_out: str | None = None

    @property
    def times(self) -> pd.DatetimeIndex:
        """The time of each origin."""
        return self.whole.grid[self.places]

    def truth(self, place: int, names: Sequence[Id]) -> np.ndarray:
        """Return the measured targets (S, h, C) of the steps from a place on; NaN where there is none."""
        whole, steps = self.whole, np.arange(self.model.horizon)
        codes = np.array([self._code[name] for name in names])
        rows = whole.at(place)[codes, None] + steps
        inside = (rows >= whole.offsets[codes, None]) & (rows < whole.offsets[codes + 1, None])
        return np.where(inside[..., None], self._measured[np.where(inside, rows, 0)], np.nan)

    @cached_property
    def _measured(self) -> np.ndarray:
        return self.whole.series.measured[self.model.targets].to_numpy(np.float64)

    @cached_property
    def _code(self) -> dict[Id, int]:
        return {name: code for code, name in enumerate(self.whole.names)}

    def ready(self, place: int) -> np.ndarray:
        """Return the codes of the series in `past` that can be forecast from a place on and have a truth."""
        codes = np.flatnonzero(self.past.ready(place, self.model.least_context, self.model.targets))
        return codes[self.can_be_scored(place, [self.past.names[code] for code in codes])] if len(codes) else codes

    def can_be_scored(self, place: int, names: Sequence[Id]) -> np.ndarray:
        """Return which series have a truth after a place, and all known covariates of the horizon."""
        some = np.isfinite(self.truth(place, names)).any((1, 2))
        if not self.model.contract.known:
            return np.asarray(some)
        codes = np.array([self._code[name] for name in names])
        ends = self.whole.offsets[1:][codes] + self._ahead[codes]
        return np.asarray(some & (self.whole.at(place)[codes] + self.model.horizon <= ends))

    @cached_property
    def _ahead(self) -> np.ndarray:
        """Number of rows after the last target value of each series, (S,)."""
        count = np.zeros(len(self.whole.names), dtype=np.int64)
        for table in self.whole.series.ahead:
            np.add.at(
                count, [self._code[name] for name in table.ids or [()] * len(table.rows) if name in self._code], 1
            )
        return count


def read_history(
    model: TrainedModel,
    checked: Callable[[pd.DataFrame, str], Series],
    frame: pd.DataFrame,
    origins: Origins,
    source: str = "the frame",
) -> History:
    """Return a table for a backtest of a model; raise InputError if it does not fit or has no origin.

    `checked` reads and checks a table as `predict` does. Values after the last origin are only compared with: they may
    be missing, or wrong.
    """
    series = _as_written(model.contract, frame, source)
    whole = Rows(series, common_grid(pd.DatetimeIndex(series.frame.index), model.frequency))
    whole_past = History(model, whole, whole, np.empty(0, np.int64))
    wanted = origins.places(whole.grid, model.horizon)
    ready = [whole_past.ready(place) if place else np.empty(0, np.int64) for place in wanted.tolist()]
    kept = np.array([len(codes) > 0 for codes in ready])
    if not kept.any():
        raise InputError(
            f"{source}: no forecast can begin from {whole.grid[wanted[0]]} to {whole.grid[wanted[-1]]}: each needs "
            f"{model.least_context} rows before it, a target value in the last, and one after "
            "it: start later"
        )
    places = wanted[kept]
    codes = np.unique(np.concatenate(ready))
    table = _cut(model.contract, whole, codes, int(places[-1]), source)
    past = Rows(checked(table, source), whole.grid)
    return History(model, past, whole, places, int((~kept).sum()), _never_ready(whole, codes))


def _never_ready(whole: Rows, codes: np.ndarray) -> str | None:
    """Return a line on the series of a panel that are not among the `codes` of those with a forecast."""
    ids = whole.series.ids
    if ids is None:
        return None
    never = [*ids.empty, *(ids.names[code] for code in np.setdiff1d(np.arange(len(ids)), codes))]
    if not never:
        return None
    named = first_of([shown_id(ids.columns, name) for name in never])
    count = f"{len(never):,} of {len(ids) + len(ids.empty):,} series"
    return f"{count} have no origin with enough rows before it and a value to compare with: {named}: left out"


def rows_before(contract: DataContract, frame: pd.DataFrame, time: pd.Timestamp, source: str) -> pd.DataFrame:
    """Return the rows of a table before a time, for a training: every column that the run read, gaps as empty cells."""
    labels = [*contract.encoder.categorical, *contract.static.encoder.categories]
    series = _as_written(contract, frame, source, replace(contract.roles, categorical=labels))
    table = decode_labels(series.measured, series.labels).rename_axis(index=contract.time_column)
    if series.ids is not None:
        table = table.assign(**series.ids.described(series.ids.of_rows).set_axis(table.index))
    return table[table.index < time].reset_index()


def _as_written(contract: DataContract, frame: pd.DataFrame, source: str, roles: Roles | None = None) -> Series:
    """Return all rows of a table, without a check of its values; gaps are filled, and count as not measured."""
    frame, _ = tidy_names(frame, source)
    check_columns(contract, frame, source)
    column = time_column_of(contract, frame, source)
    policies = contract.policies if contract.policies.fills else replace(contract.policies, missing="ffill")
    reading = replace(
        reading_as_trained(contract, frame, column),
        policies=policies,
        last_rows=None,
        kept_rows=2 * len(frame) + 1,  # a fill leaves out the first rows of a late column, and here no row
    )
    roles = contract.roles_to_read if roles is None else roles
    return series_from_frame(frame, roles, reading, source, keeps_ids=bool(roles.ids))


def _cut(contract: DataContract, whole: Rows, codes: np.ndarray, last: int, source: str) -> pd.DataFrame:
    """Return the table of the series `codes` in which only the known covariates have values from the last origin on."""
    series, ids = whole.series, whole.series.ids
    frame = decode_labels(series.measured, series.labels)
    blank = [name for name in frame if name not in contract.known]
    later = np.asarray(pd.DatetimeIndex(frame.index) >= whole.grid[last])
    _refuse_gaps(contract, series, later, source)
    frame.loc[later, blank] = np.nan
    pieces = [frame if ids is None else frame.assign(**ids.described(ids.of_rows).set_axis(frame.index))]
    for ahead in series.ahead:
        more = ahead.frame
        if ids is not None:
            place = {name: code for code, name in enumerate(ids.names)}
            own = np.array([place.get(name, -1) for name in ahead.ids], dtype=np.int64)
            more = more[own >= 0]
            more = more.assign(**ids.described(own[own >= 0]).set_axis(more.index))
        pieces.append(more)
    table = pd.DataFrame(pd.concat(pieces)).rename_axis(index=contract.time_column).reset_index()
    if ids is None:
        return table
    kept = {ids.names[code] for code in codes}
    names = table[list(ids.columns)].itertuples(index=False, name=None)
    return pd.DataFrame(table[[name in kept for name in names]]).reset_index(drop=True)


def _refuse_gaps(contract: DataContract, series: Series, later: np.ndarray, source: str) -> None:
    """Raise InputError for a missing value before the last origin, if training had none."""
    if contract.policies.fills or series.observed is None:
        return
    columns = [str(name) for name in series.frame if name not in series.labels]
    missing = ~np.asarray(series.observed_of(columns)) & ~later[:, None]
    if missing.any():
        row, place = (int(number) for number in np.argwhere(missing)[0])
        raise InputError(
            f"{source}: {columns[place]!r} has no value at {series.frame.index[row]}, and the model was trained "
            "without gaps: fill it in, end before it, or train with data.missing=mask"
        )


def before(history: History, place: int) -> Series:
    """Return a series as it was known when a forecast began: the rows after it have known covariates alone."""
    series = history.past.series
    stop, horizon = int(history.past.at(place)[0]), history.model.horizon
    series = _with_last_values(series, np.array([stop]), np.array([0]), history.model)
    known = history.model.contract.known
    ahead = series.ahead
    if known and stop < len(series.frame):
        rows = decode_labels(series.frame[known].iloc[stop : stop + horizon], series.labels)
        ahead = (Ahead(rows, np.arange(stop, stop + len(rows)) + 2, "the table"), *ahead)
    first, limit = 0, history.model.contract.reading.last_rows
    if limit is not None:
        first = max(0, stop - max(limit, history.model.context_length))
    observed = None if series.observed is None else series.observed[first:stop]
    return replace(series, frame=series.frame.iloc[first:stop], observed=observed, ahead=ahead)


def around(history: History, place: int, codes: np.ndarray) -> tuple[Series, np.ndarray]:
    """Return a panel of the series `codes`, with the rows that forecasts from a place read, and the stops (S,).

    A series that training did not have is scaled by all its rows before the place, or by the last ones of training.
    """
    series, model, past = history.past.series, history.model, history.past
    own, scaler = ids_of(series), model.contract.scaler
    assert isinstance(scaler, SeriesScaler)
    trained, most = set(scaler.names), model.contract.reading.last_rows or len(series.frame)
    is_new = np.array([own.names[code] not in trained for code in codes])
    shortest = max(model.context_length, seasonal_period(model.frequency))
    reach = np.where(is_new, max(most, shortest), shortest)
    stops, offsets = past.at(place)[codes], past.offsets
    low = np.maximum(offsets[:-1][codes], stops - reach)
    high = np.minimum(offsets[1:][codes], stops + model.horizon)
    series = _with_last_values(series, stops, offsets[:-1][codes], model)
    rows = np.concatenate([np.arange(*pair) for pair in zip(low, high, strict=True)])
    steps = own.steps[codes] + low - offsets[:-1][codes]
    ids = own.at(codes, high - low, steps)
    observed = None if series.observed is None else series.observed[rows]
    return replace(series, frame=series.frame.iloc[rows], observed=observed, ids=ids), ids.offsets[:-1] + stops - low


def _with_last_values(series: Series, stops: np.ndarray, starts: np.ndarray, model: TrainedModel) -> Series:
    """Return a series whose gaps just before the `stops` repeat the last value, as at the end of a table.

    A fill that depends on the value after a gap would otherwise read the future.
    """
    if not model.policies.reads_past_gaps or series.observed is None:
        return series
    seen = np.asarray(series.observed)
    open_rows = np.flatnonzero(~seen[stops - 1].all(1))
    if not len(open_rows):
        return series
    values = series.frame.to_numpy(np.float64, copy=True)
    for stop, start in zip(stops[open_rows], starts[open_rows], strict=True):
        for column in np.flatnonzero(~seen[stop - 1]):
            measured = np.flatnonzero(seen[start:stop, column])
            if len(measured):
                last = start + int(measured[-1])
                values[last + 1 : stop, column] = values[last, column]
    frame = pd.DataFrame(values, index=series.frame.index, columns=series.frame.columns)
    return replace(series, frame=frame)
