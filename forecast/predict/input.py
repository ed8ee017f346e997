"""The columns, frequency and length that a trained model requires of a table."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.data.repair import Policies
from forecast.data.series import Series, series_from_frame
from forecast.data.table import check_names


class OtherColumns(InputError):
    """A table lacks a column that the model was trained on."""


@dataclass(frozen=True)
class Expected:
    """Columns, frequency, repairs and look-back of training.

    `shown` is the step of most training rows where another was named; `merges_series` says that training merged the
    series of a long table.
    """

    targets: list[str]
    past_covariates: list[str]
    time_column: str
    frequency: str
    policies: Policies
    context_length: int
    shown: str | None = None
    merges_series: bool = False

    @property
    def columns(self) -> list[str]:
        """The columns that a table must have, in the model's order."""
        return [*self.targets, *self.past_covariates]

    def check(self, frame: pd.DataFrame, source: str) -> Series:
        """Return `frame` as a series, repaired as in training; `source` names it in messages."""
        present = [str(name) for name in frame.columns]
        check_names(present, source)
        if absent := [name for name in self.columns if name not in present]:
            raise OtherColumns(
                f"{source} has no column {absent[0]!r}, which the model was trained on, only "
                f"{', '.join(present[:12])}: give it the columns of training"
            )
        series = self._at_frequency(frame, source, self.time_column if self.time_column in present else None)
        if len(series.frame) < self.context_length:
            raise InputError(
                f"{source}: it has {len(series.frame)} rows, the model looks back {self.context_length}: "
                f"give at least {self.context_length} rows"
            )
        self._check_measured(series, source)
        return replace(series, notes=(*series.notes, *self._ends_in_gap(series)))

    def _check_measured(self, series: Series, source: str) -> None:
        """Refuse a look-back in which a target has no value, where the model does not get the fills."""
        if series.observed is None or not self.policies.masks_past:
            return
        seen = np.asarray(series.observed[-self.context_length :].any(axis=0))
        if absent := [
            name for name, any_value in zip(self.targets, seen[: len(self.targets)], strict=True) if not any_value
        ]:
            raise InputError(
                f"{source}: {absent[0]!r} has no value in the last {self.context_length} rows, all that the model "
                "looks back on: give rows that hold some"
            )

    def _ends_in_gap(self, series: Series) -> list[str]:
        """Return a note where a column has no value in the last row."""
        if series.observed is None or series.observed[-1].all():
            return []
        ends = [int(np.argmax(seen[::-1])) if seen.any() else len(seen) for seen in series.observed.T]
        name, most = max(zip(self.columns, ends, strict=True), key=lambda pair: pair[1])
        told = (
            "the encoder-decoder takes the window's mean there, a target's linear path the value before them"
            if self.policies.masks_past
            else "the value before them is held"
        )
        more = sum(end > 0 for end in ends) - 1
        others = f", nor do {more} more columns in the last" if more else ""
        return [f"ends in a gap: {name!r} has no value in the last {most} rows{others}: {told}"]

    def _at_frequency(self, frame: pd.DataFrame, source: str, time_column: str | None) -> Series:
        """Return the series at the step of its rows; a few rows may fit both training's step and another."""
        read = partial(
            series_from_frame,
            frame,
            source=source,
            time_column=time_column,
            columns=self.columns,
            covariates=self.past_covariates,
            policies=self.policies,
            merges_series=self.merges_series,
        )
        if len(frame) <= 2:
            return read(frequency=self.frequency)
        try:
            series = read()
        except InputError:
            if not self.policies.fills:
                raise
            return read(frequency=self.frequency)  # with many gaps there may be no step that most rows keep
        if series.frequency == self.frequency:
            return series
        try:
            again = read(frequency=self.frequency)
        except InputError:
            again = None
        if again is None or (len(again.frame) != len(series.frame) and not self._is_as_in_training(series.frequency)):
            raise InputError(
                f"{source}: its frequency is {series.frequency}, the model was trained at {self.frequency}: "
                "resample the file or train a model on it"
            )
        return again

    def _is_as_in_training(self, frequency: str) -> bool:
        """Return whether rows at this step fit: training's had it, or weekends alone are absent."""
        return frequency == self.shown or (self.policies.fills and (frequency, self.frequency) == ("B", "D"))
