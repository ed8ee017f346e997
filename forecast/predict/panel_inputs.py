"""The inputs of a model for forecasts of many series: look-backs, and what is known of each horizon."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from forecast.data.calendar import common_grid, earlier_index, future_index
from forecast.data.holidays import Places
from forecast.data.known import KnownEncoder
from forecast.model.original_units import Context
from forecast.predict.contexts import TrainedModel
from forecast.predict.forecast import joined
from forecast.predict.input import ids_of
from forecast.predict.known import SHOWN, MissingKnown, comparable_times
from forecast.tables.labels import EMPTY, decode_labels
from forecast.tables.panel import Ids
from forecast.tables.series import Ahead, Series


class Units(NamedTuple):
    """Mean and deviation of S series, (S, C_in), float64, original units, and their static inputs (S, K), if any.

    `codes` (S,) are their places in training, -1 for a new one. `recent` (S, 1, C) is the relative size of their latest
    errors, if intervals follow them.
    """

    mean: Tensor
    scale: Tensor
    codes: Tensor
    static: Tensor | None
    recent: Tensor | None = None

    def at(self, places: Tensor) -> "Units":
        """Return the units of the series at places (B,)."""
        return Units._make(None if part is None else part[places] for part in self)


@dataclass(frozen=True)
class PanelInputs:
    """The inputs of S forecasts that begin at the rows `stops` (S,) of a panel, one in each series.

    `last` (S,) is the place among all `times` of the row before each forecast, and `dates` are the times of its h
    steps, as the user writes them. `values` (N, C_in) are the channels of each row and `known` its known covariates,
    and `future` (S h) has those of each step. `places` (S,) are those of the holidays; None: all series have the same.
    """

    model: TrainedModel
    series: Series
    stops: np.ndarray
    times: pd.DatetimeIndex
    last: np.ndarray
    dates: list[pd.DatetimeIndex]
    values: np.ndarray
    known: pd.DataFrame
    future: pd.DataFrame
    places: Places | None

    @classmethod
    def of(cls, model: TrainedModel, series: Series, stops: np.ndarray, *, beyond_training: bool) -> "PanelInputs":
        """Return the inputs; raise MissingKnown if a known covariate of a horizon is missing."""
        horizon, encoder = model.horizon, model.contract.encoder
        grid = common_grid(pd.DatetimeIndex(series.frame.index), model.frequency)
        earlier = earlier_index(grid, model.frequency, model.context_length)
        times = pd.DatetimeIndex(earlier.append(grid).append(future_index(grid, model.frequency, horizon)))
        last = grid.get_indexer(pd.DatetimeIndex(series.frame.index)[stops - 1]) + model.context_length
        dates = [times[place + 1 : place + 1 + horizon] for place in last]
        names = [name for name in (*encoder.known, *encoder.past_categories) if name in series.frame]
        known = decode_labels(series.frame[names], series.labels)
        future = _future_known(model, series, stops, dates, known, beyond_training)
        values = series.frame[model.channels].to_numpy(np.float64)
        holidays = model.contract.holidays
        places = None if holidays is None else holidays.places(series.ids)
        return cls(model, series, stops, times, last, dates, values, known, future, places)

    def at(self, part: np.ndarray) -> Context:
        """Return the inputs of the forecasts at places (B,).

        The steps before the first row of a series repeat that row and are not observed.
        """
        model, series, contract = self.model, self.series, self.model.contract
        length, horizon, count = model.context_length, model.horizon, len(part)
        rows = self.stops[part, None] + np.arange(-length, 0)
        first = ids_of(series).offsets[:-1][part, None]
        inside, rows = rows >= first, np.maximum(rows, first)
        steps = (part[:, None] * horizon + np.arange(horizon)).ravel()
        places = self.last[part, None] + np.arange(1 - length, horizon + 1)
        index = self.times[np.concatenate([places[:, :length].ravel(), places[:, length:].ravel()])]
        whole, labels = self._known(rows.ravel(), steps)
        times = pd.DatetimeIndex(contract.clock.to_training_clock(pd.DatetimeIndex(index)))
        of = np.concatenate([part.repeat(length), part.repeat(horizon)])
        at = None if self.places is None else self.places.at(of)
        known = torch.from_numpy(contract.known_inputs(times, whole, labels, at))
        observed = None
        if model.hides_steps:
            seen = inside[..., None].repeat(len(model.channels), 2)
            if contract.policies.masks_past and (mask := series.observed_of(model.channels)) is not None:
                seen &= mask[rows]
            observed = torch.from_numpy(seen)
        return Context(
            torch.from_numpy(self.values[rows]),
            known[: count * length].unflatten(0, (count, length)),
            contract.encoder.layout(0).future(known[count * length :].unflatten(0, (count, horizon))),
            observed,
        )

    def _known(self, rows: np.ndarray, steps: np.ndarray) -> tuple[pd.DataFrame, dict[str, tuple[str, ...]]]:
        """Return the known covariates of rows, followed by those of steps, and the labels of their numbers."""
        contract, encoder = self.model.contract, self.model.contract.encoder
        names = [*encoder.known, *encoder.past_categories]
        pieces = [self.known.iloc[rows], self.future.iloc[steps]]
        whole = pd.concat([piece.reindex(columns=names) for piece in pieces], ignore_index=True)
        for name, mean in zip(encoder.numbers, encoder.mean, strict=True):
            if name in contract.unread:
                whole[name] = mean
        labels = {}
        for name in encoder.categorical:
            codes, values = pd.factorize(whole[name])
            whole[name], labels[name] = np.where(codes < 0, np.nan, codes.astype(np.float64)), tuple(map(str, values))
        whole[encoder.numbers] = whole[encoder.numbers].astype(np.float64)
        return whole, labels


def _future_known(
    model: TrainedModel,
    series: Series,
    stops: np.ndarray,
    dates: list[pd.DatetimeIndex],
    past: pd.DataFrame,
    beyond_training: bool,
) -> pd.DataFrame:
    """Return the known covariates of the horizons, one row for each series and step, labels as text."""
    ids, contract, columns = ids_of(series), model.contract, model.contract.known
    count, horizon = len(dates), len(dates[0])
    found = pd.DataFrame(index=range(count * horizon), columns=columns, dtype=object)
    if not columns:
        return found
    place = {name: code for code, name in enumerate(ids.names)}
    wanted = contract.clock.comparable(joined(dates))
    key = pd.MultiIndex.from_arrays([np.repeat(np.arange(count), horizon), wanted])
    has_row = np.zeros(len(key), dtype=bool)
    tables = list(series.ahead)
    rows = stops[:, None] + np.arange(horizon)
    own = rows < ids.offsets[1:][:, None]
    if own.any():  # a forecast of the past reads the rows after its origin
        inside = rows[own]
        names = tuple(ids.names[code] for code in ids.of_rows[inside])
        tables.insert(0, Ahead(past[columns].iloc[inside], inside + 2, "the table", ids=names))
    for table in tables:
        own_times = comparable_times(table, wanted, contract.clock)
        codes = np.array([place.get(name, -1) for name in table.ids])
        kept = codes >= 0
        given = table.frame.reindex(columns=columns).astype(object)[kept]
        given.index = pd.MultiIndex.from_arrays([codes[kept], own_times[kept]])
        given = given[~given.index.duplicated()]
        has_row |= key.isin(given.index)
        values = given.reindex(key).reset_index(drop=True)
        new = values.where(found.isna())
        _check_numbers(model, new, dates, table.source, beyond_training)
        found = found.where(found.notna(), values)
    for name in set(columns).intersection(contract.encoder.empty_labels):
        found[name] = found[name].mask(found[name].isna() & has_row, EMPTY)  # an absent row has no label
    empty = found.isna().to_numpy()
    if empty.any():
        raise _missing(ids, columns, found, empty, dates, model.time_column)
    return found.infer_objects()


def _check_numbers(
    model: TrainedModel, known: pd.DataFrame, dates: list[pd.DatetimeIndex], source: str, beyond_training: bool
) -> None:
    """Raise InputError for known numbers far from training."""
    encoder = model.contract.encoder
    names = [name for name in encoder.numbers if name in known]
    places = [encoder.numbers.index(name) for name in names]
    frame = known[names].set_axis(joined(dates)).astype(np.float64)
    mean, scale = ([table[place] for place in places] for table in (encoder.mean, encoder.scale))
    KnownEncoder(names, mean, scale).check_range(frame, source)
    if not beyond_training:
        model.known_range.of(names).refuse_far(frame, source)


def _missing(
    ids: Ids,
    columns: Sequence[str],
    found: pd.DataFrame,
    empty: np.ndarray,
    dates: list[pd.DatetimeIndex],
    time_column: str,
) -> MissingKnown:
    """Return the error on missing known covariates, with a template of the rows that lack some."""
    horizon = len(dates[0])
    rows = np.flatnonzero(empty.any(1))
    times = pd.Series(joined(dates), name=time_column)
    template = pd.concat([ids.frame(np.repeat(np.arange(len(ids)), horizon)), times, found], axis=1).iloc[rows]
    first, column = int(rows[0]), int(np.argmax(empty[rows[0]]))
    series = len(np.unique(rows // horizon))
    named = ", ".join(repr(columns[place]) for place in np.flatnonzero(empty.any(0))[:SHOWN])
    message = (
        f"known covariates of the horizon are missing ({named}): {len(rows):,} rows of {series:,} of {len(ids):,} "
        f"series, the first {columns[column]!r} of {ids.shown(first // horizon)} at {times.iloc[first]}: add them "
        "after the last target value of each series, or as a table of their own"
    )
    return MissingKnown(message, template.set_index(list(ids.columns)))
