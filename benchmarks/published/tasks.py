"""The nine tasks: the data of each, its windows, and what is known ahead.

Source: fev-bench, github.com/autogluon/fev, `benchmarks/fev_bench/tasks.yaml` (Apache-2.0).
"""

import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecast.common.errors import InputError

Floats = NDArray[np.float64]

LEVELS = tuple(round(0.1 * number, 1) for number in range(1, 10))
"""Quantile levels that are scored; the forecast for MASE is the median."""


@dataclass(frozen=True)
class Task:
    """A task: the last `windows` · `horizon` steps of a table are its test part, cut into windows.

    `season` is the lag of the seasonal naive forecast and of the scale of the scores. `known` are the columns that are
    known ahead; all others are targets. `naive_mase` is the published MASE of the seasonal naive forecast. It
    does not depend on what is known ahead: `known_digest` is the digest of these columns in the first scoring.
    Numbers below `floor` stand for a missing value, or are the mean of some; the scores take them as they are.
    """

    name: str
    files: tuple[str, ...]
    horizon: int
    windows: int
    season: int
    naive_mase: float
    read: Callable[..., pd.DataFrame] = field(repr=False)
    known: tuple[str, ...] = ()
    known_digest: str = ""
    floor: float = -math.inf

    def table(self, folder: Path) -> pd.DataFrame:
        """Return the table, indexed by date: targets, then the columns known ahead.

        Raises
        ------
        InputError
            If a file is not in `folder`.
        """
        paths = [folder / name for name in self.files]
        if missing := [path.name for path in paths if not path.is_file()]:
            raise InputError(f"{self.name} needs {', '.join(missing)}, not in {folder}: set FORECAST_DATA_DIR")
        return self.read(*paths)

    def targets(self, table: pd.DataFrame) -> list[str]:
        """Return the columns to forecast."""
        return [str(name) for name in table.columns if name not in self.known]

    def marks(self, table: pd.DataFrame) -> list[float]:
        """Return the numbers of the targets that stand for a missing value, in order."""
        values = table[self.targets(table)].to_numpy(dtype=np.float64)
        return sorted(set(values[values < self.floor].tolist()))

    def words(self, table: pd.DataFrame, path: Path) -> list[str]:
        """Return the overrides of a training on `table`, which is stored at `path`."""
        words = ["data=csv", f"data.path={path}", f"data.name={self.name}", f"horizon={self.horizon}"]
        words += [f"data.targets=[{_listed(self.targets(table))}]"]
        words += [f"data.known_covariates=[{_listed(self.known)}]"] if self.known else []
        words += ["data.missing=ffill"] if table.isna().to_numpy().any() else []
        marks = self.marks(table)
        return [*words, *([f"data.missing_values={marks}"] if marks else [])]

    def cutoffs(self, table: pd.DataFrame) -> list[int]:
        """Return the first row of each window, the oldest first."""
        return [len(table) - self.horizon * number for number in range(self.windows, 0, -1)]


def _listed(names: Sequence[str]) -> str:
    return ",".join(f'"{name}"' for name in names)


def data_folder() -> Path:
    """Return the folder of the data files; raise InputError if `FORECAST_DATA_DIR` is not set."""
    folder = os.environ.get("FORECAST_DATA_DIR")
    if not folder:
        raise InputError("set FORECAST_DATA_DIR to the folder of the data files")
    return Path(folder)


def seasonal_naive(past: Floats, horizon: int, season: int) -> Floats:
    """Repeat the last season of `past` (N, C) over the horizon, shape (h, C)."""
    return past[len(past) - season + np.arange(horizon) % season]


def seasonal_error(past: Floats, season: int) -> Floats:
    """Return the mean of |y_t - y_(t-season)| over the past (N, C), without missing values, shape (C,)."""
    error: Floats = np.nanmean(np.abs(past[season:] - past[:-season]), axis=0)
    return error


def windows_of(task: Task, table: pd.DataFrame) -> Iterator[tuple[Floats, Floats]]:
    """Yield the past (N, C) and the future (h, C) of the targets for each window."""
    values = table[task.targets(table)].to_numpy(dtype=np.float64)
    for cutoff in task.cutoffs(table):
        yield values[:cutoff], values[cutoff : cutoff + task.horizon]


def mase(task: Task, table: pd.DataFrame, forecast: Callable[[Floats], Floats]) -> float:
    """Return the MASE of a forecast: errors over the seasonal error of the past, averaged over windows.

    `forecast` maps a past (N, C) to (h, C).
    """
    scores = [
        np.nanmean(np.abs(future - forecast(past)) / seasonal_error(past, task.season))
        for past, future in windows_of(task, table)
    ]
    return float(np.mean(scores))


def naive_mase(task: Task, table: pd.DataFrame) -> float:
    """Return the MASE of the seasonal naive forecast."""
    return mase(task, table, lambda past: seasonal_naive(past, task.horizon, task.season))


def check_data(task: Task, table: pd.DataFrame) -> float:
    """Return the MASE of the seasonal naive forecast.

    Raises
    ------
    InputError
        If it is not the published one, to six digits, or if the columns known ahead are not those of `known_digest`.
    """
    found = naive_mase(task, table)
    if f"{found:.6f}" != f"{task.naive_mase:.6f}":
        raise InputError(
            f"{task.name}: the seasonal naive forecast has MASE {found:.6f}, published is {task.naive_mase:.6f}: "
            "the data or the windows are not those of the benchmark, so no score of this task can be compared"
        )
    if known_digest(task, table) != task.known_digest:
        raise InputError(
            f"{task.name}: {', '.join(task.known)}: other numbers than in the first scoring: use the same files"
        )
    return found


def known_digest(task: Task, table: pd.DataFrame) -> str:
    """Return a digest of the numbers that are known ahead; empty if there are none."""
    numbers = table[list(task.known)].to_numpy(np.float64)
    return hashlib.sha256(numbers.tobytes()).hexdigest()[:16] if task.known else ""


# --- the data


def _prices(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path)
    table.columns = table.columns.str.strip()
    table["date"] = pd.to_datetime(table["date"], format="mixed")
    table = table.set_index("date")
    return table[[*table.columns[-1:], *table.columns[:-1]]]  # the price is the last column


def _transformers(*paths: Path) -> pd.DataFrame:
    """Return the columns of several stations beside each other."""
    tables = [pd.read_csv(path, index_col="date", parse_dates=True) for path in paths]
    return pd.concat([table.add_suffix(f" {number}") for number, table in enumerate(tables, 1)], axis=1)


def _transformers_by(rule: str) -> Callable[..., pd.DataFrame]:
    def read(*paths: Path) -> pd.DataFrame:
        return _transformers(*paths).resample(rule).mean().iloc[1:-1]  # first and last period are incomplete

    return read


def _loads(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path)
    dates = pd.to_datetime(table["Date"], format="%m/%d/%y") + pd.to_timedelta(table["Hour"] - 1, unit="h")
    table = table.set_index(dates.rename("date"))[["load", "T"]]
    return table.iloc[-17_520:]  # two years


def _weather(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path, index_col="date", parse_dates=True, encoding="utf-8")
    table = table[~table.index.duplicated()]
    return table.asfreq("10min")


def _hourly_weather(path: Path) -> pd.DataFrame:
    return _weather(path).resample("h").mean().iloc[:-1]


_NORDIC, _GERMAN = (
    ("Grid load forecast", "Wind power forecast"),
    ("Wind power forecast", "Ampirion zonal load forecast"),
)
_HOURLY, _QUARTERS = ("ETTh1.csv", "ETTh2.csv"), ("ETTm1.csv.gz", "ETTm2.csv.gz")

TASKS: Mapping[str, Task] = {
    task.name: task
    for task in (
        Task("epf_np", ("EPF_NP.csv",), 24, 20, 24, 1.761304, _prices, _NORDIC, "3e864a81f9399820"),
        Task("epf_de", ("EPF_DE.csv",), 24, 20, 24, 1.708595, _prices, _GERMAN, "70704faa66a4bc19"),
        Task("ETT_15T", _QUARTERS, 96, 20, 96, 0.916890, _transformers),
        Task("ETT_1H", _HOURLY, 168, 20, 24, 1.322716, _transformers),
        Task("ETT_1D", _HOURLY, 28, 20, 7, 1.491547, _transformers_by("D")),
        Task("ETT_1W", _HOURLY, 13, 5, 1, 2.620119, _transformers_by("W-SUN")),
        Task("proenfo_gfc14", ("GEFCom2014-E.csv",), 168, 20, 24, 1.198854, _loads, ("T",), "e9f57e7a55b4bb2b"),
        Task("jena_weather_10T", ("weather.csv.gz",), 144, 20, 144, 0.730024, _weather, floor=-500),
        Task("jena_weather_1H", ("weather.csv.gz",), 24, 20, 24, 0.739900, _hourly_weather, floor=-500),
    )
}
"""The tasks by name."""
