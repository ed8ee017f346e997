"""Check that a table has the columns, frequency and length that a trained model requires."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.data.repair import Policies
from forecast.data.series import Series, series_from_frame
from forecast.data.table import tidy_names
from forecast.data.timestamps import PLAIN, TimeFormat, holds_times

ENDS_IN_GAP = "ends in a gap"
"""Beginning of the note on an input whose last rows lack values."""


@contextmanager
def without_training_options() -> Iterator[None]:
    """Leave the options of a training out of the advice of an InputError: a forecast has none."""
    try:
        yield
    except InputError as error:
        text = re.sub(r",? or (set data\.|train with ).*", "", str(error))
        text = text.replace("set data.time_column to one of them", "leave the others out")
        error.args = (text.replace("leave it out of data.targets or the covariates", "fill it in"),)
        raise


def described(data: object) -> str:
    """Return the type of what was given instead of a DataFrame of pandas, and how to convert it, if it can be."""
    kind, package = type(data).__name__, type(data).__module__.partition(".")[0]
    name = f" {data.name!r}" if isinstance(data, pd.Series) else ""
    of = f" of {package}" if package in sys.modules and package not in ("builtins", "pandas", "__main__") else ""
    convert = next((method for method in CONVERSIONS if hasattr(data, method)), None)
    return f"a {kind}{name}{of}{'' if convert is None else f': give its .{convert}()'}"


CONVERSIONS = ("to_pandas", "to_dataframe", "toPandas")
"""Methods by which tables of other packages become DataFrames of pandas."""


class MissingColumns(InputError):
    """A table lacks a column that the model was trained on."""


@dataclass(frozen=True)
class Expected:
    """Requirements of a trained model: columns, frequency, repairs and look-back of training.

    `shown` is the step of most training rows if it differs from `frequency`, else None. `merges_series` is True if
    training merged the series of a long table. `last_rows` is the number of rows to which training limited its table:
    older ones may have flaws. In the columns `empty_labels` an empty cell was a label. `time_format` is the layout and
    format of the times in training.
    """

    targets: list[str]
    past_covariates: list[str]
    time_column: str
    frequency: str
    policies: Policies
    context_length: int
    shown: str | None = None
    merges_series: bool = False
    last_rows: int | None = None
    empty_labels: Sequence[str] = ()
    known_covariates: Sequence[str] = ()
    categorical: Sequence[str] = ()
    time_format: TimeFormat = PLAIN

    @property
    def columns(self) -> list[str]:
        """Columns that a table must have."""
        return [*self.targets, *self.covariates]

    @property
    def covariates(self) -> list[str]:
        """Columns that are not targets."""
        return [*self.past_covariates, *self.known_covariates]

    def check(self, frame: pd.DataFrame, source: str) -> Series:
        """Return `frame` as a series, repaired as in training; `source` is its name in messages."""
        frame, notes = tidy_names(frame, source)
        present = list(frame.columns)
        if missing := [name for name in self.columns if name not in present]:
            raise MissingColumns(
                f"{source} has no column {missing[0]!r}, which the model was trained on, only "
                f"{', '.join(present[:12])}: use the columns of training"
            )
        series = self._at_frequency(frame, source, self._time_column_of(frame, source))
        rows, least = len(series.frame), self.least_rows
        if rows < least:
            why = why_few_rows(series)
            raise InputError(
                f"{source}: it has {rows} rows{why}, the look-back of the model is "
                f"{self.context_length}: give at least {least} rows"
            )
        self._check_measured(series, source)
        gaps = [*self._begins_in_gap(series), *self._ends_in_gap(series)]
        return replace(series, notes=(*notes, *series.notes, *gaps))

    def _time_column_of(self, frame: pd.DataFrame, source: str) -> str | None:
        """Return the time column of training, None if the table lacks it and at most one other holds its times."""
        if self.time_column in frame.columns:
            return self.time_column
        if self.time_format.columns is None and isinstance(frame.index, pd.RangeIndex):
            date_format = self.time_format.fitting(frame, None).date_format
            rivals = [str(name) for name in frame.columns if holds_times(frame[name], date_format)]
            if len(rivals) > 1:
                raise InputError(
                    f"{source}: it lacks {self.time_column!r}, the time column of training, and "
                    f"{', '.join(map(repr, rivals))} all hold dates: rename one of them to {self.time_column!r}"
                )
        return None

    @property
    def least_rows(self) -> int:
        """Number of rows that a table must have: the look-back, or half of it if the model masks missing steps."""
        return -(-self.context_length // 2) if self.policies.masks_past else self.context_length

    def _check_measured(self, series: Series, source: str) -> None:
        """Raise InputError if a target has no value in the look-back: a filled one would be all that the model sees."""
        if series.observed is None:
            return
        seen = np.asarray(series.observed[-self.context_length :].any(axis=0))
        if missing := [name for name, has_value in zip(self.targets, seen, strict=False) if not has_value]:
            raise InputError(
                f"{source}: {missing[0]!r} has no value in the last {self.context_length} rows, the look-back of the "
                f"model: give rows with values, or train without {missing[0]!r} among data.targets"
            )

    @property
    def _unmasked(self) -> tuple[str, ...]:
        """Columns whose missing steps the model does not mask."""
        return (*self.known_covariates, *self.categorical)

    def _begins_in_gap(self, series: Series) -> list[str]:
        """Return a note if a column of numbers has no value in the first steps of the look-back."""
        if not self.policies.masks_past:
            return []
        length, shape = self.context_length, series.frame.shape
        absent = max(0, length - len(series.frame))
        observed = np.ones(shape, bool) if series.observed is None else series.observed[-length:]
        starts = [absent + (int(np.argmax(seen)) if seen.any() else len(seen)) for seen in observed.T]
        pairs = zip(self.columns, starts, strict=True)
        gaps = {name: start for name, start in pairs if name not in self._unmasked and start}
        if not gaps:
            return []
        name, most = max(gaps.items(), key=lambda pair: pair[1])
        others = f" ({len(gaps) - 1} more begin in a gap)" if len(gaps) > 1 else ""
        steps = f"the first {most} of the {length} steps of the look-back"
        return [f"begins in a gap: {name!r} has no value in {steps}{others}: they are masked"]

    def _ends_in_gap(self, series: Series) -> list[str]:
        """Return a note if a column has no value in the last row."""
        if series.observed is None or series.observed[-1].all():
            return []
        ends = [int(np.argmax(seen[::-1])) if seen.any() else len(seen) for seen in series.observed.T]
        name, most = max(zip(self.columns, ends, strict=True), key=lambda pair: pair[1])
        repair = (
            "the encoder-decoder uses the window's mean there, the linear path the last value before"
            if self.policies.masks_past and name not in self._unmasked
            else "filled with the last value before"
        )
        more = sum(end > 0 for end in ends) - 1
        others = f" ({more} more end in a gap)" if more else ""
        return [f"{ENDS_IN_GAP}: {name!r} has no value in the last {most} rows{others}: {repair}"]

    def _at_frequency(self, frame: pd.DataFrame, source: str, time_column: str | None) -> Series:
        """Return the series at the frequency of training; rows may fit another frequency as well."""
        read = partial(
            series_from_frame,
            frame,
            source=source,
            time_column=time_column,
            columns=self.columns,
            covariates=self.covariates,
            known=self.known_covariates,
            categorical=self.categorical,
            numeric=[name for name in self.covariates if name not in self.categorical],
            policies=self.policies,
            merges_series=self.merges_series,
            last_rows=None if self.last_rows is None else max(self.last_rows, self.context_length),
            fewer_allowed=True,
            empty_labels=self.empty_labels,
            time_format=self.time_format.fitting(frame, time_column),
            kept_rows=self.context_length if self.policies.masks_past else 0,
        )
        if len(frame) <= 2:
            return read(frequency=self.frequency)
        try:
            series = read()
        except InputError as first:
            try:
                return read(frequency=self.frequency)  # most rows may have no common step, or the one of training
            except InputError:
                if self.policies.fills:
                    raise
                raise first from None
        if series.frequency == self.frequency:
            return series
        try:
            reread = read(frequency=self.frequency)
        except InputError:
            reread = None
        if reread is None or (len(reread.frame) != len(series.frame) and not self._fits(series.frequency)):
            raise InputError(
                f"{source}: its frequency is {series.frequency}, the model was trained at {self.frequency}: "
                "resample the file or train a model on it"
            )
        return reread

    def _fits(self, frequency: str) -> bool:
        """Return whether rows at this step fit: training had it, or only weekends are missing."""
        return frequency == self.shown or (self.policies.fills and (frequency, self.frequency) == ("B", "D"))


def why_few_rows(series: Series) -> str:
    """Return in brackets why a series has fewer rows than its table, empty if it has all."""
    reasons = [note for note in series.notes if "left out" in note or "no target value" in note]
    return f" ({reasons[0].split(' (')[0]})" if reasons else ""
