"""One task from its data to its row: train and forecast with the public commands, and have `fev` score the windows."""

import hashlib
import math
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.published.judge import Judge
from benchmarks.published.lanes import Commands, in_lanes
from benchmarks.published.tasks import LEVELS, Floats, Task
from forecast.common.errors import InputError
from forecast.common.files import look_up, read_json, replacing, write_json
from forecast.common.spreadsheet import write_frame
from forecast.common.tables import Row
from forecast.predict.ensemble import Ensemble, load
from forecast.predict.forecaster import Forecaster
from forecast.predict.panel import PanelForecaster
from forecast.predict.zero_shot import zero_shot
from forecast.runs.results import PROGRAM, commit, device_name
from forecast.runs.run import MANIFEST, RESULT


@dataclass(frozen=True)
class Recipe:
    """Words of the training command beside those of the task; the forecasts of `seeds` trainings are averaged.

    Where columns are known ahead, each of the `variants` is trained with `seeds` seeds, and all are averaged.
    `steps`, if not 0, is the length of a training whose look-back, patch, split and batch follow from the task
    (`lengths`); on wide windows it is three quarters of that (`WIDE`). `retrains` trains again before each window of a
    task with fewer than `FEW_ROWS` rows, with the default loss and its caution instead of `words`: so few rows select
    no quantiles.

    `starts` are the words of a training that begins with the pretrained network, with half the steps: its look-back is
    512 rows, and its patches are its own. It reads no columns known ahead: tasks with some have no such start. Tasks
    with fewer than `FEW_ROWS` rows are then forecast without a training. With `joins`, the forecast without a training
    also counts as one more of those averaged.
    """

    words: tuple[str, ...] = ()
    seeds: int = 1
    variants: tuple[str, ...] = ()
    steps: int = 0
    retrains: bool = False
    starts: tuple[str, ...] = ()
    joins: bool = False


_STARTED = Recipe(
    ("experiment=general",),
    seeds=2,
    variants=("model.response_width=64", "model.response_width=0"),
    steps=2000,
    starts=("start_from=pretrained",),
)

RECIPES: dict[str, Recipe] = {
    "defaults": Recipe(),
    "general": Recipe(
        ("experiment=general",),
        seeds=2,
        variants=("model.response_width=64", "model.response_width=0"),
        steps=2000,
        retrains=True,
    ),
    "started": _STARTED,
    "joined": replace(_STARTED, joins=True),
}
"""The recipes by name. A recipe is committed before its first scoring, and each change before the next one."""

FEW_ROWS = 1000
"""Rows before the first window below which a training takes seconds."""

WIDE = 1000
"""Targets of a window, the horizon of all series, above which a training has three quarters of the steps.

15 minutes on two cores are the limit. With all steps, the trainings on `jena_weather_10T` (3,024 targets) took 17 to 19
minutes, those on `ETT_1H` (2,352) 14.5 and 16.3, and those on `ETT_15T` (1,344) 13.8 to 16.9: the same machine is
slower in some hours. The other tasks have at most 504.
"""

STARTED_LOOK_BACK = 512
"""Rows that the pretrained network reads."""

EPOCHS = 10
"""Most passes over the training windows, where rows are few."""

LANES = 2
"""Trainings at once, each on one core."""

INTERVALS = (20, 40, 60, 80)
"""Central intervals whose ends are the quantiles 0.1 to 0.9 without the median."""

MINUTES = "minutes.json"

JUDGED_BY = (*PROGRAM, ":/benchmarks/published/*.py")
"""Files on which a score depends: those of the program, the recipes and the tasks."""


def lengths(task: Task, rows: int, series: int, steps: int, *, started: bool = False) -> tuple[str, ...]:
    """Return the words for look-back, patch, split and batch of a task with `series` targets, trained on `rows` rows.

    The look-back is 336 steps, 672 of steps below an hour, or two seasons if rows are few. A patch is half a season,
    from 4 to 24 steps; a quarter with columns known ahead, so that the decoder sees them in finer steps. The
    newest tenth of the rows is for validation, or two and a half horizons, if training keeps three windows; there is no
    test split. A training step has about 180 windows of single series, or 32 windows. Up to 600 windows are validated,
    from each step of a season, ten times in a run of `steps` steps, or of `EPOCHS` passes if that is less. A training
    that is `started` from the pretrained network has its look-back and its patches, and half the steps.
    """
    look_back = STARTED_LOOK_BACK if started else _look_back(task, rows)
    most = rows - look_back - task.horizon - 2
    validation = min(most, max(rows // 10, 5 * task.horizon // 2))
    windows = rows - validation - look_back - task.horizon + 1
    batch = min(32, max(8, 180 // series))
    patch = task.season // (4 if task.known else 2)
    least = max(1, validation // 600)
    stride = next(rows for rows in range(least, least + task.season + 1) if math.gcd(rows, task.season) == 1)
    steps = min(steps, math.ceil(EPOCHS * windows / batch)) // (2 if started else 1)
    return (
        f"training.max_steps={steps}",
        f"context_length={look_back}",
        *(() if started else (f"model.patch_length={min(24, max(4, patch))}",)),
        f"data.split={{train: {rows - validation}, validation: {validation}, test: 0}}",
        f"training.batch_size={batch}",
        f"training.evaluation_stride={stride}",
        f"training.validations_per_epoch={10 * windows / batch / steps:.4g}",
    )


def _look_back(task: Task, rows: int) -> int:
    if rows < FEW_ROWS:
        return max(4, 2 * task.season)
    return 672 if task.season > 24 else 336


def _steps(recipe: Recipe, task: Task, series: int) -> int:
    """Return the length of a training: three quarters of the recipe's steps on wide windows."""
    wide = series * task.horizon > WIDE
    return recipe.steps * 3 // 4 if wide else recipe.steps


@dataclass(frozen=True)
class Entry:
    """A task with a recipe; `folder` holds its files, the runs and the forecasts."""

    task: Task
    table: pd.DataFrame
    name: str
    folder: Path

    @property
    def recipe(self) -> Recipe:
        """The recipe of this entry."""
        return RECIPES[self.name]

    @property
    def trainings(self) -> dict[int, int]:
        """The row before which the data of a training end, for the first row of each window."""
        cutoffs = self.task.cutoffs(self.table)
        again = self.recipe.retrains and cutoffs[0] < FEW_ROWS
        return {cutoff: cutoff if again else cutoffs[0] for cutoff in cutoffs}

    @property
    def members(self) -> dict[int, tuple[str, ...]]:
        """The words of each averaged training, by the number that is its seed."""
        recipe = self.recipe
        variants = [(word,) for word in recipe.variants] if self.task.known and recipe.variants else [()]
        start = recipe.starts if self.begins else ()
        each = [(*variant, *start) for variant in variants for _ in range(recipe.seeds)]
        return dict(enumerate(each, start=1))

    @property
    def begins(self) -> bool:
        """Whether the trainings begin with the pretrained network."""
        return bool(self.recipe.starts) and not self.task.known

    @property
    def joins(self) -> bool:
        """Whether the forecast without a training is one of those averaged."""
        return self.recipe.joins and self.begins

    @property
    def untrained(self) -> bool:
        """Whether the task is forecast without a training."""
        return self.begins and self.task.cutoffs(self.table)[0] < FEW_ROWS

    def words(self, end: int, seed: int) -> list[str]:
        """Return the overrides of the training with this seed on the rows before `end`."""
        task, recipe = self.task, self.recipe
        data = task.words(self.table.iloc[:end], self._past(end))
        series = len(task.targets(self.table))
        steps = _steps(recipe, task, series)
        fitted = lengths(task, end, series, steps, started=self.begins) if steps else ()
        seeds = [f"seed={seed}"] if len(self.members) > 1 else []
        words = () if recipe.retrains and end < FEW_ROWS else (*recipe.words, *self.members[seed])
        return [*data, *words, *fitted, *seeds]

    def runs(self, end: int) -> list[Path]:
        """Return the folders of the finished runs on the rows before `end`, one for each seed."""
        folders = [self._runs(end, seed) for seed in self.members]
        return [path.parent for folder in folders for path in sorted(folder.glob(f"*/*/{MANIFEST}"))[:1]]

    @property
    def minutes(self) -> dict[str, float]:
        """Minutes of each finished forecast by name; interrupted ones are not counted."""
        return read_json(self.forecasts / MINUTES) or {}

    @property
    def forecasts(self) -> Path:
        """The folder of the forecasts of these members, from this table by this version of the program."""
        made_of = [digest_of(self.table), str(commit()), *(str(self._runs(*job)) for job in self.jobs)]
        return folder_of(self.folder / "forecasts", made_of)

    @property
    def jobs(self) -> list[tuple[int, int]]:
        """The end of the rows and the seed of each training."""
        if self.untrained:
            return []
        return [(end, seed) for end in dict.fromkeys(self.trainings.values()) for seed in self.members]

    @property
    def untrained_words(self) -> list[str]:
        """Words of the command that forecasts the first window without a training."""
        words = ["-m", "forecast.predict", "--run", "pretrained", "--input", str(self._past(min(self.trainings)))]
        return [*words, "--horizon", str(self.task.horizon), "--levels", *map(str, INTERVALS)]

    def train(self) -> None:
        """Train on the rows before each end, unless that was done.

        Raises
        ------
        InputError
            If a training fails.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        jobs = self.jobs
        for end in dict.fromkeys(end for end, _ in jobs) if jobs else self.trainings:
            _write(self._past(end), self.table.iloc[:end])
        lanes = self.lanes
        in_lanes([partial(self._train_in_turn, jobs[lane::lanes], lane) for lane in range(lanes)])

    @property
    def lanes(self) -> int:
        """Number of trainings at once."""
        return max(1, min(LANES, len(self.jobs)))

    def _train_in_turn(self, jobs: Sequence[tuple[int, int]], lane: int, commands: Commands) -> None:
        for end, seed in jobs:
            folder = self._runs(end, seed)
            if any(folder.glob(f"*/*/{MANIFEST}")):
                continue
            words = [*self.words(end, seed), f"output_dir={folder}", "resume=auto", "training.progress=false"]
            before = self._minutes(folder) if (folder / MINUTES).is_file() else 0.0
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / MINUTES, {"lane": lane, "minutes": None})  # stays if this command is killed
            started = time.monotonic()
            try:
                commands.run(["-m", "forecast.training", *words], 1 if self.lanes > 1 else None)
            finally:  # a training that Ctrl-C or an error ended counts too
                write_json(folder / MINUTES, {"lane": lane, "minutes": before + (time.monotonic() - started) / 60})

    @staticmethod
    def _minutes(folder: Path) -> float:
        """Return the minutes of a training; raise InputError if they are unknown."""
        minutes = (read_json(folder / MINUTES) or {}).get("minutes")
        if minutes is None:
            raise InputError(
                f"{folder}: its minutes are unknown, since the command was killed: make sure that no training runs "
                "there, and delete it to train again"
            )
        return float(minutes)

    @property
    def training_minutes(self) -> float:
        """Minutes of the lane that took longest, the time of all trainings on two cores."""
        taken = dict.fromkeys(range(LANES), 0.0)
        for folder in (self._runs(*job) for job in self.jobs):
            minutes = self._minutes(folder)
            taken[read_json(folder / MINUTES)["lane"]] += minutes
        return max(taken.values())

    def forecast(self) -> list[Floats]:
        """Return the quantiles (h, C, 9) of each window; make the forecasts that are not there yet."""
        quantiles, loaded, place = [], dict[int, Forecaster | Ensemble](), self.forecasts
        place.mkdir(parents=True, exist_ok=True)
        for number, (cutoff, end) in enumerate(self.trainings.items()):
            output = place / f"window_{number}.csv"
            if not output.is_file():
                started = time.monotonic()
                if end not in loaded and not self.untrained:
                    model = load(*self.runs(end))
                    assert not isinstance(model, PanelForecaster)
                    loaded = {end: model}
                with replacing(output) as file:
                    write_frame(file, self.mean(loaded.get(end), cutoff))
                minutes = (time.monotonic() - started) / 60
                write_json(place / MINUTES, self.minutes | {output.stem: minutes})
            quantiles.append(quantiles_of(pd.read_csv(output), self.task.targets(self.table)))
        return quantiles

    def window(self, model: Forecaster | Ensemble | None, cutoff: int) -> pd.DataFrame:
        """Return a forecast from the rows before `cutoff`, with the columns known ahead; None: without a training."""
        past = self.table.iloc[:cutoff]
        if model is None:
            marks = self.task.marks(past)
            options: dict[str, Any] = {"missing_values": marks} if marks else {}
            return zero_shot(past.reset_index(), self.task.horizon, levels=INTERVALS, **options)
        known = self.table[list(self.task.known)].iloc[cutoff : cutoff + self.task.horizon]
        return model.predict(past, known if self.task.known else None, levels=INTERVALS, quantile=0.5)

    def mean(self, model: Forecaster | Ensemble | None, cutoff: int) -> pd.DataFrame:
        """Return the mean of the forecasts of the members and, where it joins them, of that without a training."""
        own = self.window(model, cutoff)
        if model is None or not self.joins:
            return own
        untrained, members = self.window(None, cutoff)[own.columns], len(self.members)
        if not untrained.index.equals(own.index):
            raise InputError(f"{self.task.name}: with and without a training the dates differ")
        return (members * own + untrained) / (members + 1)

    def _past(self, end: int) -> Path:
        return self.folder / f"past_{end}.csv"

    def _runs(self, end: int, seed: int) -> Path:
        return folder_of(
            self.folder / "runs" / f"{end}_{seed}", [*self.words(end, seed), digest_of(self.table.iloc[:end])]
        )


def _write(path: Path, rows: pd.DataFrame) -> None:
    rows.to_csv(path, index_label="date")


def folder_of(place: Path, words: Sequence[str]) -> Path:
    """Return the folder below `place` for these words, so that a run with other words never takes its place."""
    return place / hashlib.sha256(shlex.join(words).encode()).hexdigest()[:12]


def only_run(folder: Path) -> Path | None:
    """Return the folder of the finished run below `folder`, None without one; raise InputError if there are several."""
    found = [path.parent for path in folder.glob(f"*/*/{MANIFEST}")]
    if len(found) > 1:
        raise InputError(f"{folder}: holds {len(found)} finished runs: delete those that are not to count")
    return found[0] if found else None


def digest_of(table: pd.DataFrame) -> str:
    """Return a digest of the dates, names and numbers of a table."""
    parts = (pd.DatetimeIndex(table.index).asi8, table.to_numpy(np.float64))
    return hashlib.sha256(b"".join([repr(list(table.columns)).encode(), *map(np.ndarray.tobytes, parts)])).hexdigest()


def quantiles_of(forecast: pd.DataFrame, targets: Sequence[str]) -> Floats:
    """Return the quantiles (h, C, 9) of a forecast file; its value is the median."""
    columns = []
    for name in targets:
        lower = [forecast[f"{name}_lower_{level}"] for level in reversed(INTERVALS)]
        upper = [forecast[f"{name}_upper_{level}"] for level in INTERVALS]
        columns.append(np.stack([*lower, forecast[name], *upper], axis=1))
    assert len(LEVELS) == 2 * len(INTERVALS) + 1
    return np.stack(columns, axis=1).astype(np.float64)


def row_of(entry: Entry) -> Row:
    """Train, forecast and score; return the row of the record without the number of scorings."""
    judge = Judge(entry.task, entry.table, entry.folder)  # a missing package shows before the trainings
    entry.train()
    minutes = entry.training_minutes  # unknown ones are refused before the windows are scored
    scores = judge.scores(entry.forecast())
    results = [
        read_json(run / RESULT) for end in dict.fromkeys(end for end, _ in entry.jobs) for run in entry.runs(end)
    ]
    words = ["train.py", *entry.words(*entry.jobs[0])] if results else entry.untrained_words
    return {
        "task": entry.task.name,
        "recipe": entry.name,
        **{name: round(score, 5) for name, score in scores.items()},
        "trainings": len(results),
        "trainings_at_once": entry.lanes,
        "training_minutes": round(minutes, 2),
        "forecast_minutes": round(sum(entry.minutes.values()), 2),
        "peak_mib": max((look_up(result, "speed.peak_memory_mib") for result in results), default=None),
        "command": shlex.join(["python", *words]),
        "commit": ", ".join(sorted({str(result["commit"]) for result in results})) or commit(),
        "scoring_commit": commit(JUDGED_BY),
        "machine": ", ".join(sorted({str(result["device"]) for result in results})) or device_name(torch.device("cpu")),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
