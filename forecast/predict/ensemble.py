"""Ensembles: the mean of the forecasts of several runs."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.predict.contexts import TrainedModel, has_ids, is_of_panel
from forecast.predict.explanation import Explained, mean_explained
from forecast.predict.exported import FORMATS, open_exported
from forecast.predict.forecast import Forecast, Question, mean_of
from forecast.predict.forecaster import Forecaster
from forecast.predict.history import Origins
from forecast.predict.panel import PanelForecaster
from forecast.predict.rolling import Rolling, blocks_of_series
from forecast.predict.scores import network_forecasts, origins_of, score_table
from forecast.predict.shown import Shown
from forecast.runs.ensemble import ENSEMBLE, with_members
from forecast.runs.run import Run
from forecast.tables.repair import Policies
from forecast.tables.roles import OPTIONS
from forecast.tables.series import Series

Member = TypeVar("Member", bound=TrainedModel)

ALIKE = ("horizon", *(OPTIONS[role] for role in ("targets", "past", "known")), "time_column", "frequency", "policies")
"""Properties that must be equal in an ensemble; look-back, model and seed may differ."""


@dataclass(frozen=True, repr=False)
class Ensemble(Shown):
    """Forecasters with the same horizon, trained on the same split of the same data.

    Attributes
    ----------
    members
        The forecasters.
    folder
        Folder of an ensemble that one call or command trained; None: several run folders.
    """

    members: list[Forecaster]
    folder: Path | None = None

    @property
    def path(self) -> Path | None:
        return self.folder

    @property
    def result(self) -> dict[str, Any]:
        """The content of `ensemble.json`: the scores of the mean forecast."""
        return self._content(ENSEMBLE)

    @property
    def targets(self) -> list[str]:
        """Names of the columns to forecast."""
        return self.members[0].targets

    @property
    def time_column(self) -> str:
        """Name of the time column."""
        return self.members[0].time_column

    @property
    def frequency(self) -> str:
        """Step of the series."""
        return self.members[0].frequency

    @classmethod
    def load(cls, paths: Sequence[str | os.PathLike[str]], folder: Path | None = None) -> "Ensemble":
        """Load the finished runs at `paths`; raise InputError if they cannot be averaged.

        `folder` is the folder of all of them.
        """
        return cls(_members(_each_once(paths), Forecaster.load), folder)

    def read(self, path: str | os.PathLike[str], known: Sequence[str | os.PathLike[str]] = ()) -> Series:
        """Read the files and check them for every member; return the series of the longest look-back."""
        checked = [(member.context_length, member.read(path, known)) for member in self.members]
        return max(checked, key=lambda pair: pair[0])[1]

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
        """Return the mean of the forecasts of all members and of their interval ends; see `Forecaster.predict`."""
        question = Question(tuple(levels), quantile, adaptive, beyond_training)
        return self.forecast_of(frame, known, question)[1].wide()

    def forecast_of(self, frame: Any, known: Any, question: Question) -> tuple[Series, Forecast]:
        """Return the checked series of a table, and the mean of the forecasts of all members."""
        made = [member.forecast_of(frame, known, question) for member in self.members]
        return made[0][0], self._mean([forecast for _, forecast in made])

    def score(self, frame: Any, known: Any = None, *, start: Any = None) -> pd.DataFrame:
        """Return the errors of the mean forecast of every window in `frame`; see `Forecaster.score`."""
        longest = max(range(len(self.members)), key=lambda place: self.members[place].context_length)
        series = [member.series_of(frame, known) for member in self.members]
        forecasts = [network_forecasts(*pair) for pair in zip(self.members, series, strict=True)]

        def mean(origins: np.ndarray) -> np.ndarray:
            return np.asarray(np.mean([forecast(origins) for forecast in forecasts], axis=0))

        model, own = self.members[longest], series[longest]
        return score_table(mean, model, own, origins_of(model, own, start))

    def plot(
        self, frame: Any, known: Any = None, *, levels: Sequence[float] = (80,), truth: Any = None, axes: Any = None
    ) -> Any:
        """Draw the mean forecast after `frame`; see `Forecaster.plot`."""
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
        """Return the mean forecasts from every origin of a stretch of `frame`; see `Forecaster.backtest`."""
        return self.rolling(frame, Origins(start, end, step), Question(tuple(levels))).table()

    def rolling(self, frame: pd.DataFrame, origins: Origins, question: Question, source: str = "the frame") -> Rolling:
        """Return the forecasts of `backtest`, which are computed on demand; the longest look-back reads the table."""
        self.check_question(question)
        reader = max(self.members, key=lambda member: member.context_length)
        history = reader.history(frame, origins, source)
        return Rolling(history, partial(blocks_of_series, self.answers, history, question))

    def explain(self, frame: Any, known: Any = None, target: str | None = None) -> pd.DataFrame:
        """Return the contributions to the mean forecast after `frame`; see `Forecaster.explain`."""
        several = [member.explained(member.series_of(frame, known)) for member in self.members]
        return mean_explained(several).table(target)

    def explained(self, series: Series) -> Explained:
        """Return the mean of the members' point forecasts after a checked series, to be explained."""
        return mean_explained([member.explained(series) for member in self.members])

    def check_question(self, question: Question) -> None:
        """Raise InputError if a member cannot answer a question."""
        for member in self.members:
            member.check_question(question)

    def answer(self, series: Series, question: Question) -> Forecast:
        """Return the mean of the members' forecasts of a checked series, and of their interval ends."""
        return self.answers([series], question)[0]

    def answers(self, several: Sequence[Series], question: Question) -> list[Forecast]:
        """Return the mean forecasts of `answer` for several checked series; all or none have filled values."""
        each = [member.answers(several, question) for member in self.members]
        return [self._mean(forecasts) for forecasts in zip(*each, strict=True)]

    def _mean(self, forecasts: Sequence[Forecast]) -> Forecast:
        return mean_of(forecasts).rounded(self.members[0].decimals, self.members[0].whole)

    def warnings(self, series: Series) -> list[str]:
        """Return the warnings of all members, each once."""
        return list(dict.fromkeys(text for member in self.members for text in member.warnings(series)))


def mean_of_runs(paths: Sequence[str | os.PathLike[str]], folder: Path | None = None) -> Ensemble | PanelForecaster:
    """Load the mean of the finished runs at `paths`; `folder` is the folder of all of them."""
    runs = _each_once(paths)
    if not any(map(is_of_panel, runs)):
        return Ensemble.load(runs, folder)
    first, *others = _members(runs, PanelForecaster.load)
    return replace(first, others=tuple(others))


def _each_once(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the run folders at `paths`; refuse one that is named twice."""
    runs = [Run.open(path).path for path in paths]
    for place, run in enumerate(runs):
        if run.resolve() in [other.resolve() for other in runs[:place]]:
            raise InputError(f"--run {run}: given twice, which would double its weight: give each run once")
    return runs


def _members(runs: Sequence[Path], opened: Callable[[Path], Member]) -> list[Member]:
    """Return the models of runs; refuse those that cannot be averaged."""
    first, *others = members = _reading_alike([opened(run) for run in runs])
    for run, other in zip(runs[1:], others, strict=True):
        if difference := _difference(first, other):
            cure = "give runs of the same data, targets and horizon"
            raise InputError(f"{run}: cannot be averaged with {runs[0]}: {difference}: {cure}")
    return members


def _reading_alike(members: list[Member]) -> list[Member]:
    """Return the members; if some read the known covariates and others do not, all get them."""
    if all(member.unread for member in members):
        return members
    read = [replace(each.contract, unread=[]) if each.unread else each.contract for each in members]
    return [replace(each, contract=contract) for each, contract in zip(members, read, strict=True)]


def _difference(first: TrainedModel, other: TrainedModel) -> str:
    """Return the first difference that prevents averaging two forecasters; empty if none does."""
    for name in ALIKE:
        ours, theirs = getattr(first, name), getattr(other, name)
        if ours != theirs:
            if isinstance(ours, Policies):
                ours, theirs = ours.facts(), theirs.facts()
            return f"{name.replace('_', ' ')} {theirs}, not {ours}"
    if first.contract.encoder != other.contract.encoder:
        return "its known covariates have other labels or another scale"
    if first.contract.reading.resampling != other.contract.reading.resampling:
        return "its rows were put into other steps (data.resample, data.aggregate or data.snap)"
    if first.whole != other.whole:
        return "its forecasts are rounded to whole numbers otherwise (data.whole_numbers)"
    one, two = first.contract.scaler, other.contract.scaler
    for ours, theirs in ((one.mean, two.mean), (one.scale, two.scale)):
        if not np.array_equal(ours, theirs):
            return "its training split has another mean or standard deviation"
    if first.contract.static != other.contract.static:
        return "it reads other static covariates, or ids"
    return ""


def load(path: str | os.PathLike[str], *others: str | os.PathLike[str]) -> Forecaster | Ensemble | PanelForecaster:
    """Load a trained model for forecasting, or an ensemble of several.

    Parameters
    ----------
    path
        Folder of a finished run, or of an ensemble (ensemble=5); "latest" for the finished run under outputs/ that
        started last; or an .onnx or .pt2 file written by `python -m forecast.export`.
    others
        Folders of further runs on the same data, such as other seeds. The result then forecasts the mean of all.

    Returns
    -------
    Forecaster, Ensemble or PanelForecaster
        The model, whose `path` is the folder or file that was loaded, the ensemble with its `members`, or the model of
        a long table. All have `predict`.

    Raises
    ------
    InputError
        If there is no finished run or exported model at `path`, or it is damaged, or the runs cannot be averaged.
    """
    paths = with_members([path, *others])
    if len(paths) > 1:
        return mean_of_runs(paths, None if others else Path(path))
    place = Path(paths[0])
    if str(path) != "latest" and place.suffix in FORMATS and not place.is_dir():
        return load_exported(place)
    return load_run(Run.open(paths[0]).path)


def load_exported(path: Path, run: str | os.PathLike[str] | None = None) -> Forecaster | PanelForecaster:
    """Load the model, of one series or of many, in an .onnx or .pt2 file written by `python -m forecast.export`.

    Raises
    ------
    InputError
        If the file is invalid, a package that opens it is missing, or it was not exported from `run`.
    """
    exported = open_exported(path)
    if run is not None:
        exported.check_made_from(Run.open(run))
    return (PanelForecaster if has_ids(exported.facts) else Forecaster).of_exported(exported, path)


def load_run(folder: Path, attention: str | None = None) -> Forecaster | PanelForecaster:
    """Load the finished run in a folder, of one series or of many; `attention` as for `Forecaster.load`."""
    return (PanelForecaster if is_of_panel(folder) else Forecaster).load(folder, attention)
