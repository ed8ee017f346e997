"""The scaled windows of a panel: many series in one table, each with its own scale."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch

from forecast.common.errors import InputError
from forecast.common.text import counted
from forecast.data.calendar import common_grid, earlier_index, seasonal_period
from forecast.data.contract import DataContract
from forecast.data.datamodule import ForecastData
from forecast.data.holidays import Places
from forecast.data.mapped import in_file
from forecast.data.scaler import LARGEST, SeriesScaler, check_spikes, statistics_by_series
from forecast.data.settings import END, MOST_WINDOWS
from forecast.data.sources import Source
from forecast.data.split import split_rows
from forecast.data.static import MOST_SERIES, Static, fit_static
from forecast.data.storage import Placed
from forecast.data.target_copies import MOST_COMPARED
from forecast.data.training_range import TrainingRange
from forecast.data.windows import Batch, SeriesRows, Windows, causal_starts, check_measured
from forecast.tables.panel import Ids, first_of, rows_between, shown_id
from forecast.tables.series import Rows, Series, only

CHECKED = 2**16
"""Rows whose range is checked at a time."""


class PanelData(ForecastData):
    """The windows of all series of a panel; see `ForecastData`.

    Each series is stored with padding before its first row, which repeats that row. A look-back that begins before its
    series reads the padding, and the model does not see it: `past_observed` is False there.

    Parameters
    ----------
    source
        The panel and its roles.
    split
        Splits of the common grid of times or, with `split_by` "end", of the rows counted from the end of each series.
    least_context
        Fewest rows of a series before the origin of a window.
    drops_short
        Whether a series without a window in training is left out; else it is refused.
    most_windows
        Most windows of validation, and of test: all series at the same origins, as many as this allows.
    static_named
        Whether the user named the static covariates: one that is no input is refused then.
    id_embedding
        Whether the id of a series is an input.
    by_series
        Whether each series is drawn equally often in training, not each window.
    """

    is_one_series = False
    least_context: int

    def __init__(
        self,
        source: Source,
        split: Any,
        *,
        context_length: int,
        horizon: int,
        split_by: str = "date",
        least_context: int = 1,
        drops_short: bool = False,
        most_windows: int = MOST_WINDOWS,
        static_named: bool = False,
        id_embedding: bool = False,
        by_series: bool = False,
        **options: Any,
    ) -> None:
        self.by_series, self.drops_short = by_series, drops_short
        self.least_context, self.most_windows = min(least_context, context_length), most_windows
        self._short_notes: list[str] = []
        self._budget_notes: list[str] = []
        self.strides: dict[str, int] = {}
        self._gathered: dict[tuple[str, ...], np.ndarray] = {}
        series = _aligned(source.series, split_by)
        series = self._without_short(series, split, horizon)
        assert series.ids is not None
        if id_embedding and len(series.ids) > MOST_SERIES:
            raise InputError(
                f"data.id_embedding=true: {len(series.ids):,} series, at most {MOST_SERIES:,}: set it to false"
            )
        encoder, self._static_notes = fit_static(series.ids.static, named=static_named)
        self.static_inputs = Static(encoder, len(series.ids) if id_embedding else 0)
        padding = max(context_length, seasonal_period(series.frequency)) - self.least_context
        padded = _padded(series, padding)
        source = replace(source, series=padded, roles=replace(source.roles, fixed=encoder.known))
        super().__init__(source, split, context_length=context_length, horizon=horizon, **options)

    @property
    def ids(self) -> Ids:
        """The series and their rows, with padding."""
        assert self.source.series.ids is not None
        return self.source.series.ids

    @property
    def series_scaler(self) -> SeriesScaler:
        """The z-scores of each series."""
        assert isinstance(self.scaler, SeriesScaler)
        return self.scaler

    def _without_short(self, series: Series, split: Any, horizon: int) -> Series:
        """Return the panel without series that have no complete window, or no value in training; or refuse them."""
        assert series.ids is not None
        least, total = self.least_context + horizon, len(series.ids) + len(series.ids.empty)
        named = [f"{shown_id(series.ids.columns, name)} (no target value)" for name in series.ids.empty]
        while True:  # the splits of the series that stay may have other dates
            ids = series.ids
            assert ids is not None
            trains = _measured_before(series, split_rows(series.num_steps, **split, unit=series.unit).train.stop)
            short = (ids.lengths < least) | (trains == 0)
            named += [
                f"{ids.shown(int(place))} ({counted(int(ids.lengths[place]), 'row')}, {trains[place]} in training)"
                for place in np.flatnonzero(short)
            ]
            if not short.any() or short.all() or not self.drops_short:
                break
            series = only(series, np.flatnonzero(~short))
        if not named:
            return series
        what = (
            f"{len(named):,} of {total:,} series have fewer than {least} rows (data.least_context + horizon), or no "
            f"measured value of a column in training: {first_of(named)}"
        )
        if not self.drops_short or short.all():
            raise InputError(f"{what}: leave them out with data.short_series=drop, or lower horizon or least_context")
        self._short_notes = [f"{what}: left out (data.short_series=drop)"]
        return series

    def _train_rows(self) -> Rows:
        return rows_between(self.ids.first_rows, self._train_stops())

    def _train_stops(self) -> np.ndarray:
        """Return the row of each series after its last training row, (S,)."""
        return np.asarray(np.minimum(self.ids.rows_of(self.split.train.stop), self.ids.offsets[1:]))

    def _longest_training(self) -> int:
        """Return the series with the most training rows."""
        return int(np.argmax(self._train_stops() - self.ids.first_rows))

    def _compared_rows(self) -> slice:
        place = self._longest_training()
        first, stop = int(self.ids.first_rows[place]), int(self._train_stops()[place])
        return slice(max(first, stop - MOST_COMPARED), stop)

    def _choose_cycles(self, train: Rows) -> tuple[str, ...]:
        assert isinstance(train, np.ndarray)
        place = self._longest_training()
        return super()._choose_cycles(train[self.ids.of_rows[train] == place])

    def _fit_scaler(self, raw: np.ndarray, train: Rows) -> SeriesScaler:
        columns = self.source.columns
        measured, values = self.source.series.observed_of(columns, train), self.training_values(columns)
        check_spikes(values, self.index[train], columns, measured)
        series, ids = self.ids.of_rows, self.ids
        mean, scale = statistics_by_series(values, series[train], len(ids), measured)
        scaler = SeriesScaler(mean, scale, columns, ids.names)
        for first in range(0, len(raw), CHECKED):
            furthest = np.abs(scaler.transform(raw[first : first + CHECKED], series[first : first + CHECKED]))
            if not (furthest <= LARGEST).all():
                row, place = np.argwhere(furthest > LARGEST)[0]
                worst, row = furthest[row, place], row + first
                raise InputError(
                    f"column {columns[place]!r}, {ids.shown(series[row])}, {self.index[row]}: {raw[row, place]:g} is "
                    f"{worst:.0e} standard deviations of its series from its mean: correct it in the file"
                )
        return scaler

    def training_values(self, names: Sequence[str]) -> np.ndarray:
        series, rows = self.source.series, self.train_rows
        if not series.stored or not names:
            return super().training_values(names)
        key = tuple(names)
        if key not in self._gathered:
            assert isinstance(rows, np.ndarray)
            self._gathered[key] = in_file(series.values(names), rows)
        return self._gathered[key]

    def _scaled(self, raw: np.ndarray, piece: slice) -> np.ndarray:
        return self.series_scaler.transform(raw[piece], self.ids.of_rows[piece])

    @cached_property
    def _places_of_series(self) -> Places | None:
        return None if self.source.holidays is None else self.source.holidays.places(self.ids)

    def _places(self, piece: slice) -> Places | None:
        places = self._places_of_series
        return None if places is None else places.at(self.ids.of_rows[piece])

    def stride_of(self, part: str) -> int:
        return self.strides[part if self.split.test or part != "test" else "validation"]

    def original(self, values: np.ndarray, batch: Batch) -> np.ndarray:
        assert batch.series is not None
        return self.series_scaler.inverse(values, batch.series.cpu().numpy())

    def _constant_notes(self) -> list[str]:
        first = np.append(0, np.cumsum(self._train_stops() - self.ids.first_rows))[:-1]
        notes = []
        for name in self.source.targets:
            values = self.training_values([name])[:, 0]
            same = np.fmin.reduceat(values, first) == np.fmax.reduceat(values, first)
            if constant := int(same.sum()):
                notes.append(f"{name!r} is constant in the training rows of {constant:,} series: no MASE")
        return notes

    def _table(self, placed: Placed, context_length: int, horizon: int) -> Windows:
        windows = super()._table(placed, context_length, horizon)
        ids = self.ids
        series, steps, first = (torch.from_numpy(table) for table in (ids.of_rows, ids.steps_of_rows, ids.first_rows))
        static = self.static_inputs.inputs(ids.static, np.arange(len(ids)))
        reads_padding = self.least_context < context_length
        panel = SeriesRows(series, steps, first, reads_padding, None if static is None else torch.from_numpy(static))
        return replace(windows, panel=panel)

    def _cut(self, table: Windows, targets: range, part: str) -> tuple[Windows, int]:
        """Return the windows of a split in order of time, and how many were dropped."""
        ids, horizon, length = self.ids, table.horizon, table.context_length
        first = np.maximum(ids.first_rows + self.least_context, ids.rows_of(targets.start))
        stop = np.minimum(ids.offsets[1:], ids.rows_of(targets.stop)) - horizon + 1
        chosen, counts = _by_step(first, stop, ids.steps + first - ids.offsets[:-1])
        if not len(chosen):
            raise InputError(
                f"horizon {horizon}: no series has {self.least_context} rows and a horizon in the {part} split: lower "
                "horizon or data.least_context, or choose another data.split"
            )
        if part != "train":
            chosen = self._within_budget(chosen, counts, part)
        chosen -= length
        windows, left_out = replace(table, starts=torch.from_numpy(chosen)), 0
        if table.observed is not None:
            if self.source.series.policies.reads_past_gaps:
                kept = causal_starts(windows.starts, length, table.observed, part=part)
                windows, left_out = replace(windows, starts=kept), len(windows) - len(kept)
            windows = replace(windows, starts=windows.starts[windows.with_target])
            check_measured(windows, self.source.targets, part=part)
        return windows, left_out

    def _within_budget(self, chosen: np.ndarray, counts: np.ndarray, part: str) -> np.ndarray:
        """Return the origins on as many dates as `most_windows` allows, the last one included.

        `counts` (steps,) are the numbers of origins on each date.
        """
        dates, counts = np.flatnonzero(counts), counts[counts > 0]
        stride = self.evaluation_stride
        while stride < len(dates) and counts[::-1][::stride].sum() > self.most_windows:
            stride += 1
        self.strides[part] = stride
        kept = np.zeros(len(dates), dtype=bool)
        kept[::-1][::stride] = True
        if stride > self.evaluation_stride:
            self._budget_notes.append(
                f"{part}: {int(kept.sum()):,} of {len(dates):,} origins are scored, for at most {self.most_windows:,} "
                "windows (training.evaluation_windows)"
            )
        return chosen[kept.repeat(counts)]

    @property
    def notes(self) -> tuple[str, ...]:
        """The changes to the input, one line each."""
        return (*self._short_notes, *super().notes, *self._static_notes, *self._budget_notes)

    @property
    def sizes(self) -> dict[str, Any]:
        return {**super().sizes, **self.static_inputs.sizes}

    @property
    def target_scale(self) -> np.ndarray:
        """The standard deviation of each target of each series in training, in its unit, shape (S, C_out)."""
        return self.series_scaler.scale[:, : len(self.source.targets)]

    def training_range(self) -> TrainingRange:
        """Return the limits of the known numbers in the training rows; channels have another range in each series."""
        names = self.encoder.numbers
        observed = self.source.series.observed_of(names, self.train_rows)
        return TrainingRange.fit(self.training_values(names), names, 1, observed)

    def contract(self, *, reads_known: bool = True) -> DataContract:
        """Return what prediction needs of a table."""
        contract = super().contract(reads_known=reads_known)
        return replace(contract, least_context=self.least_context, drops_short=self.drops_short)


def _aligned(series: Series, split_by: str) -> Series:
    """Return the panel with the steps by which it is split: those of the dates, or those up to the end of each."""
    ids = series.ids
    assert ids is not None
    steps = ids.lengths.max() - ids.lengths if split_by == END else ids.steps
    return replace(series, ids=replace(ids, steps=steps))  # a copy, whose rows are freed with it


def _by_step(first: np.ndarray, stop: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows from `first` (S,) to before `stop` (S,) by their step, and the number of rows of each step.

    `steps` (S,) are those of the first rows. The rows of a step are in the order of the series.
    """
    some = first < stop
    first, counts, steps = first[some], (stop - first)[some], steps[some]
    last = steps + counts
    number = np.cumsum(np.bincount(steps, minlength=last.max(initial=0)) - np.bincount(last)[:-1])
    place = np.cumsum(number) - number
    rows = np.empty(int(counts.sum()), dtype=np.int64)
    for row, count, step in zip(first, counts, steps, strict=True):  # a sort would hold the table several times
        own = place[step : step + count]
        rows[own] = np.arange(row, row + count)
        own += 1
    return rows, number


def _measured_before(series: Series, stop: int) -> np.ndarray:
    """Return the number of measured values of each series before a step, (S,), of the column with the fewest."""
    ids = series.ids
    assert ids is not None
    rows = ids.steps_of_rows < stop
    columns = [rows] if series.observed is None else [rows & seen for seen in series.observed.T]
    return np.asarray(np.min([np.bincount(ids.of_rows[seen], minlength=len(ids)) for seen in columns], axis=0))


def _padded(series: Series, padding: int) -> Series:
    """Return the panel with rows before each series that repeat its first row, at earlier times."""
    ids = series.ids
    assert ids is not None
    if not padding:
        return series
    lengths = ids.lengths + padding
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    padded = replace(ids, offsets=offsets, steps=ids.steps - padding, padding=padding)
    whole = np.int32 if offsets[-1] < np.iinfo(np.int32).max else np.int64  # there may be many rows
    ahead = np.repeat(padded.first_rows.astype(whole), lengths)
    ahead -= np.arange(offsets[-1], dtype=whole)  # above 0 in the padding
    source = np.repeat(ids.offsets[:-1].astype(whole), lengths)
    source += (-ahead).clip(min=0)
    times = _earlier(pd.DatetimeIndex(series.frame.index), series.frequency, source, ahead)
    values = series.values(list(series.frame.columns))
    values = in_file(values, source) if series.stored else np.asfortranarray(values[source])
    frame = pd.DataFrame(values, index=times, columns=series.frame.columns, copy=False)
    observed = None if series.observed is None else series.observed[source] & (ahead <= 0)[:, None]
    return replace(series, frame=frame, observed=observed, ids=padded)


def _earlier(times: pd.DatetimeIndex, frequency: str, source: np.ndarray, ahead: np.ndarray) -> pd.DatetimeIndex:
    """Return the times of rows, or `ahead` steps before them where that is above 0."""
    moved = times[source]
    before = ahead > 0
    if not before.any():
        return moved
    grid = common_grid(times, frequency)
    first = int(ahead.max())
    whole = earlier_index(grid, frequency, first).append(grid)
    places = grid.get_indexer(moved) + first - ahead.clip(min=0)
    return pd.DatetimeIndex(whole[places], name=times.name)
