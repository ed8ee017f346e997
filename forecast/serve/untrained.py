"""The network of the package as a model that is served: a forecast of any table, without a training."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecast.common.errors import InputError
from forecast.common.text import counted
from forecast.overview.understanding import Understanding, understand
from forecast.predict import ensemble
from forecast.predict.forecast import Question
from forecast.predict.zero_shot import FEWEST_ROWS, MOST_STEPS, forecast_without_training, horizon_of, targets_of
from forecast.predict.zero_shot_output import ZeroShotOutcome
from forecast.pretrained.mixture import earlier_origins
from forecast.pretrained.weights import NAME, open_pretrained
from forecast.serve.served import LEVELS, Answer, Served, understood
from forecast.tables.files import Upload
from forecast.tables.roles import OPTIONS

MOST_WORK = 1_000_000
"""Most steps of all columns in a request, earlier forecasts included: a minute of one core, and a gigabyte."""


@dataclass(frozen=True)
class Untrained:
    """The pretrained network, and the name by which requests choose it."""

    name: str

    @property
    def words(self) -> str:
        """What is forecast, in a line."""
        return "each column of numbers of a table, without training, as many steps as a request asks for"

    def facts(self) -> dict[str, Any]:
        """Return what a table must have; columns, step and horizon are those of each request."""
        nothing: dict[str, Any] = dict.fromkeys(("time_column", "frequency", "step", "horizon", "scores"))
        roles: dict[str, Any] = {name: [] for role, name in OPTIONS.items() if role != "fixed"}
        bounds = {"largest_horizon": MOST_STEPS, "least_rows": FEWEST_ROWS, "levels": list(LEVELS)}
        return {"model": self.name, **nothing, **roles, **bounds}

    def answer(
        self,
        table: Upload,
        known: Sequence[Upload],
        question: Question,
        ids: Sequence[str | int] = (),
        horizon: int | None = None,
    ) -> Answer:
        """Return the table that `forecast predict --run pretrained` writes, with its notes."""
        given = {"known": known, "beyond_training": question.beyond_training}
        if wrong := [name for name, value in given.items() if value]:
            raise InputError(f"{wrong[0]}: not with {self._reads_the_past}: leave it out")
        seen, steps = self._read(table, ids, horizon)
        found = forecast_without_training(seen, steps, question)
        made = ZeroShotOutcome(found, Path(table.name), question, {})
        notes = [*_notes(seen), f"without training: {found.words}"]
        return Answer(made.table(), made.has_one_series, notes, [], None, made.naive_name, [])

    def understood(self, table: Upload, ids: Sequence[str | int] = (), horizon: int | None = None) -> dict[str, Any]:
        """Return what is understood of a table, and the end of its columns, as plain values."""
        seen, steps = self._read(table, ids, horizon)
        return understood(self.name, seen.series, targets_of(seen.series), [], steps, _notes(seen))

    def _read(self, table: Upload, ids: Sequence[str | int], horizon: int | None) -> tuple[Understanding, int]:
        """Return a table as it is read, and the horizon; raise InputError for more than a request may take."""
        if ids:
            raise InputError(f"ids: not with {self._reads_the_past}: leave them out")
        seen = understand(table)
        columns, steps = len(targets_of(seen.series)), horizon_of(seen.series, horizon)
        origins = len(earlier_origins(seen.series.num_rows, steps, columns))
        work = (origins + 1) * columns * max(steps, open_pretrained().architecture.sizes.horizon)
        if work > MOST_WORK:
            raise InputError(
                f"{counted(columns, 'column')} of {steps:,} steps: with {origins} earlier forecasts {work:,} steps, at "
                f"most {MOST_WORK:,} in a request: ask for fewer steps, or send fewer columns or rows"
            )
        return seen, steps

    @property
    def _reads_the_past(self) -> str:
        return f"the model {self.name}, which reads the past of each column"


def load(name: str, run: str) -> Served | Untrained:
    """Load a run, an ensemble, an exported file, or the network of the package; raise InputError if there is none."""
    if run != NAME:
        return Served(name, ensemble.load(run))
    open_pretrained()
    return Untrained(name)


def _notes(seen: Understanding) -> list[str]:
    return [*(f"read with {word}" for word in seen.words), *dict.fromkeys(seen.series.notes)]
