"""A model that is served: what it needs, what it understands of a table, and its forecast as a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.overview.understanding import columns_of
from forecast.predict.answer import naive_name
from forecast.predict.ensemble import Ensemble
from forecast.predict.forecast import Question
from forecast.predict.forecaster import Forecaster
from forecast.predict.output import Outcome
from forecast.predict.panel import PanelForecaster
from forecast.predict.panel_output import PanelOutcome
from forecast.tables.files import Upload
from forecast.tables.roles import OPTIONS
from forecast.tables.series import Series
from forecast.tables.times.frequency import step_words

SHOWN_HORIZONS = 3
"""Horizons of the past that the page draws."""

LEVELS = (80.0, 95.0)
"""Intervals that the page shows, if the model has them."""

_SCORES = ("skill", "scaled", "original")


@dataclass(frozen=True)
class Answer:
    """A forecast as a table, with what the command prints about it.

    `index` says whether the dates are the index of the table, and `folders` are the runs whose scores a workbook has.
    """

    table: pd.DataFrame
    index: bool
    notes: list[str]
    warnings: list[str]
    intervals: str | None
    naive: str
    folders: list[Path]


@dataclass(frozen=True)
class Served:
    """A model and the name by which requests choose it."""

    name: str
    model: Forecaster | Ensemble | PanelForecaster

    @property
    def first(self) -> Forecaster | PanelForecaster:
        """The model, or the first of an ensemble."""
        return self.model.members[0] if isinstance(self.model, Ensemble) else self.model

    @property
    def words(self) -> str:
        """What is forecast, in a line."""
        step = step_words(self.first.frequency, one=True)
        return f"{', '.join(self.first.targets[:5])}, {self.first.horizon} steps of {step}"

    def facts(self) -> dict[str, Any]:
        """Return what a table must have, and the scores of the model on its test split."""
        first, members = self.first, self.model.members if isinstance(self.model, Ensemble) else [self.first]
        return {
            "model": self.name,
            "id_columns": list(first.contract.roles.ids),
            "time_column": first.time_column,
            **{OPTIONS[role]: getattr(first, OPTIONS[role]) for role in ("targets", "past", "known")},
            "frequency": first.frequency,
            "step": step_words(first.frequency),
            "horizon": first.horizon,
            "largest_horizon": first.horizon,
            "least_rows": max(member.least_context for member in members),
            "levels": [level for level in LEVELS if self._supports(level)],
            "scores": _scores(self.model),
        }

    def _supports(self, level: float) -> bool:
        try:
            self.model.check_question(Question((level,)))
        except InputError:
            return False
        return True

    def read(self, table: Upload, known: Sequence[Upload] = (), ids: Sequence[str | int] = ()) -> Series:
        """Return the checked series of a table, as the command reads it."""
        if isinstance(self.model, PanelForecaster):
            return self.model.read(table, known, ids)
        if ids:
            raise InputError("ids: the model has one series: leave them out")
        return self.model.read(table, known)

    def answer(
        self,
        table: Upload,
        known: Sequence[Upload],
        question: Question,
        ids: Sequence[str | int] = (),
        horizon: int | None = None,
    ) -> Answer:
        """Return the table that `forecast predict` writes, with its notes and warnings."""
        self._check_horizon(horizon)
        self.model.check_question(question)
        series = self.read(table, known, ids)
        if isinstance(self.model, PanelForecaster):
            series, found = self.model.answered(series, question, ids)
            many = PanelOutcome(self.model, series, Path(table.name), (), question, found, {})
            frame = many.table()
            folders, lines = [self.model.path], [many.interval_line(), many.ended_earlier()]
            intervals = "; ".join(filter(None, lines)) or None
            return Answer(frame, False, _notes(series), many.warnings, intervals, "seasonal naive", folders)
        made, warned = self.model.answer(series, question), self.model.warnings(series)
        one = Outcome(self.model, series, Path(table.name), (), question, made, warned, {})
        name = naive_name(series, self.first.frequency)
        folders = [member.path for member in one.members]
        return Answer(one.table("wide"), True, _notes(series), one.warnings, one.interval_line(), name, folders)

    def understood(self, table: Upload, ids: Sequence[str | int] = (), horizon: int | None = None) -> dict[str, Any]:
        """Return what is understood of a table, and the end of the targets, as plain values."""
        self._check_horizon(horizon)
        series, first = self.read(table, (), ids), self.first
        notes = list(dict.fromkeys(series.notes))
        return understood(self.name, series, first.targets, first.past_covariates, first.horizon, notes)

    def _check_horizon(self, horizon: int | None) -> None:
        if horizon is not None:
            raise InputError(
                f"horizon {horizon}: the model {self.name} has its own, {self.first.horizon} steps: leave it out"
            )


def understood(
    name: str, series: Series, targets: Sequence[str], past: Sequence[str], horizon: int, notes: list[str]
) -> dict[str, Any]:
    """Return what is understood of a series: its rows, step, columns and notes, and the end of its targets."""
    times = series.frame.index
    roles = dict.fromkeys(targets, "forecast") | dict.fromkeys(past, "past")
    return {
        "model": name,
        "rows": series.num_rows,
        "series": None if series.ids is None else len(series.ids),
        "id_columns": [] if series.ids is None else list(series.ids.columns),
        "time_column": str(times.name),
        "targets": list(targets),
        "horizon": horizon,
        "step": step_words(series.frequency),
        "first": str(times.min()),
        "last": str(times.max()),
        "notes": notes,
        "columns": [
            {
                "name": fact.name,
                "role": roles.get(fact.name, "known ahead"),
                **{part: _finite(getattr(fact, part)) for part in ("least", "mean", "largest")},
                "empty": fact.empty,
                "remarks": list(fact.remarks),
            }
            for fact in columns_of(series)
        ],
        "past": records(_ends(series, series.measured[list(targets)], SHOWN_HORIZONS * horizon)),
    }


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table and its index as plain values, times as in a CSV file and NaN as None."""
    table = table.copy() if isinstance(table.index, pd.RangeIndex) else table.reset_index()
    for place, kind in enumerate(table.dtypes):
        if pd.api.types.is_datetime64_any_dtype(kind):
            table.isetitem(place, table.iloc[:, place].astype(str).array)
    columns = {str(name): [_finite(cell) for cell in table[name].tolist()] for name in table.columns}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _ends(series: Series, measured: pd.DataFrame, rows: int) -> pd.DataFrame:
    """Return the last rows of the targets, those of each series of a panel with its ids in front."""
    if series.ids is None:
        return measured.iloc[-rows:]
    ends = series.ids.offsets[1:]
    lengths = np.minimum(series.ids.lengths, rows)
    places = np.concatenate([np.arange(end - length, end) for end, length in zip(ends, lengths, strict=True)])
    ids = series.ids.frame(np.repeat(np.arange(len(ends)), lengths))
    return pd.concat([ids, measured.iloc[places].reset_index()], axis=1)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _notes(series: Series) -> list[str]:
    """Return the changes to the table and to those of known covariates, each once."""
    return list(dict.fromkeys([*series.notes, *(note for each in series.ahead for note in each.notes)]))


def _scores(model: Forecaster | Ensemble | PanelForecaster) -> dict[str, Any] | None:
    """Return the scores on the test split of the model and its baselines; None for an exported file."""
    try:
        result = model.result
    except InputError:
        return None
    named = {
        "model": result.get("test"),
        **{name: row.get("test") for name, row in result.get("baselines", {}).items()},
    }
    return {name: {key: row[key] for key in _SCORES if key in row} for name, row in named.items() if row}
