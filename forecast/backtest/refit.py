"""Refits of a backtest: trainings from scratch on the rows before a date, with the configuration of the run."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd

from forecast.backtest.parts import write_parquet
from forecast.common.configuration import compose_words, plain_values
from forecast.common.errors import InputError
from forecast.predict.ensemble import Ensemble, load
from forecast.predict.forecast import Question
from forecast.predict.forecaster import Forecaster
from forecast.predict.history import Chosen, History, Origins, rows_before
from forecast.predict.panel import PanelForecaster
from forecast.predict.rolling import GROUP, Rolling
from forecast.runs.settings import Settings, parse_time
from forecast.training.train import train

REFITS, TABLE = "refits", "table.parquet"

OF_THE_TABLE = (
    *("split_by", "least_context", "static_covariates", "id_embedding", "categorical", "perfect_foresight", "holidays"),
    *("holidays_before", "holidays_after", "calendar", "duplicates", "missing", "last_rows"),
)
"""Options of the data that a refit takes from the run; its table is written by the program, so that none says how."""


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
    """

    model: Forecaster | PanelForecaster
    frame: pd.DataFrame
    source: str
    question: Question
    folder: Path
    max_time: str | None = None

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
        return [partial(self.forecasts, rolling.history, first, places) for first, places in groups]

    def seconds(self) -> float:
        """Return about how long a training takes: as long as the run's."""
        return float(self.model.result["speed"]["fit_seconds"])

    def forecasts(self, history: History, first: int, places: Sequence[int]) -> pd.DataFrame:
        """Return the forecasts from some origins of a model trained on the rows before the place `first`."""
        name = f"{history.whole.grid[first]:%Y-%m-%dT%H%M%S}"
        place = self.folder / REFITS / name
        table = place.with_name(f"{name}.{TABLE}")
        if not table.is_file():
            table.parent.mkdir(parents=True, exist_ok=True)
            write_parquet(table, rows_before(self.model.contract, self.frame, history.whole.grid[first], self.source))
        with redirect_stdout(StringIO()):
            run, _ = train(self.settings(table), folder=place)
        refitted = load(run.path)
        assert not isinstance(refitted, Ensemble)
        rolling = refitted.rolling(self.frame, Chosen("", listed=tuple(places)), self.question, self.source)
        return rolling.at(rolling.places)

    def settings(self, table: Path) -> Settings:
        """Return the configuration of the run for another table, without a test split."""
        contract, run = self.model.contract, self.model.settings
        plain = plain_values(compose_words(["data=csv", f"data.path={TABLE}"]))
        data = {
            **plain["data"],
            **{name: run["data"][name] for name in OF_THE_TABLE if name in run["data"]},
            "name": table.name.partition(".")[0],
            "path": str(table),
            "time_column": contract.time_column,
            "frequency": contract.frequency,
            **contract.roles.named,
            "split": split_of(run["data"]["split"]),
            "short_series": "drop" if contract.roles.ids else "error",
        }
        training = {**run["training"], "first_origin": None, "progress": False}
        if self.max_time is not None:
            training["max_time"] = self.max_time
        own = {
            "context_length": contract.context_length,
            "horizon": contract.horizon,
            "data": data,
            "training": training,
            "resume": False,
            "ensemble": 1,
            "output_dir": str(table.parent),
        }
        return Settings.parse({**run, **own})


def split_of(split: Mapping[str, float]) -> dict[str, float]:
    """Return the split of a refit: no test, the validation with its share of the run, the rest training."""
    validation = split["validation"] / sum(split.values())
    return {"train": 1 - validation, "validation": validation, "test": 0}


def check_refit(model: Forecaster | Ensemble | PanelForecaster) -> Forecaster | PanelForecaster:
    """Return the model of a run; raise InputError for an ensemble or an exported file."""
    if isinstance(model, Ensemble):
        raise InputError("--refit: trains one model again, and --run names several: give one run, or --refit never")
    if model.path is None or not model.path.is_dir():
        raise InputError(f"--refit: {model.path} is no run folder, and has no configuration: give one with --run")
    return model
