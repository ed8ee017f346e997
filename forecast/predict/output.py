"""The files of a forecast: table, sidecar and picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from forecast.common.errors import InputError
from forecast.common.files import write_json
from forecast.common.tables import Table
from forecast.data.scaler import rounded
from forecast.evaluation.coverage import calibrating_windows, coverage_warnings, worst
from forecast.evaluation.holdout import IN_SAMPLE
from forecast.predict.answer import naive_forecast, naive_name
from forecast.predict.ensemble import Ensemble
from forecast.predict.facts import starts_line
from forecast.predict.forecast import Forecast, Question
from forecast.tables.writing import is_workbook, write_table

if TYPE_CHECKING:
    from forecast.predict.forecaster import Forecaster
    from forecast.tables.series import Series


@dataclass(frozen=True)
class Outcome:
    """A forecast, and everything that its files say about it.

    `question` is what was asked, `series` the input read from `source`, `known` further inputs. `notes` are the
    warnings about the input and the models. `hashes` has the SHA-256 of these files before they were read.
    """

    forecaster: "Forecaster | Ensemble"
    series: "Series"
    source: Path
    known: Sequence[Path]
    question: Question
    forecast: Forecast
    notes: list[str]
    hashes: Mapping[Path, str]

    @property
    def members(self) -> "list[Forecaster]":
        """The trained models: one, or those of an ensemble."""
        return self.forecaster.members if isinstance(self.forecaster, Ensemble) else [self.forecaster]

    @property
    def naive(self) -> pd.DataFrame:
        """The naive forecast of the same dates."""
        first = self.members[0]
        dates = pd.DatetimeIndex(self.forecast.values.index)
        return naive_forecast(self.series, first.targets, first.frequency, dates)

    def table(self, layout: str) -> pd.DataFrame:
        """Return the forecast as a table in the layout wide or long, with the naive forecast in as many decimals."""
        naive = rounded(self.naive, self.members[0].decimals, self.members[0].whole)
        return self.forecast.long(naive) if layout == "long" else self.forecast.wide(naive)

    def sidecar(self, table: pd.DataFrame, layout: str) -> dict[str, Any]:
        """Return what the JSON file beside the table says."""
        first, dates = self.members[0], self.forecast.values.index
        return {
            "program": program_version(),
            "models": [
                {
                    "path": str(one.path),
                    "weights_sha256": one.facts.weights,
                    "start_from": one.facts.start,
                    "attention": one.attention,
                }
                for one in self.members
            ],
            "combination": "mean of the models' values and interval ends" if len(self.members) > 1 else None,
            "input": {"file": self.source.name, "sha256": self.hashes[self.source], **_span(self.series.frame.index)},
            "known": [{"file": path.name, "sha256": self.hashes[path]} for path in self.known],
            "forecast": {**_span(dates), "frequency": first.frequency, "series": first.targets},
            "value": value_name(self.question),
            "levels": list(self.question.levels),
            "intervals": self._intervals(),
            "naive": naive_name(self.series, first.frequency),
            "layout": layout,
            "columns": [str(name) for name in (dates.name, *table.columns)],
            "warnings": self.warnings,
        }

    def _intervals(self) -> dict[str, Any] | None:
        """Return how the intervals are calibrated, and what is known of their coverage; None without any."""
        if self.question.is_plain:
            return None
        return {
            "calibration": _one_or_all(self._calibrations),
            "form": _one_or_all([form or "adaptive" for form in self.forecast.forms]),
            "adapted_on_forecasts": _one_or_all(self.forecast.adapted_on),
        }

    def starts_line(self) -> str | None:
        """Return the printed line on the starts of an ensemble's members; None if they are the same."""
        return starts_line([member.facts for member in self.members])

    def interval_line(self) -> str | None:
        """Return the printed line on the intervals; None without any."""
        if not self.question.levels:
            return None
        return f"{intervals_words(self.question.levels, self._calibrations, self._windows())}; {self._form()}"

    def _form(self) -> str:
        """Return the form of the intervals, by the number of earlier forecasts or the reason for the plain one."""
        past = " and ".join(map(str, sorted(set(self.forecast.adapted_on))))
        adaptive = [f"as wide as the errors of {past} earlier forecasts say"] if past else []
        return "; ".join([*adaptive, *dict.fromkeys(form for form in self.forecast.forms if form)])

    def _windows(self) -> str:
        """Return which windows, and how many, calibrate the intervals."""
        selected = sum(each["method"] == IN_SAMPLE for each in self._calibrations)
        if len(self.members) > 1:
            which = f", {selected} of them calibrated on windows that also selected the model" if selected else ""
            return f"mean of the intervals of {len(self.members)} runs{which}"
        return f"calibrated on {calibrating_windows(self._calibrations[0])}"

    @property
    def _calibrations(self) -> list[Mapping[str, Any]]:
        return [member.facts.calibration for member in self.members]

    @property
    def warnings(self) -> list[str]:
        """The warnings about the input and the models, and about intervals whose coverage is unlike their level."""
        return [*self.notes, *coverage_warnings(self._calibrations, self.question.levels)]

    def write(self, output: Path, layout: str) -> None:
        """Write the table to `output`, in the format of its ending, and the sidecar beside it."""
        table = self.table(layout)
        sidecar = self.sidecar(table, layout)
        write_table(output, table)
        write_json(sidecar_of(output), sidecar)

    def complete(self, output: Path, layout: str, picture: Path) -> None:
        """Write a workbook again, with the scores of the models and the picture; do nothing to other files."""
        if is_workbook(output):
            scores = scores_of([member.path for member in self.members])
            write_table(output, self.table(layout), scores=scores, picture=picture)


def intervals_words(levels: Sequence[float], calibrations: Sequence[Mapping[str, Any]], windows: str) -> str:
    """Return which `windows` calibrate the intervals of one or several models, and what is known of their coverage."""
    named = " and ".join(f"{level:g} %" for level in levels)
    known = ", ".join(coverage.words for coverage in worst(calibrations, levels))
    alone = "at worst, " if known and len(calibrations) > 1 else ""
    return f"{named} intervals: {windows}; {alone}{known or 'their coverage is not measured'}"


def scores_of(folders: Sequence[Path]) -> list[Table]:
    """Return the table of scores of each run; an exported file, and a run that is damaged, has none."""
    from forecast.runs import summary  # imported here: only a workbook has scores
    from forecast.runs.read import damage
    from forecast.runs.run import finished_result

    results = [finished_result(folder) for folder in folders if folder.is_dir() and damage(folder) is None]
    return [
        Table(summary.title(result), summary.HEADINGS, summary.table_rows(result), summary.notes(result))
        for result in results
        if result is not None
    ]


def sidecar_of(output: Path) -> Path:
    """Return the path of the sidecar of a table."""
    return output.with_suffix(".json")


def value_name(question: Question) -> str:
    """Return what the values of a forecast are."""
    return "point forecast" if question.quantile is None else f"quantile {question.quantile:g}"


def parse_cost(words: Sequence[str]) -> tuple[float, float]:
    """Return the costs of `--cost over=1 under=4`."""
    named = dict(word.split("=", 1) for word in words if word.count("=") == 1)
    try:
        over, under = float(named.pop("over")), float(named.pop("under"))
        if named or len(words) != 2:
            raise ValueError
    except (KeyError, ValueError):
        raise InputError(f"--cost {' '.join(words)}: give both costs, such as --cost over=1 under=4") from None
    return over, under


def _span(index: pd.Index) -> dict[str, Any]:
    return {"rows": len(index), "first": str(index[0]), "last": str(index[-1])}


def _one_or_all(values: Sequence[Any]) -> Any:
    """Return the value of a single model, the list of those of several, None for none."""
    return (values[0] if len(values) == 1 else list(values)) if values else None


def program_version() -> str:
    """Return the name and version of the program."""
    try:
        return f"forecast {version('forecast')}"
    except PackageNotFoundError:
        return "forecast"
