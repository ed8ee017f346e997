"""One task from its data to its row: train and forecast with the public commands, and have `fev` score the windows."""

import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from benchmarks.published.judge import Judge
from benchmarks.published.tasks import LEVELS, Floats, Task
from forecast.common.errors import InputError
from forecast.common.files import look_up, read_json, write_json
from forecast.common.processes import environment
from forecast.common.tables import Row
from forecast.runs.results import commit, device_name
from forecast.runs.run import RESULT

RECIPES: dict[str, tuple[str, ...]] = {"defaults": ()}
"""Words of each recipe, beside those of the task. A recipe is committed before its first scoring."""

INTERVALS = (20, 40, 60, 80)
"""Central intervals whose ends are the quantiles 0.1 to 0.9 without the median."""


MINUTES = "minutes.json"


@dataclass(frozen=True)
class Entry:
    """A task with a recipe; `folder` holds its files, the run and the forecasts."""

    task: Task
    table: pd.DataFrame
    recipe: str
    folder: Path

    @property
    def words(self) -> list[str]:
        """The overrides of the training command."""
        task = self.task
        columns = [f"data.targets=[{_listed(task.targets(self.table))}]"]
        columns += [f"data.known_covariates=[{_listed(task.known)}]"] if task.known else []
        gaps = ["data.missing=ffill"] if self.table.isna().to_numpy().any() else []
        data = ["data=csv", f"data.path={self._past}", f"data.name={task.name}", *columns, *gaps]
        return [*data, f"horizon={task.horizon}", *RECIPES[self.recipe]]

    @property
    def run(self) -> Path | None:
        """The folder of its finished run."""
        return next((path.parent for path in self.folder.glob(f"runs/*/*/{RESULT}")), None)

    @property
    def _past(self) -> Path:
        return self.folder / "past.csv"

    @property
    def minutes(self) -> dict[str, float]:
        """Minutes of each finished command by name, `train` and `window_0` on; interrupted ones are not counted."""
        return read_json(self.folder / MINUTES) or {}

    def train(self) -> None:
        """Train on the rows before the first window, unless that was done.

        Raises
        ------
        InputError
            If the training fails.
        """
        if self.run is not None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        _write(self._past, self.table.iloc[: self.task.cutoffs(self.table)[0]])
        words = [*self.words, f"output_dir={self.folder / 'runs'}", "resume=auto", "training.progress=false"]
        self._call("train", ["-m", "forecast.training", *words])

    def forecast(self) -> list[Floats]:
        """Return the quantiles (h, C, 9) of each window; make the forecasts that are not there yet."""
        quantiles = []
        for number, cutoff in enumerate(self.task.cutoffs(self.table)):
            output = self.folder / f"window_{number}.csv"
            if not output.is_file():
                self._forecast_window(cutoff, output)
            quantiles.append(quantiles_of(pd.read_csv(output), self.task.targets(self.table)))
        return quantiles

    def _forecast_window(self, cutoff: int, output: Path) -> None:
        """Forecast from the rows before `cutoff`; of the horizon, the input has the columns that are known ahead."""
        rows = self.table.iloc[: cutoff + self.task.horizon].copy()
        rows.loc[rows.index[cutoff:], self.task.targets(rows)] = np.nan
        given = self.folder / "input.csv"
        _write(given, rows if self.task.known else rows.iloc[:cutoff])
        assert self.run is not None
        words = ["--run", str(self.run), "--input", str(given), "--output", str(output), "--quantile", "0.5"]
        self._call(output.stem, ["-m", "forecast.predict", *words, "--levels", *map(str, INTERVALS)])

    def _call(self, name: str, words: Sequence[str]) -> None:
        minutes = _timed(words)
        write_json(self.folder / MINUTES, self.minutes | {name: minutes})


def _listed(names: Sequence[str]) -> str:
    return ",".join(f'"{name}"' for name in names)


def _write(path: Path, rows: pd.DataFrame) -> None:
    rows.to_csv(path, index_label="date")


def _timed(words: Sequence[str]) -> float:
    """Run a command of the program; return the minutes."""
    started = time.monotonic()
    done = subprocess.run([sys.executable, *words], env=environment(), capture_output=True, text=True)
    if done.returncode != 0:
        raise InputError(
            f"{shlex.join(['python', *words])} ended with exit code {done.returncode}:\n{done.stderr[-2000:]}"
        )
    return (time.monotonic() - started) / 60


def quantiles_of(forecast: pd.DataFrame, targets: Sequence[str]) -> Floats:
    """Return the quantiles (h, C, 9) of a forecast file; its value is the median."""
    columns = []
    for name in targets:
        lower = [forecast[f"{name}_lower_{level}"] for level in reversed(INTERVALS)]
        upper = [forecast[f"{name}_upper_{level}"] for level in INTERVALS]
        columns.append(np.stack([*lower, forecast[name], *upper], axis=1))
    assert len(LEVELS) == 2 * len(INTERVALS) + 1
    return np.stack(columns, axis=1).astype(np.float64)


def row_of(entry: Entry, scored_before: int) -> Row:
    """Train, forecast and score; return the row of the record."""
    entry.train()
    scores = Judge(entry.task, entry.table, entry.folder).scores(entry.forecast())
    minutes = entry.minutes
    assert entry.run is not None
    return {
        "task": entry.task.name,
        "recipe": entry.recipe,
        **{name: round(score, 5) for name, score in scores.items()},
        "training_minutes": round(minutes["train"], 2),
        "forecast_minutes": round(sum(minutes.values()) - minutes["train"], 2),
        "peak_mib": look_up(read_json(entry.run / RESULT), "speed.peak_memory_mib"),
        "times_scored": scored_before + 1,
        "command": shlex.join(["python", "train.py", *entry.words]),
        "commit": commit(),
        "machine": device_name(torch.device("cpu")),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
