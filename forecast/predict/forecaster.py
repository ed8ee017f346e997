"""Forecast a table with a trained run, without Lightning."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from forecast.common.errors import InputError
from forecast.data.calendar import future_index
from forecast.data.known import UNSEEN
from forecast.data.scaler import Scaler, SeriesScaler
from forecast.model.informer import Informer
from forecast.model.original_units import OriginalUnits
from forecast.predict.answer import answers, explained, known_warnings, warnings_of
from forecast.predict.contexts import Model, TrainedModel, is_of_panel
from forecast.predict.explanation import Explained
from forecast.predict.forecast import Forecast, Question
from forecast.predict.history import History, Origins, before, read_history
from forecast.predict.input import ENDS_IN_GAP, read_as_trained, read_input, with_known, without_training_options
from forecast.predict.known import rows_at, series_with_unread
from forecast.predict.rolling import Rolling, blocks_of_series
from forecast.predict.scores import network_forecasts, origins_of, score_table
from forecast.runs.run import Run
from forecast.tables.files import tidy_names
from forecast.tables.formats.frames import described, from_arrow
from forecast.tables.labels import decode_labels
from forecast.tables.roles import KNOWN
from forecast.tables.series import Series


class Forecaster(TrainedModel):
    """Trained model that forecasts tables in original units; `forecast.load` returns one.

    Attributes
    ----------
    targets
        Names of the columns to forecast.
    past_covariates
        Names of the columns that the model reads up to the start of the forecast.
    known_covariates
        Names of the columns that the model reads over the horizon too.
    unread
        Known covariates of training that the forecast does not depend on: an input may lack them.
    time_column
        Name of the time column.
    frequency
        Step of the series, as a pandas frequency such as "h" or "15min".
    policies
        Treatment of duplicate and missing rows.
    scaler
        Mean and standard deviation of each channel in training.
    context_length
        Look-back in steps: rows that a forecast needs at least. A run of data.missing=mask needs half of them.
    horizon
        Number of steps of a forecast.
    path
        Run folder or exported file that the model was loaded from.
    attention
        Self-attention that replaces that of training, as `load` got it; None: that of training.
    """

    @classmethod
    def load(cls, path: str | os.PathLike[str], attention: str | None = None) -> "Forecaster":
        """Load the finished run at `path`.

        Parameters
        ----------
        path
            Run folder, or "latest" for the finished run under outputs/ that started last.
        attention
            Self-attention that replaces that of training, such as "full" or "probsparse:factor=9".

        Raises
        ------
        InputError
            If `path` is not a finished run, is damaged, or its weights do not fit `attention`.
        """
        run = Run.open(path)
        if is_of_panel(run.path):
            raise InputError(
                f"{run.path}: a model of a long table: forecast with it alone, by forecast.predict or forecast.load"
            )

        def model(network: Informer, scaler: Scaler | SeriesScaler) -> Model:
            return OriginalUnits(network, torch.tensor(scaler.mean), torch.tensor(scaler.scale)).eval()

        return cls.of_run(run, attention, model)

    def read(self, path: str | os.PathLike[str], known: Sequence[str | os.PathLike[str]] = ()) -> Series:
        """Read a file, checked and repaired as in training; raise InputError if it does not fit.

        `known` are more files with known covariates of the horizon: the first with a value counts, the input last.
        """
        series = self.checked(read_as_trained(self.contract, path), str(path))
        for other in reversed(known):
            series = self._with_known(series, read_as_trained(self.contract, other), str(other))
        return self._with_unknown_noted(series)

    def predict(
        self,
        frame: pd.DataFrame | pd.Series | Series,
        known: pd.DataFrame | None = None,
        *,
        levels: Sequence[float] = (),
        quantile: float | None = None,
        adaptive: bool = False,
        beyond_training: bool = False,
    ) -> pd.DataFrame:
        """Forecast the steps after the last row of `frame`.

        Parameters
        ----------
        frame
            Table with at least `context_length` rows, in original units; half of them after data.missing=mask. It has
            the columns of training, and the time as index or column; other columns are ignored. A pandas Series works
            if the model has one column. Known covariates of the horizon are read from rows after the last target value.
        known
            Table with the known covariates of the horizon, if `frame` does not have them; its values count first.
        levels
            Central intervals in per cent, such as 80 and 95. Each adds the columns `<target>_lower_80` and
            `<target>_upper_80` of every target.
        quantile
            Forecast this quantile, above 0 and below 1, instead of the point forecast.
        adaptive
            Refuse a `frame` without enough earlier forecasts to scale the intervals by, which happens by default where
            it has them.
        beyond_training
            Accept known covariates more than ten widths of the range of training from its middle.

        Returns
        -------
        pandas.DataFrame
            Shape (horizon, number of targets), original units, and the columns of the intervals. The index continues
            that of `frame`.

        Raises
        ------
        InputError
            If columns, frequency or time zone differ from training, values are invalid or far outside the range of
            training, `frame` has too few rows, or the run cannot give a level.
        UserWarning
            A warning, not an error: if labels of a category do not occur in training and count as unknown, if `frame`
            ends in a gap, or if known covariates are outside the range of training by more than its width.
        MissingKnown
            If known covariates of the horizon are missing. Its `template` is a table to fill in, for `known`.
        NotFiniteError
            If the forecast contains NaN or infinity.
        """
        return self.forecast(frame, known, Question(tuple(levels), quantile, adaptive, beyond_training)).wide()

    def score(self, frame: Any, known: Any = None, *, start: Any = None) -> pd.DataFrame:
        """Return the errors of the forecasts of every window in `frame`.

        Parameters
        ----------
        frame
            Table as for `predict`, with the targets of the horizons that are forecast: at least `context_length` plus
            `horizon` rows. The first forecast begins after `context_length` rows.
        known
            Table with more known covariates.
        start
            First time of a horizon that is scored; None: the first after a look-back.

        Returns
        -------
        pandas.DataFrame
            A row for the model, the last value and the seasonal naive forecast. `mse` and `mae` are errors of z-scores
            of training, as in `result`, `mae_original` is in original units, and `skill` is 1 minus the MSE relative
            to the seasonal naive forecast.

        Raises
        ------
        InputError
            If `frame` does not fit the model, or has too few rows.
        """
        series = self.series_of(frame, known)
        return score_table(network_forecasts(self, series), self, series, origins_of(self, series, start))

    def plot(
        self,
        frame: Any,
        known: Any = None,
        *,
        levels: Sequence[float] = (80,),
        truth: Any = None,
        axes: Any = None,
    ) -> Any:
        """Draw the forecast after `frame` with its past, a fan of intervals and the seasonal naive forecast.

        Parameters
        ----------
        frame, known, levels
            As for `predict`.
        truth
            Table with the values that came, to be drawn too.
        axes
            Axes of matplotlib, one for each target, at most seven; None: those of a new figure.

        Returns
        -------
        matplotlib.axes.Axes or array of them
            The axes, one for each target that is drawn.
        """
        from forecast.predict.plot import plot_forecast  # here, since it imports what draws

        return plot_forecast(self.forecast_of, frame, known, Question(tuple(levels)), truth, axes)

    def backtest(
        self,
        frame: pd.DataFrame,
        start: str | pd.Timestamp,
        end: str | pd.Timestamp | None = None,
        step: str | int | None = None,
        *,
        levels: Sequence[float] = (),
    ) -> pd.DataFrame:
        """Forecast from every origin of a stretch of `frame`, each with what was known then.

        Parameters
        ----------
        frame
            As for `predict`. Known covariates of later rows count as known; targets and past covariates do not.
        start
            The first time that is forecast.
        end
            No forecast begins after it; None: the last one has a whole horizon of rows.
        step
            Time between two origins, such as "7d" or "1MS", or a number of rows; None: the horizon.
        levels
            Central intervals in per cent.

        Returns
        -------
        pandas.DataFrame
            A row for each origin, target and step: origin (the first time that is forecast), time, step, series,
            value, lower_80 and upper_80 of each level, naive (the seasonal naive forecast) and truth, in original
            units.

        Raises
        ------
        InputError
            If no forecast can begin there, or `predict` would refuse the rows before the last origin.
        """
        return self.rolling(frame, Origins(start, end, step), Question(tuple(levels))).table()

    def explain(
        self, frame: pd.DataFrame | pd.Series | Series, known: pd.DataFrame | None = None, target: str | None = None
    ) -> pd.DataFrame:
        """Return the contribution of each column and of each part of the past to the forecast after `frame`.

        The contributions are Shapley values. The reference is the forecast from a flat past: each column has its mean
        over the look-back, and a label its most frequent one.

        Parameters
        ----------
        frame, known
            As for `predict`.
        target
            The column whose forecast is explained; None: the first.

        Returns
        -------
        pandas.DataFrame
            The columns by, part, time, contribution and error (the standard error of sampling), original units. With
            by "column" a part is a column, with "past" a stretch of the look-back; known columns and the calendar are
            parts of both. The rows of one view and time, with those of part "reference", sum to the point forecast.
        """
        return self.explained(self.series_of(frame, known)).table(target)

    def explained(self, series: Series) -> Explained:
        """Return the point forecast of the steps after a checked series, to be explained."""
        return explained(self, series)

    def rolling(self, frame: pd.DataFrame, origins: Origins, question: Question, source: str = "the frame") -> Rolling:
        """Return the forecasts of `backtest`, which are computed on demand."""
        self.check_question(question)
        history = self.history(frame, origins, source)
        blocks = partial(blocks_of_series, self.answers, history, question)
        return Rolling(history, blocks, lambda place: ([()], self.explained(before(history, place))))

    def history(self, frame: pd.DataFrame, origins: Origins, source: str = "the frame") -> History:
        """Return the table of a backtest; the limit of rows of training holds before each origin."""
        return read_history(self, self.unlimited.checked, self._table(frame), origins, source)

    def forecast(
        self, frame: pd.DataFrame | pd.Series | Series, known: pd.DataFrame | None, question: Question
    ) -> Forecast:
        """Return the forecast of `predict` before it becomes a table."""
        return self.forecast_of(frame, known, question)[1]

    def forecast_of(self, frame: Any, known: Any, question: Question) -> tuple[Series, Forecast]:
        """Return the checked series of a table, and its forecast."""
        series = self.series_of(frame, known)
        forecast = self.answer(series, question)
        if not isinstance(frame, Series):
            self._warn(series)
        return series, forecast

    def series_of(self, frame: Any, known: Any) -> Series:
        """Return the checked series of a table, with a table of known covariates."""
        series = frame if isinstance(frame, Series) else self.checked(self._table(frame), "the frame")
        return series if known is None else self._with_known(series, known, "the known table")

    def answer(self, series: Series, question: Question) -> Forecast:
        """Return the forecast of the steps after a checked series, with the intervals of a question."""
        return self.answers([series], question)[0]

    def answers(self, several: Sequence[Series], question: Question) -> list[Forecast]:
        """Return the forecasts of `answer` for several checked series; all or none have filled values."""
        return [forecast.rounded(self.decimals, self.whole) for forecast in answers(self, several, question)]

    def warnings(self, series: Series) -> list[str]:
        """Return warnings about look-back and horizon of a checked series and about the model, in words."""
        return warnings_of(self, series)

    def _warn(self, series: Series) -> None:
        """Warn of known covariates unlike training and of a gap at the end; a command prints all notes instead."""
        for text in known_warnings(self, series):
            warnings.warn(text, UserWarning, stacklevel=5)
        notes = [*series.notes, *(note for table in self._with_unknown_noted(series).ahead for note in table.notes)]
        for note in notes:
            if UNSEEN in note or note.startswith(ENDS_IN_GAP):
                warnings.warn(note, UserWarning, stacklevel=5)

    def _with_known(self, series: Series, table: pd.DataFrame, source: str) -> Series:
        """Return the series with a table of known covariates, whose values count first."""
        if self.contract.unread and not self.contract.known:
            note = (
                f"{source}: not read: the forecast does not depend on {', '.join(map(repr, self.contract.unread[:3]))}"
            )
            return replace(series, notes=(*series.notes, note))
        if not self.contract.known:
            raise InputError(
                f"{source}: the model has no known covariates: leave this table out, or name a run "
                f"that was trained with {KNOWN}"
            )
        table = from_arrow(table)
        if not isinstance(table, pd.DataFrame):
            raise InputError(f"{source} must be a DataFrame: this is {described(table)}")
        return with_known(self.contract, series, *tidy_names(table, source), source)

    def _with_unknown_noted(self, series: Series) -> Series:
        """Return the series with a note for each label of the horizon that counts and is new to training."""
        past = self.contract.clock.to_training_clock(pd.DatetimeIndex(series.frame.index[-self.context_length :]))
        times = future_index(past, self.frequency, self.horizon)
        labels = pd.DataFrame(index=times, columns=list(self.contract.encoder.categories), dtype=object)
        tables = []
        for table in series.ahead:
            if labels.notna().all(axis=None):
                tables.append(table)
                continue
            own = rows_at(table, list(self.contract.encoder.categories), times, self.contract.clock)
            notes = self.contract.encoder.unknown_notes(own.where(labels.isna()))
            tables.append(replace(table, notes=(*table.notes, *notes)))
            labels = labels.where(labels.notna(), own)
        return replace(series, ahead=tuple(tables))

    def checked(self, frame: pd.DataFrame, source: str) -> Series:
        """Return the series of a frame, checked and repaired as in training; raise InputError if it does not fit."""
        contract = self.contract
        with without_training_options():
            series = series_with_unread(read_input(contract, frame, source), contract.encoder, contract.unread)
        index = pd.DatetimeIndex(series.frame.index)
        contract.clock.check(index, source)
        assert isinstance(contract.scaler, Scaler)
        contract.scaler.check_range(series.frame[self.channels].to_numpy(np.float64), index, source)
        contract.encoder.check_range(series.frame, source)
        context = series.frame.iloc[-self.context_length :]
        past = decode_labels(context[contract.encoder.categorical], series.labels)
        return replace(series, notes=(*series.notes, *contract.encoder.unknown_notes(past)))

    def _table(self, data: object) -> pd.DataFrame:
        """Return `data` as a DataFrame; a Series becomes the only column of the model."""
        data = from_arrow(data)
        if isinstance(data, pd.DataFrame):
            return data
        fits = isinstance(data, pd.Series) and len(self.columns) == 1 and data.name in (None, *self.columns)
        if not fits:
            needed = ", ".join(map(repr, self.columns))
            raise InputError(f"predict takes a DataFrame with the columns {needed}: this is {described(data)}")
        assert isinstance(data, pd.Series)
        return data.to_frame(self.columns[0])
