"""Forecasts of many series: a trained model of a panel, and the steps after each series of a long table."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.common.finite import check_forecast
from forecast.data.calendar import seasonal_period
from forecast.data.scaler import SeriesScaler
from forecast.evaluation.adaptive import stretched
from forecast.evaluation.intervals import middle
from forecast.evaluation.limits import WindowLimits
from forecast.model.normalization import window_spread
from forecast.model.original_units import Context, ZScores
from forecast.predict.answer import seasonal_naive
from forecast.predict.chosen import TooShort, Wanted, chosen, named_ids, without
from forecast.predict.contexts import TrainedModel, is_of_panel
from forecast.predict.explanation import Explained, mean_explained
from forecast.predict.forecast import PanelForecast, Question, joined, mean_of_panels
from forecast.predict.history import History, Origins, around, read_history
from forecast.predict.input import (
    MissingColumns,
    check_columns,
    ids_of,
    read_as_trained,
    reading_as_trained,
    with_known,
    without_training_options,
)
from forecast.predict.known import series_with_unread
from forecast.predict.panel_errors import recent_sizes
from forecast.predict.panel_inputs import PanelInputs, Units
from forecast.predict.rolling import Block, Rolling
from forecast.predict.scores import panel_scores
from forecast.runs.run import Run
from forecast.tables.files import tidy_names
from forecast.tables.formats.frames import as_frame
from forecast.tables.labels import decode_labels
from forecast.tables.panel import Id, Ids, first_of, shown_id
from forecast.tables.series import Series, series_from_frame
from forecast.tables.transposed import upright

BATCH = 256
"""Series that are forecast together."""


@dataclass(frozen=True, repr=False)
class PanelForecaster(TrainedModel):
    """Trained model of many series that forecasts long tables in original units; `forecast.load` returns one.

    Attributes
    ----------
    others
        Models of other runs on the same data: the forecast is the mean of all.
    """

    others: "tuple[PanelForecaster, ...]" = field(default=(), repr=False)

    @classmethod
    def load(cls, path: str | os.PathLike[str], attention: str | None = None) -> "PanelForecaster":
        """Load the finished run of a panel at `path`; `attention` as for `Forecaster.load`."""
        run = Run.open(path)
        if not is_of_panel(run.path):
            raise InputError(
                f"{run.path}: a model of one series, which a model of a long table cannot be averaged with"
            )
        return cls.of_run(run, attention, lambda network, _: ZScores(network).eval())

    @property
    def members(self) -> "tuple[PanelForecaster, ...]":
        """All models whose forecasts are averaged, this one first."""
        return (self, *self.others)

    def check_question(self, question: Question) -> None:
        for member in self.members:
            TrainedModel.check_question(member, question)

    @property
    def scales(self) -> SeriesScaler:
        """The z-scores of each series of training."""
        assert isinstance(self.contract.scaler, SeriesScaler)
        return self.contract.scaler

    def read(
        self,
        path: str | os.PathLike[str],
        known: Sequence[str | os.PathLike[str]] = (),
        ids: Wanted = (),
    ) -> Series:
        """Read a long table, checked and repaired as in training; raise InputError if it does not fit.

        `known` are more tables with known covariates of the horizon: the first with a value counts, the input last.
        `ids` are the series to keep; empty: all that the contract keeps.
        """
        series = self.checked(read_as_trained(self.contract, path), str(path), ids)
        for other in reversed(known):
            series = self._with_known(series, read_as_trained(self.contract, other), str(other))
        return series

    def predict(
        self,
        frame: pd.DataFrame,
        known: pd.DataFrame | None = None,
        *,
        levels: Sequence[float] = (),
        quantile: float | None = None,
        adaptive: bool = False,
        ids: Wanted = (),
        beyond_training: bool = False,
    ) -> pd.DataFrame:
        """Forecast the steps after the last row of each series of `frame`.

        Parameters
        ----------
        frame
            Long table in original units, with the columns of training; a series needs `least_context` rows. Known
            covariates of the horizon are read from the rows after the last target value of each series. A series that
            is too short is refused, or left out with a warning after `data.short_series=drop`.
        known
            Long table with the known covariates of the horizon, if `frame` does not have them.
        levels, quantile, beyond_training
            As for `Forecaster.predict`.
        adaptive
            Let intervals follow the errors of the latest forecasts of each series, computed within `frame`. A series
            without enough rows after training is refused, or left out after `data.short_series=drop`.
        ids
            The series to forecast: one id or several, as text or numbers; of several id columns tuples, or text with
            the labels joined by commas. Empty: all.

        Returns
        -------
        pandas.DataFrame
            A row for each series and step: the id columns, the time, the targets, and the ends of intervals.

        Raises
        ------
        InputError
            If columns or frequency differ from training, or values are invalid.
        UserWarning
            A warning, not an error: if a series is left out, or training did not have it, or one of its labels.
        MissingKnown
            If known covariates of the horizon are missing. Its `template` is a table to fill in, for `known`.
        """
        question = Question(tuple(levels), quantile, adaptive, beyond_training)
        every = self._series(frame, known, ids)
        series, found = self.answered(every, question, ids)
        for note in (*series.notes[len(every.notes) :], *self._news(series)):
            warnings.warn(note, UserWarning, stacklevel=2)
        return found.table(self.decimals, naive=False, whole=self.whole)

    def score(self, frame: Any, known: Any = None, *, ids: Wanted = ()) -> pd.DataFrame:
        """Return the errors of the forecasts of each series of `frame`, on horizons that do not overlap.

        Parameters
        ----------
        frame
            Long table as for `predict`, with the targets of the horizons that are forecast. The horizons are counted
            back from the end of each series, as long as `least_context` rows precede them.
        known, ids
            As for `predict`.

        Returns
        -------
        pandas.DataFrame
            A row for the model and the seasonal naive forecast, as `Forecaster.score` returns it. The z-scores are
            those of each series.

        Raises
        ------
        InputError
            If `frame` does not fit the model, or has too few rows.
        """
        count = len(self.targets)
        series = self._series(frame, known, ids)
        scale = self.units_of(series, ids_of(series).offsets[1:]).scale.numpy()
        return panel_scores(self, series, self.forecast_from, scale[:, None, :count])

    def plot(
        self,
        frame: Any,
        known: Any = None,
        *,
        levels: Sequence[float] = (80,),
        ids: Wanted = (),
        axes: Any = None,
    ) -> Any:
        """Draw the forecast of the first target after each series of `frame`, at most nine of them.

        Parameters
        ----------
        frame, known, levels, ids
            As for `predict`.
        axes
            Axes of matplotlib, one for each series; None: those of a new figure.

        Returns
        -------
        matplotlib.axes.Axes or array of them
            The axes, one for each series that is drawn.
        """
        from forecast.predict.plot import plot_panel  # here, since it imports what draws

        series = self._series(frame, known, ids)
        return plot_panel(self.answer(series, Question(tuple(levels))), series, self.targets[0], axes)

    def _series(self, frame: Any, known: Any, ids: Wanted) -> Series:
        """Return the checked panel of a table, with a table of known covariates; warn of series that are left out."""
        series = self.checked(as_frame(frame), "the frame", ids)
        for line in ids_of(series).left_out:
            warnings.warn(line, UserWarning, stacklevel=3)
        return series if known is None else self._with_known(series, as_frame(known, "known"), "the known table")

    def backtest(
        self,
        frame: pd.DataFrame,
        start: str | pd.Timestamp,
        end: str | pd.Timestamp | None = None,
        step: str | int | None = None,
        *,
        levels: Sequence[float] = (),
    ) -> pd.DataFrame:
        """Forecast each series from every origin of a stretch of `frame`; see `Forecaster.backtest`.

        The column series has the id, several labels joined by a comma, and the column target the name of the target. A
        series without `least_context` rows before an origin, or without a value after it, is left out there. One that
        training did not have is scaled by its rows before the origin.
        """
        rolling = self.rolling(frame, Origins(start, end, step), Question(tuple(levels)))
        if (line := rolling.history.series_left_out) is not None:
            warnings.warn(line, UserWarning, stacklevel=2)
        return rolling.table()

    def explain(
        self, frame: pd.DataFrame, ids: Wanted, known: pd.DataFrame | None = None, target: str | None = None
    ) -> pd.DataFrame:
        """Return the contributions to the forecast of one series, `ids`, as `Forecaster.explain` does."""
        return self.explained(self._series(frame, known, ids)).table(target)

    def explained(self, series: Series) -> Explained:
        """Return the point forecast of the only series of a checked panel, to be explained."""
        ids = ids_of(series)
        if len(ids) != 1:
            raise InputError(f"--ids: {len(ids):,} series: the forecast of one is explained: name one with --ids")
        return mean_explained([member._explained(series, ids.offsets[1:]) for member in self.members])

    def _explained(self, series: Series, stops: np.ndarray) -> Explained:
        """Return the point forecasts of a panel from the rows `stops` (S,), to be explained."""
        inputs = PanelInputs.of(self, series, stops, beyond_training=True)
        units, places, count = self.units_of(series, stops), torch.arange(len(stops)), len(self.targets)

        def forward(windows: Context) -> Tensor:
            every = units.at(places.repeat(len(windows.past) // len(places)))
            found = self._quantiles(windows, every, Question())[..., 0]
            return found.double() * every.scale[:, None, :count] + every.mean[:, None, :count]

        return Explained(self.contract, inputs.at(np.arange(len(stops))), inputs.dates[0], forward)

    def rolling(self, frame: pd.DataFrame, origins: Origins, question: Question, source: str = "the frame") -> Rolling:
        """Return the forecasts of `backtest`, which are computed on demand."""
        self.check_question(question)
        history = read_history(self, self.unlimited.checked, frame, origins, source)

        def explained(place: int) -> tuple[Sequence[Id], Explained]:
            series, stops = around(history, place, history.ready(place))
            return ids_of(series).names, self._explained(series, stops)

        def blocks(places: Sequence[int]) -> list[Block]:
            return [self._block(history, place, question) for place in places]

        return Rolling(history, blocks, None if self.others else explained)

    def _block(self, history: History, place: int, question: Question) -> Block:
        """Return the forecasts from a place of the grid, of the series that have enough rows before it."""
        series, stops = around(history, place, history.ready(place))
        found = self.forecast_from(series, stops, question)
        names = found.ids.names
        return Block(
            origins=history.whole.grid[[place] * len(names)],
            names=names,
            dates=found.dates,
            values=found.values,
            naive=found.naive,
            truth=history.truth(place, names),
            ends=found.ends,
        )

    @property
    def dropping_short(self) -> "PanelForecaster":
        """The same model, which leaves out series that are too short."""
        return replace(self, contract=replace(self.contract, drops_short=True))

    def checked(self, frame: pd.DataFrame, source: str, ids: Wanted = ()) -> Series:
        """Return the panel of a frame, checked and repaired as in training, with the series that `read` keeps."""
        contract = self.contract
        frame, notes = tidy_names(frame, source)
        frame = upright(
            frame, source, contract.reading.time_format.date_format, contract.roles.ids, is_panel=True
        ).frame
        check_columns(contract, frame, source)
        column = contract.time_column if contract.time_column in frame.columns else None
        reading = reading_as_trained(contract, frame, column)
        with without_training_options():
            series = series_from_frame(frame, contract.roles_to_read, reading, source, keeps_ids=True)
        series = series_with_unread(series, contract.encoder, contract.unread)
        contract.clock.check(pd.DatetimeIndex(series.frame.index), source)
        series = chosen(series, source, ids, self.least_context, drops_short=contract.drops_short)
        contract.encoder.check_range(series.frame, source)
        if contract.holidays is not None:
            contract.holidays.places(series.ids, source)
        past = decode_labels(series.frame[contract.encoder.categorical], series.labels)
        return replace(
            series, notes=(*notes, *series.notes, *contract.encoder.unknown_notes(past), *self._news(series))
        )

    def new_ids(self, ids: Ids) -> list[Id]:
        """Return the series that training did not have."""
        return [name for name in ids.names if name not in self._code]

    def _news(self, series: Series) -> list[str]:
        """Return notes on new series, and on static covariates that are missing or new."""
        ids, static = ids_of(series), self.contract.static
        notes = static.encoder.unknown_notes(ids.static)
        if missing := [name for name in static.columns if name not in ids.static or ids.static[name].isna().any()]:
            notes.append(f"static covariates without a value for all series, unknown there: {', '.join(missing)}")
        if new := self.new_ids(ids):
            named = first_of([shown_id(ids.columns, name) for name in new])
            count, own = f"{len(new):,} of {len(ids):,} series", ", with an unknown id" if static.num_ids else ""
            notes.append(f"{count} were not in training: {named}: scaled by their own rows{own}")
        return notes

    def _with_known(self, series: Series, table: pd.DataFrame, source: str) -> Series:
        """Return the panel with a table of known covariates, whose values count first."""
        table, notes = tidy_names(table, source)
        if not self.contract.known:
            note = f"{source}: not read: the forecast depends on no known covariates"
            return replace(series, notes=(*series.notes, note))
        if missing := [name for name in self.contract.roles.ids if name not in table.columns]:
            raise MissingColumns(f"{source} has no column {missing[0]!r}, which identifies the series: add it")
        return with_known(self.contract, series, table, notes, source)

    def answer(self, series: Series, question: Question, *, batch: int | None = None) -> PanelForecast:
        """Return the forecast of the steps after each series of a checked panel."""
        self.check_question(question)
        return self.forecast_from(series, ids_of(series).offsets[1:], question, batch=batch)

    def answered(self, series: Series, question: Question, ids: Wanted = ()) -> tuple[Series, PanelForecast]:
        """Return a checked panel and its forecast, both without series that are too short for the question.

        They are refused if `ids` name them, or if the contract leaves out no series.
        """
        while True:  # the models of an ensemble may need other rows
            try:
                return series, self.answer(series, question)
            except TooShort as error:
                if not self.contract.drops_short or error.few.all() or named_ids(ids):
                    raise
                series = without(series, error.few, error.cause)

    @torch.inference_mode()
    def forecast_from(
        self, series: Series, stops: np.ndarray, question: Question, *, batch: int | None = None
    ) -> PanelForecast:
        """Return the forecast of the steps from the rows `stops` (S,) on, one of each series.

        All batches have the size `batch`, the last one filled up; None: the last one is smaller, and the last digits of
        its forecasts may differ.
        """
        if self.others:
            members = (replace(self, others=()), *self.others)
            return mean_of_panels([model.forecast_from(series, stops, question, batch=batch) for model in members])
        ids = ids_of(series)
        inputs = PanelInputs.of(self, series, stops, beyond_training=question.beyond_training)
        units = self.units_of(series, stops)
        if question.adaptive:
            units = units._replace(recent=recent_sizes(self, self.residuals_from, series, stops))
        size = len(ids) if batch is None else -(-len(ids) // batch) * batch
        places = torch.arange(size).clamp(max=len(ids) - 1).split(batch or BATCH)
        found = [self._quantiles(inputs.at(part.numpy()), units.at(part), question) for part in places]
        count = len(self.targets)
        values = torch.cat(found)[: len(ids)].double() * units.scale[:, None, :count, None]
        values = values + units.mean[:, None, :count, None]
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

    def windows_at(self, series: Series, stops: np.ndarray) -> Context:
        """Return the inputs of the network for the forecasts from the rows `stops` (S,) on, one of each series."""
        inputs = PanelInputs.of(self, series, stops, beyond_training=True)
        return self._scaled(inputs.at(np.arange(len(stops))), self.units_of(series, stops))

    @torch.inference_mode()
    def residuals_from(self, series: Series, stops: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return the truth minus the point forecast from the rows `stops` (S,) on, (S, h, C), and the spread (S, 1, C).

        Both are z-scores. A residual is NaN where the truth was not measured.
        """
        inputs, units = PanelInputs.of(self, series, stops, beyond_training=True), self.units_of(series, stops)
        rows = stops[:, None] + np.arange(self.horizon)
        truth = torch.from_numpy(series.measured[self.targets].to_numpy(np.float64)[rows])
        residuals, spreads = [], []
        for part in torch.arange(len(stops)).split(BATCH):
            own = units.at(part)
            output, spread, _ = self._output(inputs.at(part.numpy()), own)
            mean, scale = (each[:, None, : len(self.targets)] for each in (own.mean, own.scale))
            residuals.append(((truth[part] - mean) / scale).float() - middle(output))
            spreads.append(spread)
        return torch.cat(residuals), torch.cat(spreads)

    def units_of(self, series: Series, stops: np.ndarray) -> Units:
        """Return the units of the series of a panel: of training, or of the rows before `stops` (S,) for a new one."""
        ids = ids_of(series)
        codes = np.array([self._code.get(name, -1) for name in ids.names])
        mean, scale, new = self.scales.mean[codes], self.scales.scale[codes], codes < 0
        if new.any():
            of = ids.of_rows
            rows = np.flatnonzero(new[of] & (np.arange(len(of)) < stops[of]))
            values = series.frame[self.channels].to_numpy(np.float64)[rows]
            places, observed = (np.cumsum(new) - 1)[of[rows]], series.observed_of(self.channels, rows)
            mean[new], scale[new] = self.scales.of_new(values, places, int(new.sum()), observed)
        static = self.contract.static.inputs(ids.static, codes)
        known = None if static is None else torch.from_numpy(static)
        return Units(torch.from_numpy(mean), torch.from_numpy(scale), torch.from_numpy(codes), known)

    @cached_property
    def _code(self) -> dict[Id, int]:
        return {name: place for place, name in enumerate(self.scales.names)}

    def _scaled(self, inputs: Context, units: Units) -> Context:
        """Return the inputs of the network for some series: z-scores, and static inputs beside the known ones."""
        past = ((inputs.past - units.mean[:, None]) / units.scale[:, None]).float()
        future = inputs.future_known
        if units.static is not None:
            future = torch.cat([future, units.static[:, None].expand(-1, self.horizon, -1)], 2)
        return inputs._replace(past=past, future_known=future)

    def _output(self, inputs: Context, units: Units) -> tuple[Tensor, Tensor, WindowLimits]:
        """Return the output of the network for some series, their spread (B, 1, C), and their limits, all z-scores."""
        count, windows = len(self.targets), self._scaled(inputs, units)
        past, observed, output = windows.past, windows.past_observed, self.outputs(windows)
        seen = None if observed is None else observed[..., :count]
        scaled = self.facts.limits.scaled(units.mean[:, :count].numpy(), units.scale[:, :count].numpy())
        limits = scaled.at(past[..., :count], seen, self.horizon, torch.arange(len(past)), inputs.future_known)
        return limits.clip(output), window_spread(past[..., :count], seen), limits

    def _quantiles(self, inputs: Context, units: Units, question: Question) -> Tensor:
        """Return the point forecast and the quantiles of a question for some series, z-scores, (B, h, C, 1 + Q)."""
        output, spread, limits = self._output(inputs, units)
        point = middle(output)
        if question.is_plain:
            return point[..., None]
        near, form = limits.near(point, spread), self.forms.adaptive
        if form is not None:
            own = form.of_series(units.codes, units.recent)
            output, spread = stretched(output, own), spread * own
        quantiles = self.forms.default.each_quantile(output, spread, question.quantiles)
        ended = [near.end(*pair) for pair in zip(quantiles, question.quantiles, strict=True)]
        return torch.stack([point, *ended], -1)
