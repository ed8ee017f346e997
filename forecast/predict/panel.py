"""Forecasts of many series: a trained model of a panel, and the steps after each series of a long table."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.common.finite import check_forecast
from forecast.data.calendar import earlier_index, future_index, seasonal_period
from forecast.data.known import KnownEncoder
from forecast.data.scaler import SeriesScaler
from forecast.evaluation.intervals import middle
from forecast.evaluation.limits import Limits
from forecast.model.informer import Informer
from forecast.model.normalization import window_spread
from forecast.predict.contexts import TrainedModel
from forecast.predict.facts import calibration_of_run
from forecast.predict.forecast import Question
from forecast.predict.input import MissingColumns, without_training_options
from forecast.predict.known import SHOWN, MissingKnown
from forecast.runs.run import MANIFEST, Run
from forecast.tables.files import read_table, tidy_names
from forecast.tables.frequency import grid_places, whole_grid
from forecast.tables.labels import EMPTY, decode_labels
from forecast.tables.panel import NAMED, Id, Ids, shown_id
from forecast.tables.reading import Reading
from forecast.tables.series import Ahead, Series, only, read_known, series_from_frame

BATCH = 256
"""Series that are forecast together."""


@dataclass(frozen=True)
class PanelForecast:
    """The steps after each of S series, in original units.

    Attributes
    ----------
    ids
        The series.
    dates
        Shape (S, h): the time of each step.
    values
        Shape (S, h, C): the point forecast, or the quantile that was asked for.
    ends
        Lower and upper ends of each interval, each (S, h, C), by its level in per cent.
    naive
        Shape (S, h, C): the seasonal naive forecast.
    targets, time_column
        Names of the columns.
    """

    ids: Ids
    dates: list[pd.DatetimeIndex]
    values: np.ndarray
    naive: np.ndarray
    targets: list[str]
    time_column: str
    ends: dict[float, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def table(self, decimals: dict[str, int], *, naive: bool = True) -> pd.DataFrame:
        """Return a row for each series and step: its id, its time, the targets, the interval ends of each target."""
        count, horizon, _ = self.values.shape
        columns: dict[str, np.ndarray] = {}
        for place, name in enumerate(self.targets):
            columns[name] = self.values[..., place]
        for place, name in enumerate(self.targets):
            for level, (lower, upper) in self.ends.items():
                columns[f"{name}_lower_{level:g}"] = lower[..., place]
                columns[f"{name}_upper_{level:g}"] = upper[..., place]
            if naive:
                columns[f"{name}_naive"] = self.naive[..., place]
        taken = {*self.ids.columns, self.time_column, *self.targets}
        if clash := [name for name in columns if name in taken and name not in self.targets]:
            raise InputError(
                f"{clash[0]!r} is the name of a column of the data and of the forecast: rename the column and train "
                "again"
            )
        frame = pd.DataFrame({name: values.ravel() for name, values in columns.items()})
        frame = frame.round(
            {name: decimals[target] for target in decimals for name in frame if _is_of(str(name), target)}
        )
        ids = self.ids.frame(np.repeat(np.arange(count), horizon))
        times = joined(self.dates)
        return pd.concat([ids, pd.Series(times, name=self.time_column), frame], axis=1)


def _is_of(name: str, target: str) -> bool:
    return name == target or name.startswith((f"{target}_lower_", f"{target}_upper_", f"{target}_naive"))


def is_of_panel(run: Path) -> bool:
    """Return whether a run folder has a model of many series."""
    manifest = Run(run).manifest()
    data = manifest.get("data")
    return isinstance(data, dict) and bool(data.get("id_columns"))


class PanelForecaster(TrainedModel):
    """Trained model of many series that forecasts long tables in original units; `forecast.load` returns one."""

    model: Informer

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "PanelForecaster":
        """Load the finished run of a panel at `path`."""
        run = Run.open(path)
        network = run.load_model()
        loaded = cls.of_manifest(
            run.manifest(), lambda _: network, run.path / MANIFEST, lambda sizes: calibration_of_run(run.path, sizes)
        )
        assert isinstance(loaded, PanelForecaster)
        return loaded

    @property
    def scales(self) -> SeriesScaler:
        """The z-scores of each series of training."""
        assert isinstance(self.contract.scaler, SeriesScaler)
        return self.contract.scaler

    @property
    def decimals(self) -> dict[str, int]:
        """Decimals of the forecast of each target."""
        return self.scales.decimals(self.targets)

    @property
    def least_context(self) -> int:
        """Fewest rows of a series."""
        return self.contract.least_context or self.context_length

    def read(
        self,
        path: str | os.PathLike[str],
        known: Sequence[str | os.PathLike[str]] = (),
        ids: Sequence[str] = (),
    ) -> Series:
        """Read a long table, checked and repaired as in training; raise InputError if it does not fit.

        `known` are more tables with known covariates of the horizon: the first with a value counts, the input last.
        `ids` are the series to keep; empty: all.
        """
        series = self._checked(read_table(Path(path)), str(path), ids)
        for other in reversed(known):
            series = self._with_known(series, read_table(Path(other)), str(other))
        return series

    def predict(
        self,
        frame: pd.DataFrame,
        known: pd.DataFrame | None = None,
        *,
        levels: Sequence[float] = (),
        quantile: float | None = None,
        ids: Sequence[str] = (),
        beyond_training: bool = False,
    ) -> pd.DataFrame:
        """Forecast the steps after the last row of each series of `frame`.

        Parameters
        ----------
        frame
            Long table in original units, with the columns of training; a series needs `least_context` rows. Known
            covariates of the horizon are read from the rows after the last target value of each series.
        known
            Long table with the known covariates of the horizon, if `frame` does not have them.
        levels, quantile, beyond_training
            As for `Forecaster.predict`.
        ids
            The series to forecast, as text; of several id columns, their labels joined by commas. Empty: all.

        Returns
        -------
        pandas.DataFrame
            A row for each series and step: the id columns, the time, the targets, and the ends of intervals.

        Raises
        ------
        InputError
            If columns or frequency differ from training, values are invalid, or a series was not in training.
        MissingKnown
            If known covariates of the horizon are missing. Its `template` is a table to fill in, for `known`.
        """
        question = Question(tuple(levels), quantile, False, beyond_training)
        series = self._checked(frame, "the frame", ids)
        if known is not None:
            series = self._with_known(series, known, "the known table")
        return self.answer(series, question).table(self.decimals, naive=False)

    def _checked(self, frame: pd.DataFrame, source: str, ids: Sequence[str]) -> Series:
        """Return the panel of a frame, checked and repaired as in training, with the series that are asked for."""
        contract = self.contract
        frame, notes = tidy_names(frame, source)
        present = list(frame.columns)
        wanted = [*contract.roles.ids, *contract.columns]
        if missing := [name for name in wanted if name not in present]:
            raise MissingColumns(
                f"{source} has no column {missing[0]!r}, which the model was trained on, only "
                f"{', '.join(present[:12])}: use the columns of training"
            )
        column = contract.time_column if contract.time_column in present else None
        reading = replace(
            contract.reading,
            time_column=column,
            time_format=contract.reading.time_format.fitting(frame, column),
            empty_labels=[name for name in contract.encoder.empty_labels if name not in contract.unread],
        )
        with without_training_options():
            series = series_from_frame(frame, contract.roles_to_read, reading, source, keeps_ids=True)
        contract.clock.check(pd.DatetimeIndex(series.frame.index), source)
        series = self._of_training(series, source, ids)
        contract.encoder.check_range(series.frame, source)
        past = decode_labels(series.frame[contract.encoder.categorical], series.labels)
        return replace(series, notes=(*notes, *series.notes, *contract.encoder.unknown_notes(past)))

    def _of_training(self, series: Series, source: str, ids: Sequence[str]) -> Series:
        """Return the panel with the series that are asked for; refuse those that training did not have."""
        own = series.ids
        assert own is not None
        if ids:
            joined = {",".join(name): place for place, name in enumerate(own.names)}
            if absent := [name for name in ids if name not in joined]:
                listed = ", ".join(list(joined)[:NAMED])
                raise InputError(f"--ids {absent[0]}: {source} has no such series, only {listed} …: correct the id")
            series = only(series, np.array(sorted({joined[name] for name in ids})))
            assert series.ids is not None
            own = series.ids
        elif own.empty:
            raise InputError(
                f"{source}, {shown_id(own.columns, own.empty[0])}: no target has a value ({len(own.empty):,} such "
                "series): add values, or name the others with --ids"
            )
        trained = set(self.scales.names)
        if unknown := [name for name in own.names if name not in trained]:
            named = "; ".join(shown_id(own.columns, name) for name in unknown[:NAMED])
            more = " …" if len(unknown) > NAMED else ""
            raise InputError(
                f"{source}: {len(unknown):,} of {len(own):,} series were not in training: {named}{more}: train again "
                "with them, or name the others with --ids"
            )
        if (short := own.lengths < self.least_context).any():
            place = int(np.argmax(short))
            raise InputError(
                f"{source}, {own.shown(place)}: it has {own.lengths[place]} rows, and {int(short.sum()):,} series have "
                f"fewer than {self.least_context}: give at least {self.least_context} rows of each, or name the "
                "others with --ids"
            )
        return series

    def _with_known(self, series: Series, table: pd.DataFrame, source: str) -> Series:
        """Return the panel with a table of known covariates, whose values count first."""
        contract = self.contract
        table, notes = tidy_names(table, source)
        if not contract.known:
            note = f"{source}: not read: the forecast depends on no known covariates"
            return replace(series, notes=(*series.notes, note))
        if missing := [name for name in contract.roles.ids if name not in table.columns]:
            raise MissingColumns(f"{source} has no column {missing[0]!r}, which identifies the series: add it")
        column = self.time_column if self.time_column in table.columns else None
        reading = Reading(column, contract.reading.time_format.fitting(table, column), policies=contract.policies)
        with without_training_options():
            ahead = read_known(table, contract.roles_to_read, reading, source)
        return replace(series, ahead=(replace(ahead, notes=(*notes, *ahead.notes)), *series.ahead))

    @torch.inference_mode()
    def answer(self, series: Series, question: Question) -> PanelForecast:
        """Return the forecast of the steps after each series of a checked panel."""
        ids = series.ids
        assert ids is not None
        self.check_question(question)
        return self.forecast_from(series, ids.offsets[1:], question)

    @torch.inference_mode()
    def forecast_from(self, series: Series, stops: np.ndarray, question: Question) -> PanelForecast:
        """Return the forecast of the steps from the rows `stops` (S,) on, one of each series."""
        ids = series.ids
        assert ids is not None
        inputs = PanelInputs.of(self, series, stops, beyond_training=question.beyond_training)
        codes = np.array([self._code[name] for name in ids.names])
        mean, scale = (torch.from_numpy(table[codes]) for table in (self.scales.mean, self.scales.scale))
        found = [
            self._quantiles(inputs.at(part.numpy()), torch.from_numpy(codes)[part], mean[part], scale[part], question)
            for part in torch.arange(len(ids)).split(BATCH)
        ]
        count = len(self.targets)
        values = torch.cat(found).double() * scale[:, None, :count, None] + mean[:, None, :count, None]
        dates = list(inputs.dates)
        for place in range(values.shape[-1]):
            flat = values[..., place].flatten(0, 1).numpy()
            check_forecast(flat, joined(dates), self.targets)
        limited = values.numpy()
        ends = {
            level: (limited[..., 1 + 2 * place], limited[..., 2 + 2 * place])
            for place, level in enumerate(question.levels)
        }
        point = limited[..., 0] if question.quantile is None else limited[..., -1]
        naive = seasonal_naive(series, stops, self.targets, seasonal_period(self.frequency), self.horizon)
        return PanelForecast(ids, dates, point, naive, self.targets, self.time_column, ends)

    def place_of(self, name: Id) -> int:
        """Return the place of a series in training."""
        return self._code[name]

    @cached_property
    def _code(self) -> dict[Id, int]:
        return {name: place for place, name in enumerate(self.scales.names)}

    def _quantiles(self, inputs: "Inputs", codes: Tensor, mean: Tensor, scale: Tensor, question: Question) -> Tensor:
        """Return the point forecast and the quantiles of a question for some series, z-scores, (B, h, C, 1 + Q)."""
        count = len(self.targets)
        past, observed = ((inputs.past - mean[:, None]) / scale[:, None]).float(), inputs.past_observed
        network = self.model
        forward = network.forward_quantiles if network.levels else network
        output = forward(past, inputs.past_known, inputs.future_known, observed)
        seen = None if observed is None else observed[..., :count]
        limits = self._scaled_limits.at(past[..., :count], seen, self.horizon, codes, inputs.future_known)
        output = limits.clip(output)
        point = middle(output)
        if question.is_plain:
            return point[..., None]
        spread = window_spread(past[..., :count], seen)
        quantiles = self.forms.plain.each_quantile(output, spread, question.quantiles)
        near = limits.near(point, spread)
        ended = [near.end(*pair) for pair in zip(quantiles, question.quantiles, strict=True)]
        return torch.stack([point, *ended], -1)

    @property
    def _scaled_limits(self) -> Limits:
        assert self.facts is not None
        count = len(self.targets)
        return self.facts.limits.scaled(self.scales.mean[:, :count], self.scales.scale[:, :count])


class Inputs(NamedTuple):
    """Model inputs of some forecasts: `past` (B, T, C_in) in original units, float64, and the rest as in `Context`."""

    past: Tensor
    past_known: Tensor
    future_known: Tensor
    past_observed: Tensor | None


@dataclass(frozen=True)
class PanelInputs:
    """The inputs of S forecasts that begin at the rows `stops` (S,) of a panel, one in each series.

    `last` (S,) is the place among all `times` of the row before each forecast, and `dates` are the times of its h
    steps, as the user writes them. `values` (N, C_in) are the channels of each row and `known` its known covariates,
    and `future` (S h) has those of each step.
    """

    model: PanelForecaster
    series: Series
    stops: np.ndarray
    times: pd.DatetimeIndex
    last: np.ndarray
    dates: list[pd.DatetimeIndex]
    values: np.ndarray
    known: pd.DataFrame
    future: pd.DataFrame

    @classmethod
    def of(cls, model: PanelForecaster, series: Series, stops: np.ndarray, *, beyond_training: bool) -> "PanelInputs":
        """Return the inputs; raise MissingKnown if a known covariate of a horizon is missing."""
        horizon, encoder = model.horizon, model.contract.encoder
        grid, times = _whole_grid(series, model.frequency, model.context_length, horizon)
        last = grid.get_indexer(pd.DatetimeIndex(series.frame.index)[stops - 1]) + model.context_length
        dates = [times[place + 1 : place + 1 + horizon] for place in last]
        names = [name for name in (*encoder.known, *encoder.past_categories) if name in series.frame]
        known = decode_labels(series.frame[names], series.labels)
        future = _future_known(model, series, stops, dates, known, beyond_training)
        values = series.frame[model.channels].to_numpy(np.float64)
        return cls(model, series, stops, times, last, dates, values, known, future)

    def at(self, part: np.ndarray) -> Inputs:
        """Return the inputs of the forecasts at places (B,).

        The steps before the first row of a series repeat that row and are not observed.
        """
        model, series, contract = self.model, self.series, self.model.contract
        assert series.ids is not None
        length, horizon, count = model.context_length, model.horizon, len(part)
        rows = self.stops[part, None] + np.arange(-length, 0)
        first = series.ids.offsets[:-1][part, None]
        inside, rows = rows >= first, np.maximum(rows, first)
        steps = (part[:, None] * horizon + np.arange(horizon)).ravel()
        places = self.last[part, None] + np.arange(1 - length, horizon + 1)
        index = self.times[np.concatenate([places[:, :length].ravel(), places[:, length:].ravel()])]
        whole, labels = self._known(rows.ravel(), steps)
        times = pd.DatetimeIndex(contract.clock.to_training_clock(pd.DatetimeIndex(index)))
        known = torch.from_numpy(contract.known_inputs(times, whole, labels))
        observed = None
        if contract.policies.masks_past or model.least_context < length:
            seen = inside[..., None].repeat(len(model.channels), 2)
            if contract.policies.masks_past and (mask := series.observed_of(model.channels)) is not None:
                seen &= mask[rows]
            observed = torch.from_numpy(seen)
        return Inputs(
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


def _whole_grid(series: Series, frequency: str, length: int, horizon: int) -> tuple[pd.DatetimeIndex, pd.DatetimeIndex]:
    """Return the common grid of a panel's times, and the same with a look-back before it and a horizon after it."""
    index = pd.DatetimeIndex(series.frame.index)
    present = pd.DatetimeIndex(index.unique().sort_values())
    grid = whole_grid(present, grid_places(present, frequency, np.arange(len(present)), ""), frequency)
    whole = earlier_index(grid, frequency, length).append(grid).append(future_index(grid, frequency, horizon))
    return grid, pd.DatetimeIndex(whole)


def _future_known(
    model: PanelForecaster,
    series: Series,
    stops: np.ndarray,
    dates: list[pd.DatetimeIndex],
    past: pd.DataFrame,
    beyond_training: bool,
) -> pd.DataFrame:
    """Return the known covariates of the horizons, one row for each series and step, labels as text."""
    ids, contract, columns = series.ids, model.contract, model.contract.known
    assert ids is not None
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
        index = pd.DatetimeIndex(table.frame.index)
        contract.clock.check(index, table.source)
        own_times = contract.clock.comparable(index)
        if (own_times.tz is None) != (wanted.tz is None):
            raise InputError(
                f"{table.source}: only its times, or only those of the input, have a time zone: write both alike"
            )
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
    model: PanelForecaster, known: pd.DataFrame, dates: list[pd.DatetimeIndex], source: str, beyond_training: bool
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


def joined(dates: Sequence[pd.DatetimeIndex]) -> pd.DatetimeIndex:
    """Return the times of all series, one series after the other."""
    return pd.DatetimeIndex(dates[0].append(list(dates[1:])))


def seasonal_naive(series: Series, stops: np.ndarray, targets: list[str], period: int, horizon: int) -> np.ndarray:
    """Return the seasonal naive forecast from the rows `stops` (S,) on, (S, h, C): the newest value at the same phase.

    It is the last value where a series is shorter than a season.
    """
    ids = series.ids
    assert ids is not None
    values = series.frame[targets].to_numpy(np.float64)
    step = np.arange(horizon)
    rows = stops[:, None] + step % period - period
    rows = np.where(rows < ids.offsets[:-1][:, None], stops[:, None] - 1, rows)
    return values[rows]
