"""Refits of a backtest: trainings on the rows before a date, with the configuration of the run.

They begin with the weights of the model before, or from scratch. They are made at fixed dates, or when the errors grow.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd

from forecast.backtest.folder import Folder
from forecast.backtest.later import slope
from forecast.backtest.outcome import count_seen, scales_of
from forecast.backtest.scores import Errors
from forecast.common.configuration import compose_words, plain_values
from forecast.common.errors import InputError
from forecast.data.contract import DataContract
from forecast.evaluation.significance import FEWEST
from forecast.predict.ensemble import Ensemble, load
from forecast.predict.forecast import Question
from forecast.predict.forecaster import Forecaster
from forecast.predict.history import Chosen, History, Origins, rows_before
from forecast.predict.panel import PanelForecaster
from forecast.predict.rolling import GROUP, Rolling
from forecast.runs.run import is_finished
from forecast.runs.settings import Settings, parse_time
from forecast.tables.numbers import has_value
from forecast.tables.writing import write_table
from forecast.training.start_from import OF_THE_TABLE, options_of_table
from forecast.training.train import train

REFITS, TABLE = "refits", "table.parquet"

LAST, AUTO = "last", "auto"
"""Words of options: a refit begins with the weights of the model before; refits are made when the errors have grown."""

SHARE = 4
"""A refit from the last weights takes the steps of the run divided by this, at most."""

LEVEL = 0.99
"""Confidence level of growing errors, high since each origin asks again."""


@dataclass(frozen=True)
class Refits:
    """The refits of a backtest.

    Parameters
    ----------
    model
        The model of the run.
    frame, source
        The table and its name.
    question
        What each forecast is asked for.
    folder
        The folder of the backtest.
    max_time
        Time limit of each training, dd:hh:mm:ss; None: as in the run.
    start
        Weights that begin a refit: `LAST`, or "scratch".
    """

    model: Forecaster | PanelForecaster
    frame: pd.DataFrame
    source: str
    question: Question
    folder: Path
    max_time: str | None = None
    start: str = LAST
    _rolling: dict[int, Rolling] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.max_time is not None:
            parse_time(self.max_time)

    def groups(self, rolling: Rolling, origins: Origins) -> list[tuple[int, list[int]]]:
        """Return groups of at most `GROUP` origins, each with the place of its refit.

        A refit is due at every step of `origins`, and is made at the first origin from then on.
        """
        due = origins.places(rolling.history.whole.grid, self.model.horizon)
        places = rolling.history.places
        which = np.searchsorted(due, places, side="right")
        runs = np.split(places, np.flatnonzero(np.diff(which)) + 1)
        return [(int(run[0]), run[at : at + GROUP].tolist()) for run in runs for at in range(0, len(run), GROUP)]

    def makers(self, rolling: Rolling, groups: Sequence[tuple[int, Sequence[int]]]) -> list[Callable[[], pd.DataFrame]]:
        """Return a function for each group that returns its forecasts, and trains its model if none has."""
        due = list(dict.fromkeys(first for first, _ in groups))
        return [
            partial(self.forecasts, rolling.history, due[: due.index(first) + 1], places) for first, places in groups
        ]

    def seconds(self) -> float:
        """Return about how long a training takes: as long as the run's, or a share of it."""
        return float(self.model.result["speed"]["fit_seconds"]) / (SHARE if self.start == LAST else 1)

    def forecasts(self, history: History, due: Sequence[int], places: Sequence[int]) -> pd.DataFrame:
        """Return the forecasts from some origins of the last refit; `due` are the places of all refits up to it."""
        if due[-1] not in self._rolling:
            refitted = load(self.run(history, due))
            assert not isinstance(refitted, Ensemble)
            later = tuple(int(place) for place in history.places if place >= due[-1])
            self._rolling.clear()
            self._rolling[due[-1]] = refitted.rolling(self.frame, Chosen("", listed=later), self.question, self.source)
        rolling = self._rolling[due[-1]]
        return rolling.at(sorted(set(places).intersection(rolling.places)))

    def made(self) -> list[str]:
        """Return the dates of the finished refits."""
        return sorted(path.name for path in (self.folder / REFITS).glob("*") if is_finished(path))

    def run(self, history: History, due: Sequence[int]) -> Path:
        """Return the folder of the last refit, which is trained if it is not finished, like those before it."""
        *before, first = due
        date = history.whole.grid[first]
        place = self.folder / REFITS / f"{date:%Y-%m-%dT%H%M%S}"
        if is_finished(place):
            return place
        table = place.with_name(f"{place.name}.{TABLE}")
        if not table.is_file():
            table.parent.mkdir(parents=True, exist_ok=True)
            write_table(table, rows_before(self.model.contract, self.frame, date, self.source), index=False)
        start = None
        if self.start == LAST:
            is_new = count_seen(self.model, history.whole.grid[[first]]) == 0
            start = self.run(history, before) if before else self.model.path if is_new else None
        with redirect_stdout(StringIO()):
            run, _ = train(self.settings(table, start), folder=place)
        return run.path

    def settings(self, table: Path, start: Path | None = None) -> Settings:
        """Return the configuration of the run for another table, without a test split.

        From the weights of the run `start`, it takes a share of the steps.
        """
        contract, run = self.model.contract, self.model.settings
        plain = plain_values(compose_words(["data=csv", f"data.path={TABLE}"]))
        data = {
            **plain["data"],
            **options_of_table(contract, run["data"], OF_THE_TABLE),
            "name": table.name.partition(".")[0],
            "path": str(table),
            "time_column": contract.time_column,
            "frequency": contract.frequency,
            "split": split_of(run["data"]["split"]),
            "last_rows": last_rows_of(contract, table),
            "short_series": "drop" if contract.roles.ids else "error",
        }
        training = {**run["training"], "first_origin": None, "progress": False}
        if self.max_time is not None:
            training["max_time"] = self.max_time
        if start is not None:
            training |= {"max_epochs": None, "max_steps": max(1, self.model.result["model"]["steps"] // SHARE)}
        own = {
            "context_length": contract.context_length,
            "horizon": contract.horizon,
            "data": data,
            "training": training,
            "resume": False,
            "start_from": None if start is None else str(start),
            "freeze": [] if start is None else run.get("freeze", []),
            "ensemble": 1,
            "evaluation": {"baselines": []},
            "output_dir": str(table.parent),
        }
        return Settings.parse({**run, **own})


@dataclass
class Watch:
    """Refits of a backtest when the errors have grown since the last one (`have_grown`).

    An origin knows the errors of earlier forecasts whose last step lies before it. `folder` has the forecasts so far.
    """

    refits: Refits
    rolling: Rolling
    folder: Folder
    due: list[int] = field(default_factory=list)
    _since: int = 0
    _seen: int = 0
    _ratios: list[float] = field(default_factory=list)

    def makers(self) -> list[Callable[[], pd.DataFrame]]:
        """Return a function for each origin that returns its forecasts; they must be called in order."""
        return [partial(self.forecasts, number) for number in range(len(self.rolling.places))]

    def forecasts(self, number: int) -> pd.DataFrame:
        """Return the forecasts of an origin, by its number, after a refit if one is due."""
        places = self.rolling.places
        while self._seen <= number:
            self._decide()
        if not self.due:
            return self.rolling.at([places[number]])
        return self.refits.forecasts(self.rolling.history, self.due, [places[number]])

    def _decide(self) -> None:
        """Decide on a refit at the next origin, from the forecasts before it."""
        number, places = self._seen, self.rolling.places
        if number:
            self._ratios.append(log_ratio(pd.read_parquet(self.folder.part(number - 1)), self.refits.model))
        last = places[number] - self.refits.model.horizon
        known = [ratio for ratio, place in zip(self._ratios, places, strict=False) if place <= last][self._since :]
        overlap = sum(place > last for place in places[:number]) + 1
        if have_grown(np.array(known), overlap):
            self.due.append(places[number])
            self._since = number
        self._seen += 1


def log_ratio(forecasts: pd.DataFrame, model: Forecaster | PanelForecaster) -> float:
    """Return the logarithm of the MAE of an origin over that of the naive forecast; NaN if one of them is 0."""
    total = Errors.of(forecasts, scales_of(model)).total()
    both = total["mae"], total["naive_mae"]
    return float(np.log(both[0] / both[1])) if min(both) > 0 else float("nan")


def have_grown(ratios: np.ndarray, overlap: int) -> bool:
    """Return whether the errors of consecutive origins, in logarithms, have a rising trend that is not by chance.

    The slope over the origins must be above 0 with a confidence of `LEVEL`. `overlap` origins share targets; at least
    `FEWEST` that share none are needed.
    """
    ratios = ratios[np.isfinite(ratios)]
    trend = slope(ratios, overlap, LEVEL) if len(ratios) >= FEWEST * overlap else None
    return trend is not None and trend[1] > 0


def last_rows_of(contract: DataContract, table: Path) -> int | None:
    """Return how many last rows of each series of a file train, as in the run; None, for all, if no series has more."""
    count = contract.reading.last_rows
    if count is None:
        return None
    frame = pd.read_parquet(table)
    measured = pd.Series(np.arange(len(frame)))[has_value(frame, contract.targets)]
    rows = measured.groupby([frame[name] for name in contract.roles.ids] or np.zeros(len(measured)))
    return count if ((rows.max() - rows.min()) >= count).any() else None


def split_of(split: Mapping[str, float]) -> dict[str, float]:
    """Return the split of a refit: no test, the validation with its share of the run, the rest training."""
    validation = split["validation"] / sum(split.values())
    return {"train": 1 - validation, "validation": validation, "test": 0}


def check_refit(model: Forecaster | Ensemble | PanelForecaster) -> Forecaster | PanelForecaster:
    """Return the model of a run; raise InputError for an ensemble or an exported file."""
    if isinstance(model, Ensemble):
        raise InputError("--refit: trains one model again, and --run names several: give one run, or --refit never")
    if not model.path.is_dir():
        raise InputError(f"--refit: {model.path} is no run folder, and has no configuration: give one with --run")
    return model
