"""The contests, the job of the peer, our run, and when our run was as good."""

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

from benchmarks.published.tasks import data_folder
from forecast.common.errors import InputError
from forecast.common.files import look_up, read_json
from forecast.common.tables import Row
from forecast.runs.run import RESULT

CAP = 30.0
"""Most minutes of a training."""

SCORES = ("mae", "mse")


@dataclass(frozen=True)
class Contest:
    """A series, a peer, and our words; both train on `train` rows and are scored on all windows of `validation` rows.

    `settings` are arguments of the peer's class beside horizon, look-back and known columns; all else is its default.
    """

    file: str
    frequency: str
    horizon: int
    train: int
    validation: int
    model: str
    context_length: int
    words: tuple[str, ...]
    targets: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


PATCHTST, INFORMER = {"windows_batch_size": 128}, {"windows_batch_size": 32}
"""Fewer windows a step, each of one series, than the peer's default of 1,024. With that, both models take 14 to 21 s a
step on two cores, and make 127 and 85 of their 5,000 steps in half an hour."""


def _ettm1(model: str, context_length: int, **settings: Any) -> Contest:
    words = ("data=ettm1", "horizon=96")
    return Contest("ETTm1.csv.gz", "15min", 96, 34_560, 11_520, model, context_length, words, settings=settings)


def _prices(model: str, **settings: Any) -> Contest:
    words = ("data=epf_np", "experiment=known_ahead", "horizon=24", "context_length=168")
    known = ("Grid load forecast", "Wind power forecast")
    return Contest("EPF_NP.csv", "h", 24, 47_568, 4_368, model, 168, words, ("OT",), known, settings)


CONTESTS: Mapping[str, Contest] = {
    "ettm1-patchtst": _ettm1("PatchTST", 512, **PATCHTST),
    "ettm1-patchtst-default": _ettm1("PatchTST", 512),
    "ettm1-informer": _ettm1("Informer", 96, **INFORMER),
    "epf_np-nhits": _prices("NHITS"),
    "epf_np-informer": _prices("Informer", **INFORMER),
    "epf_np-informer-default": _prices("Informer"),
}
"""The contests by name: a data set and a class of the peer; `default` has the peer's number of windows a step."""


class Point(NamedTuple):
    """A validation of our run: minutes since its command began, step, MAE and MSE on z-scores."""

    minutes: float
    step: int
    mae: float
    mse: float


def table_of(contest: Contest, folder: Path) -> pd.DataFrame:
    """Return the rows of both parts as z-scores of the training part, indexed by date."""
    path = folder / contest.file
    if not path.is_file():
        raise InputError(f"{path}: no such file: set FORECAST_DATA_DIR")
    table = pd.read_csv(path, index_col=0, parse_dates=True, skipinitialspace=True)
    table = table.iloc[: contest.train + contest.validation]
    past = table.iloc[: contest.train]
    return (table - past.mean()) / past.std(ddof=0)


def long_form(contest: Contest, table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with columns unique_id, ds, y and those known ahead: one block of rows for each target."""
    targets = contest.targets or tuple(table.columns)
    known = table[list(contest.known)]
    blocks = [known.assign(unique_id=name, ds=table.index, y=table[name]) for name in targets]
    return pd.concat(blocks, ignore_index=True)[["unique_id", "ds", "y", *contest.known]]


def job_of(contest: Contest, table: pd.DataFrame, path: Path, minutes: float) -> dict[str, Any]:
    """Return the job of `theirs.py`, whose series are at `path`."""
    return {
        "path": str(path),
        "model": contest.model,
        "horizon": contest.horizon,
        "context_length": contest.context_length,
        "known": list(contest.known),
        "settings": dict(contest.settings),
        "frequency": contest.frequency,
        "validation_start": str(table.index[contest.train]),
        "minutes": minutes,
    }


def train_theirs(contest: Contest, python: str, folder: Path, minutes: float = CAP) -> dict[str, Any]:
    """Train and score the peer with the interpreter of its environment; return the result of `theirs.py`.

    Raises
    ------
    InputError
        If its process fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    table = table_of(contest, data_folder())
    path, job = folder / "series.csv", folder / "job.json"
    long_form(contest, table).to_csv(path, index=False)
    job.write_text(json.dumps(job_of(contest, table, path.resolve(), minutes)), encoding="utf-8")
    script = Path(__file__).with_name("theirs.py")
    done = subprocess.run([python, str(script), str(job.resolve())], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise InputError(f"{python} {script.name} {job}: exit code {done.returncode}:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def words_of(contest: Contest, minutes: float) -> list[str]:
    """Return the words of our training command, with its time limit."""
    whole = round(60 * minutes)
    return [*contest.words, f"training.max_time=00:{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"]


def train_ours(contest: Contest, folder: Path, minutes: float = CAP) -> tuple[list[Point], dict[str, Any]]:
    """Train our model in a process of its own; return its validations in order and its result."""
    words = [*words_of(contest, minutes), "training.progress=false", f"output_dir={folder}"]
    began = time.time()
    done = subprocess.run([sys.executable, "-m", "forecast.training", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise InputError(f"{shlex.join(words)}: exit code {done.returncode}:\n{done.stderr[-2000:]}")
    run = max(path.parent for path in folder.glob(f"*/*/{RESULT}"))
    return curve_of(run, began), read_json(run / RESULT)


def curve_of(run: Path, began: float) -> list[Point]:
    """Return the validations of a run from its TensorBoard file; `began` is in seconds of the clock."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run))
    events.Reload()
    mae, mse = (events.Scalars(f"val/{name}") for name in SCORES)
    return [
        Point((one.wall_time - began) / 60, one.step, one.value, other.value)
        for one, other in zip(mae, mse, strict=True)
    ]


def minutes_until(curve: Sequence[Point], score: str, wanted: float) -> float | None:
    """Return the minutes until the first validation that is at least as good; None if there is none."""
    return next((point.minutes for point in curve if getattr(point, score) <= wanted), None)


def row_of(name: str, python: str, folder: Path, minutes: float = CAP) -> Row:
    """Hold a contest, their training first; return the row of the record."""
    contest = CONTESTS[name]
    theirs = train_theirs(contest, python, folder / "theirs", minutes)
    curve, ours = train_ours(contest, folder / "ours", minutes)
    windows = look_up(ours, "data.windows.validation")
    if windows != theirs["windows"]:
        raise InputError(f"{name}: {windows} windows of ours and {theirs['windows']} of theirs: they must be the same")
    reached = {score: minutes_until(curve, score, theirs[score]) for score in SCORES}
    best = min(curve, key=lambda point: point.mae)
    return {
        "contest": name,
        "most_minutes": minutes,
        "windows": windows,
        "their_minutes": round(theirs["training_minutes"], 2),
        "their_steps": theirs["steps"],
        **{f"their_{score}": round(theirs[score], 5) for score in SCORES},
        **{f"minutes_to_their_{score}": None if at is None else round(at, 2) for score, at in reached.items()},
        "our_minutes": round(curve[-1].minutes, 2),
        "our_mae": round(best.mae, 5),
        "our_mse": round(best.mse, 5),
        "their_parameters": theirs["parameters"],
        "our_parameters": look_up(ours, "model.parameters"),
        "neuralforecast": theirs["neuralforecast"],
        "their_torch": theirs["torch"],
        "our_torch": torch.__version__,
        "command": shlex.join(["python", "train.py", *words_of(contest, minutes)]),
        "commit": ours["commit"],
        "machine": ours["device"],
    }
