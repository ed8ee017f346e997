"""Forecast a table with a trained run, without Lightning."""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.data.calendar import earlier_index, future_index
from forecast.data.contract import DataContract
from forecast.data.known import UNSEEN
from forecast.data.labels import decode_labels
from forecast.data.reading import Reading
from forecast.data.repair import Policies
from forecast.data.roles import KNOWN
from forecast.data.scaler import Scaler
from forecast.data.series import Ahead, Series, read_known
from forecast.data.table import read_table, tidy_names
from forecast.data.training_range import TrainingRange
from forecast.evaluation.adaptive import Forms
from forecast.model.informer import Informer
from forecast.model.original_units import Context, OriginalUnits
from forecast.model.presets import Sizes
from forecast.predict.answer import answer, known_warnings, warnings_of
from forecast.predict.exported import Exported, open_exported
from forecast.predict.facts import ModelFacts, calibration_of_run, calibration_of_text, check_manifest
from forecast.predict.input import ENDS_IN_GAP, described, read_input, without_training_options
from forecast.predict.intervals import Forecast, Question
from forecast.predict.known import gather_known, rows_at, series_with_unread, with_unread
from forecast.runs.run import CHANGED, DAMAGE, MANIFEST, Architecture, Run

Model = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
"""Maps the fields of a `Context` to the forecast (B, h, C_out), float64, original units.

A model of quantiles gives all of them, (B, h, C_out, K).
"""


@dataclass(frozen=True)
class Forecaster:
    """Trained model that forecasts tables in original units; `forecast.load` returns one.

    `contract` is what it needs of a table, and `facts` is what its run says about it.

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

    model: Model = field(repr=False)
    contract: DataContract
    facts: ModelFacts | None = field(default=None, repr=False)

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
        network = run.load_model() if attention is None else _transplanted(run, attention)

        def model(scaler: Scaler) -> Model:
            return OriginalUnits(network, torch.tensor(scaler.mean), torch.tensor(scaler.scale)).eval()

        def forms(sizes: Sizes) -> Forms:
            if attention is not None:
                raise InputError(
                    f"--attention {attention}: intervals are calibrated for the attention of training: leave it out, "
                    "or leave out the levels"
                )
            return calibration_of_run(run.path, sizes)

        return cls._of(run.manifest(), model, run.path / MANIFEST, forms, attention)

    @classmethod
    def load_exported(cls, path: Path, run: str | os.PathLike[str] | None = None) -> "Forecaster":
        """Load an .onnx or .pt2 file written by `python -m forecast.export`.

        Raises
        ------
        InputError
            If the file is invalid, a package that opens it is missing, or it was not exported from `run`.
        """
        exported = open_exported(path)
        if run is not None:
            exported.check_made_from(Run.open(run))

        def forms(sizes: Sizes) -> Forms:
            return calibration_of_text(exported.calibration, path, sizes)

        return cls._of(exported.facts, lambda _: exported, path, forms)

    @classmethod
    def _of(
        cls,
        manifest: dict[str, Any],
        model: Callable[[Scaler], Model],
        where: Path,
        forms: Callable[[Sizes], Forms],
        attention: str | None = None,
    ) -> "Forecaster":
        """Construct the forecaster that a manifest describes; `where` names it in messages.

        `forms` reads the interval forms for a model of these sizes. `attention` replaces that of training.
        """
        try:
            sizes = Architecture.from_dict(manifest["architecture"]).sizes
            contract = DataContract.from_dict(manifest, sizes.context_length, sizes.horizon)
            path = where.parent if where.name == MANIFEST else where
            facts = ModelFacts.of(manifest, sizes.num_targets, lambda: forms(sizes), path)
            check_manifest(contract, sizes, facts.training_range)
            return cls(model(contract.scaler), contract, replace(facts, attention=attention))
        except DAMAGE as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            reason = f"it has no {reason}" if isinstance(error, KeyError) else reason
            raise InputError(f"{where}: does not fit the model ({reason}): {CHANGED}") from None

    @property
    def targets(self) -> list[str]:
        return self.contract.targets

    @property
    def past_covariates(self) -> list[str]:
        return self.contract.roles.past

    @property
    def known_covariates(self) -> list[str]:
        return self.contract.known

    @property
    def unread(self) -> list[str]:
        return self.contract.unread

    @property
    def time_column(self) -> str:
        return self.contract.time_column

    @property
    def frequency(self) -> str:
        return self.contract.frequency

    @property
    def policies(self) -> Policies:
        return self.contract.policies

    @property
    def scaler(self) -> Scaler:
        return self.contract.scaler

    @property
    def context_length(self) -> int:
        return self.contract.context_length

    @property
    def horizon(self) -> int:
        return self.contract.horizon

    @property
    def path(self) -> Path | None:
        return None if self.facts is None else self.facts.path

    @property
    def attention(self) -> str | None:
        return None if self.facts is None else self.facts.attention

    @property
    def columns(self) -> list[str]:
        """Columns that an input must have."""
        return self.contract.columns

    @property
    def channels(self) -> list[str]:
        """Columns whose past values the model reads as numbers, in its order, the targets first."""
        return self.contract.channels

    @property
    def batch(self) -> int | None:
        """Number of windows per call of the model; None: any."""
        return self.model.batch if isinstance(self.model, Exported) else None

    @property
    def target_scale(self) -> Tensor:
        """Standard deviation of each target on the training split, shape (C_out,), float64, original units."""
        return torch.tensor(self.scaler.scale[: len(self.targets)])

    @property
    def decimals(self) -> dict[str, int]:
        """Decimals of the forecast of each target; see `Scaler.decimals`."""
        return self.scaler.decimals(self.targets)

    def read(self, path: str | os.PathLike[str], known: Sequence[str | os.PathLike[str]] = ()) -> Series:
        """Read a CSV or Parquet file, checked and repaired as in training; raise InputError if it does not fit.

        `known` are more files with known covariates of the horizon: the first with a value counts, the input last.
        """
        series = self._checked(read_table(Path(path)), str(path))
        for other in reversed(known):
            series = self._with_known(series, read_table(Path(other)), str(other))
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

    def forecast(
        self, frame: pd.DataFrame | pd.Series | Series, known: pd.DataFrame | None, question: Question
    ) -> Forecast:
        """Return the forecast of `predict` before it becomes a table."""
        series = frame if isinstance(frame, Series) else self._checked(self._table(frame), "the frame")
        if known is not None:
            series = self._with_known(series, known, "the known table")
        forecast = self.answer(series, question)
        if not isinstance(frame, Series):
            self._warn(series)
        return forecast

    def check_question(self, question: Question) -> None:
        """Raise InputError if the model cannot answer a question, before any forecast is computed."""
        if not question.is_plain:
            self.forms.plain.check_intervals(question.levels)
            self.forms.plain.check(question.quantiles)

    @cached_property
    def forms(self) -> Forms:
        """The interval forms of the model; raise InputError if it has none."""
        assert self.facts is not None
        return self.facts.read_calibration()

    def answer(self, series: Series, question: Question) -> Forecast:
        """Return the forecast of the steps after a checked series, with the intervals of a question."""
        return answer(self, series, question).rounded(self.decimals)

    def warnings(self, series: Series) -> list[str]:
        """Return warnings about look-back and horizon of a checked series and about the model, in words."""
        return warnings_of(self, series)

    def _warn(self, series: Series) -> None:
        """Warn of known covariates unlike training and of a gap at the end; a command prints all notes instead."""
        for text in known_warnings(self, series):
            warnings.warn(text, UserWarning, stacklevel=3)
        notes = [*series.notes, *(note for table in self._with_unknown_noted(series).ahead for note in table.notes)]
        for note in notes:
            if UNSEEN in note or note.startswith(ENDS_IN_GAP):
                warnings.warn(note, UserWarning, stacklevel=3)

    def context(
        self, series: Series, stop: int | None = None, *, beyond_training: bool = True
    ) -> tuple[Context, pd.DatetimeIndex]:
        """Return the model's input for a forecast that starts at row `stop` of `series`, and the dates of the forecast.

        `stop` is at least `context_length`; None: the end of `series`. The steps before the first row of a shorter
        series are masked; their known covariates repeat the first row. Known covariates far from training are refused
        unless `beyond_training`.
        """
        end = len(series.frame) if stop is None else stop
        places = np.arange(end - self.context_length, end)
        context = series.frame.iloc[places.clip(min=0)]
        if not beyond_training:
            self.known_range.refuse_far(context, "the input")
        absent = int((places < 0).sum())
        past = self.contract.clock.to_training_clock(pd.DatetimeIndex(context.index[absent:]))
        if absent:
            past = pd.DatetimeIndex(earlier_index(past, self.frequency, absent).append(past))
        ahead, dates = self._horizon(past, pd.DatetimeIndex(context.index))
        past_known = self.contract.known_inputs(past, context, series.labels)
        observed = self._observed(series, places)
        window = Context(
            past=torch.tensor(context[self.channels].to_numpy(np.float64))[None],
            past_known=torch.from_numpy(past_known)[None],
            future_known=torch.from_numpy(self._future_known(series, end, ahead, dates, beyond_training))[None],
            past_observed=None if observed is None else torch.tensor(observed)[None],
        )
        return window, dates

    def _horizon(self, past: pd.DatetimeIndex, rows: pd.DatetimeIndex) -> tuple[pd.DatetimeIndex, pd.DatetimeIndex]:
        """Return the times of the steps after `past`, on the clock of training, and their dates in the zone of `rows`.

        Calendar features follow the clock of training.
        """
        ahead = future_index(past, self.frequency, self.horizon)
        dates = ahead if rows.tz is None else ahead.tz_convert(rows.tz)
        return ahead, dates.rename(self.time_column)

    @cached_property
    def known_range(self) -> TrainingRange:
        """The limits of the known numbers in training; none for a run made before they were stored."""
        limits = None if self.facts is None else self.facts.training_range
        read = [name for name in self.contract.encoder.numbers if name not in self.contract.unread]
        return TrainingRange.nothing() if limits is None else limits.of(read)

    def known_ahead(self, series: Series) -> pd.DataFrame:
        """Return the known covariates of the steps after a checked series, shape (h, K), labels as text."""
        rows = pd.DatetimeIndex(series.frame.index[-self.context_length :])
        times, dates = self._horizon(self.contract.clock.to_training_clock(rows), rows)
        return self._gathered(series, len(series.frame), times, dates, beyond_training=True)

    def earlier(self, series: Series, origins: np.ndarray, future_known: Tensor) -> Context:
        """Return the model's input for forecasts that start at the rows `origins` (B,) of `series`, in one batch.

        Each has a complete look-back. `future_known` (1, h, F) are the known inputs after the last row, which the
        newest of them read.
        """
        first, end = int(origins.min()) - self.context_length, len(series.frame)
        rows = series.frame.iloc[first:end]
        times = self.contract.clock.to_training_clock(pd.DatetimeIndex(rows.index))
        known = torch.from_numpy(self.contract.known_inputs(times, rows, series.labels))
        layout = self.contract.encoder.layout(0)  # only the number of past categories counts here
        ahead = torch.cat([layout.future(known), future_known[0]])
        places = torch.from_numpy(origins - first)[:, None]
        past = places + torch.arange(-self.context_length, 0)
        values = torch.tensor(rows[self.channels].to_numpy(np.float64))
        observed = series.observed_of(self.channels) if self.contract.policies.masks_past else None
        return Context(
            past=values[past],
            past_known=known[past],
            future_known=ahead[places + torch.arange(self.horizon)],
            past_observed=None if observed is None else torch.tensor(np.asarray(observed[first:end]))[past],
        )

    def _observed(self, series: Series, places: np.ndarray) -> np.ndarray | None:
        """Return which values of the rows at `places` were measured, (T, C_in); None without a mask, or if all were.

        A negative place is before the first row.
        """
        observed = series.observed_of(self.channels) if self.contract.policies.masks_past else None
        if observed is None:
            before = np.repeat(places[:, None] >= 0, len(self.channels), 1)
            return None if before.all() else before
        return np.asarray(observed[places.clip(min=0)] & (places >= 0)[:, None])

    def _future_known(
        self, series: Series, end: int, times: pd.DatetimeIndex, dates: pd.DatetimeIndex, beyond_training: bool
    ) -> np.ndarray:
        """Return the known inputs (h, F) of the steps from row `end` of `series` on."""
        future, labels = self._gathered(series, end, times, dates, beyond_training), {}
        future = with_unread(future, self.contract.encoder, self.contract.unread)
        for name in self.contract.encoder.categorical:
            if name in self.contract.encoder.past_categories:  # a past covariate has no future
                future[name], labels[name] = np.nan, ()
                continue
            codes, values = pd.factorize(future[name])
            future[name], labels[name] = codes.astype(np.float64), tuple(values)
        return self.contract.known_inputs(times, future, labels)

    def _gathered(
        self, series: Series, end: int, times: pd.DatetimeIndex, dates: pd.DatetimeIndex, beyond_training: bool
    ) -> pd.DataFrame:
        """Return the known covariates of the steps from row `end` of `series` on, labels as text."""
        if not self.contract.known:
            return pd.DataFrame(index=times)
        tables = series.ahead
        if end < len(series.frame):
            rows = decode_labels(series.frame[self.contract.known].iloc[end : end + self.horizon], series.labels)
            tables = (Ahead(rows, np.arange(end, end + len(rows)) + 2, "the table"), *tables)
        empty = [name for name in self.contract.encoder.empty_labels if name in self.contract.known]
        check = self.contract.encoder.check_range if beyond_training else self._check_near
        return gather_known(tables, self.contract.known, times, dates, self.contract.clock, check, empty)

    def _check_near(self, known: pd.DataFrame, source: str) -> None:
        """Raise InputError for known numbers far from training."""
        self.contract.encoder.check_range(known, source)
        self.known_range.refuse_far(known, source)

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
        if not isinstance(table, pd.DataFrame):
            raise InputError(f"{source} must be a DataFrame: this is {described(table)}")
        table, notes = tidy_names(table, source)
        contract, time_column = self.contract, self.time_column if self.time_column in table.columns else None
        time_format = contract.reading.time_format.fitting(table, time_column)
        reading = Reading(time_column, time_format, policies=contract.policies)
        with without_training_options():
            ahead = read_known(table, contract.roles_to_read, reading, source)
        return replace(series, ahead=(replace(ahead, notes=(*notes, *ahead.notes)), *series.ahead))

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

    def _checked(self, frame: pd.DataFrame, source: str) -> Series:
        contract = self.contract
        with without_training_options():
            series = series_with_unread(read_input(contract, frame, source), contract.encoder, contract.unread)
        index = pd.DatetimeIndex(series.frame.index)
        contract.clock.check(index, source)
        contract.scaler.check_range(series.frame[self.channels].to_numpy(np.float64), index, source)
        contract.encoder.check_range(series.frame, source)
        context = series.frame.iloc[-self.context_length :]
        past = decode_labels(context[contract.encoder.categorical], series.labels)
        return replace(series, notes=(*series.notes, *contract.encoder.unknown_notes(past)))

    def _table(self, data: object) -> pd.DataFrame:
        """Return `data` as a DataFrame; a Series becomes the only column of the model."""
        if isinstance(data, pd.DataFrame):
            return data
        fits = isinstance(data, pd.Series) and len(self.columns) == 1 and data.name in (None, *self.columns)
        if not fits:
            needed = ", ".join(map(repr, self.columns))
            raise InputError(f"predict takes a DataFrame with the columns {needed}: this is {described(data)}")
        assert isinstance(data, pd.Series)
        return data.to_frame(self.columns[0])


def _transplanted(run: Run, attention: str) -> Informer:
    from forecast.predict.transplanted import attention_named, transplant

    return transplant(run, attention_named(attention))
