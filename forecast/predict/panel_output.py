"""The files of a forecast of many series: table, sidecar, and a sheet of nine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.common.files import write_json
from forecast.common.pictures import SHEET, best_median_worst, draw_sheet, mean_errors
from forecast.data.calendar import season_name, seasonal_period
from forecast.evaluation.coverage import calibrating_windows, coverage_warnings
from forecast.predict.forecast import PanelForecast, Question
from forecast.predict.input import ids_of
from forecast.predict.output import intervals_words, program_version, scores_of, sidecar_of, value_name
from forecast.predict.panel import PanelForecaster
from forecast.predict.plot import panel_lines
from forecast.tables.series import Series, only
from forecast.tables.writing import is_workbook, write_table

FORMS = {
    "adaptive": "as wide as the errors of the latest forecasts of each series say",
    "plain": "plain form: the run found no difference between the errors of its series",
}
"""How intervals that were asked to follow recent errors do so, by their form."""


@dataclass(frozen=True)
class PanelOutcome:
    """A forecast of many series, and everything that its files say about it.

    `series` is the panel read from `source`, `known` further inputs; `hashes` has the SHA-256 of these files.
    """

    forecaster: PanelForecaster
    series: Series
    source: Path
    known: Sequence[Path]
    question: Question
    forecast: PanelForecast
    hashes: Mapping[Path, str]

    @property
    def warnings(self) -> list[str]:
        """The warnings about the model, and about intervals whose coverage is unlike their level."""
        facts = self.forecaster.facts
        return [*facts.warnings(), *coverage_warnings([facts.calibration], self.question.levels)]

    def interval_line(self) -> str | None:
        """Return the printed line on the intervals; None without any."""
        if not self.question.levels:
            return None
        calibration = self.forecaster.facts.calibration
        windows = f"calibrated on {calibrating_windows(calibration)}"
        words = intervals_words(self.question.levels, [calibration], windows)
        return f"{words}; {FORMS[self._form()]}" if self.question.adaptive else words

    def _form(self) -> str:
        """Return the form of the intervals, one of `FORMS` or "by series"."""
        if all(member.forms.adaptive is None for member in self.forecaster.members):
            return "plain"
        return "adaptive" if self.question.adaptive else "by series"

    def ended_earlier(self) -> str | None:
        """Return how many series end before the latest time; None if all end together."""
        ids = self.forecast.ids
        ends = pd.DatetimeIndex([dates[0] for dates in self.forecast.dates])
        early = int((ends < ends.max()).sum())
        if not early:
            return None
        place = int(np.argmin(ends.asi8))
        return (
            f"{early:,} of {len(ids):,} series end earlier than the others and are forecast from their own end, the "
            f"first {ids.shown(place)} from {ends[place]}"
        )

    def table(self) -> pd.DataFrame:
        """Return the forecast as a table, with the naive forecast in as many decimals."""
        return self.forecast.table(self.forecaster.decimals, whole=self.forecaster.whole)

    def write(self, output: Path) -> None:
        """Write the table to `output`, in the format of its ending, and the sidecar beside it."""
        table = self.table()
        write_table(output, table, index=False)
        write_json(sidecar_of(output), self._sidecar(table))

    def complete(self, output: Path, picture: Path) -> None:
        """Write a workbook again, with the scores of the model and the picture; do nothing to other files."""
        if is_workbook(output):
            scores = scores_of([one.path for one in self.forecaster.members])
            write_table(output, self.table(), index=False, scores=scores, picture=picture)

    def _sidecar(self, table: pd.DataFrame) -> dict[str, Any]:
        model, facts = self.forecaster, self.forecaster.facts
        times = table[self.forecast.time_column]
        season = seasonal_period(model.frequency)
        intervals = None
        if not self.question.is_plain:
            intervals = {"calibration": facts.calibration, "form": self._form()}
        return {
            "program": program_version(),
            "models": [
                {"path": str(one.path), "weights_sha256": one.facts.weights, "start_from": one.facts.start}
                for one in model.members
            ],
            "input": {"file": self.source.name, "sha256": self.hashes.get(self.source)},
            "known": [{"file": path.name, "sha256": self.hashes.get(path)} for path in self.known],
            "forecast": {
                "id_columns": list(self.forecast.ids.columns),
                "series": len(self.forecast.ids),
                "steps": model.horizon,
                "first": str(times.min()),
                "last": str(times.max()),
                "frequency": model.frequency,
                "targets": self.forecast.targets,
            },
            "value": value_name(self.question),
            "levels": list(self.question.levels),
            "intervals": intervals,
            "naive": f"seasonal naive ({season_name(season, model.frequency)})" if season > 1 else "last value",
            "columns": [str(name) for name in table.columns],
            "left_out": list(self.forecast.ids.left_out),
            "not_in_training": [list(name) for name in model.new_ids(self.forecast.ids)],
            "warnings": self.warnings,
        }

    def draw(self, path: Path, wanted: int | None) -> str:
        """Draw up to nine series, or the one at a place; return the title."""
        forecast, target = self.forecast, self.forecast.targets[0]
        if wanted is None:
            places, how = self._chosen()
        else:
            places, how = [wanted], forecast.ids.shown(wanted)
        lines = [panel_lines(forecast, self.series, target, place) for place in places]
        title = f"{self.source.name}, {target}: {how}"
        draw_sheet(path, lines, title)
        return title

    def place_of(self, wanted: str) -> int:
        """Return the place of a series that is named as `store=17`, or by its id alone."""
        ids = self.forecast.ids
        for place, name in enumerate(ids.names):
            words = [f"{column}={label}" for column, label in zip(ids.columns, name, strict=True)]
            if wanted in (",".join(words), ",".join(name)):
                return place
        example = ",".join(f"{name}=…" for name in ids.columns)
        raise InputError(f"--picture {wanted}: no such series in the forecast: name one as {example}")

    def _chosen(self) -> tuple[list[int], str]:
        """Return the series to draw, by the error of the forecast one horizon before their end, and their name."""
        ids, model = self.forecast.ids, self.forecaster
        if len(ids) <= SHEET:
            return list(range(len(ids))), f"{len(ids):,} series"
        enough = np.flatnonzero(ids.lengths >= model.least_context + model.horizon)
        if len(enough) < SHEET:
            return list(range(SHEET)), f"the first {SHEET} of {len(ids):,} series"
        earlier = only(self.series, enough)
        stops = ids_of(earlier).offsets[1:] - model.horizon
        found = model.forecast_from(earlier, stops, Question(beyond_training=True))
        rows = stops[:, None] + np.arange(model.horizon)
        truth = earlier.measured[self.forecast.targets].to_numpy(np.float64)[rows]
        scale = model.units_of(earlier, stops).scale[:, 0].numpy()
        errors = mean_errors(found.values[..., 0], truth[..., 0]) / scale
        return [int(enough[place]) for place in best_median_worst(errors)], (
            f"best, median and worst three of {len(ids):,} series, by the error of the forecast one horizon before"
        )
