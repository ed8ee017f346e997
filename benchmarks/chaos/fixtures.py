"""Make the small runs that the trials damage, interrupt and copy, once per campaign and with the real commands."""

import csv
import hashlib
import importlib.util
import json
import mmap
import os
import shutil
import signal
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.chaos.command import Ended, run
from benchmarks.chaos.operations import COUNTER, Operations

CONTEXT, HORIZON = 48, 12

TABLE = "data/table.csv"

DATA = ["data=csv", f"data.path={TABLE}", "data.past_covariates=[air]"]

SMALL = [
    *(f"context_length={CONTEXT}", f"horizon={HORIZON}", "trainer.accelerator=cpu", "training.precision=32-true"),
    *("training.progress=false", "training.start_confidence=null", "training.batch_size=16"),
    *("model.d_model=8", "model.d_ff=16", "model.num_heads=2", "optimizer.lr=0.01"),
    *("~callbacks.figures", "~callbacks.probe", "~callbacks.early_stopping"),
]
"""Overrides of every small run; pictures of validations are off, since they take half of the time."""

PATCHES = ["model=patch_informer", "model.patch_length=12", "model.linear_path=zero"]
POINTS = ["model=informer", "model.start_length=12"]

SWEEPING = ["sweep.name=s", "attention=full,linear", "sweep.repeat_timing=0"]

LONG = 120
"""Time limit of a fixture's command in seconds."""

SWEEP = "outputs/sweeps/s"
"""Folder of the fixtures' sweep, with two finished runs on the same data."""

RUN, OTHER = f"{SWEEP}/attention-full", f"{SWEEP}/attention-linear"
EXPORTS = ("model.pt2", "model.onnx")


def hourly(rows: int = 700, seed: int = 0) -> pd.DataFrame:
    """Return an hourly table with three columns of daily period and different levels."""
    hour = np.arange(rows)
    noise = np.random.default_rng(seed).standard_normal((rows, 3))
    day = np.sin(2 * np.pi * hour / 24)
    return pd.DataFrame(
        {
            "date": pd.date_range("2016-07-01", periods=rows, freq="h"),
            "load": 1000 + 100 * (day + 0.3 * noise[:, 0]),
            "oil": -5 + 0.1 * (day + 0.3 * noise[:, 1]),
            "air": 20 + 5 * (day + 0.3 * noise[:, 2]),
        }
    )


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def facts(run_folder: Path) -> dict[str, Any]:
    """Return the facts that are exactly equal in two runs of one configuration, with or without interruptions."""
    result = json.loads((run_folder / "result.json").read_text(encoding="utf-8"))
    return {
        "weights": digest(run_folder / "model.safetensors"),
        "errors": digest(run_folder / "errors.parquet"),
        "scores": {part: result[part] for part in ("validation", "test", "baselines")},
        "best_step": result["model"]["best_step"],
        "steps": result["model"]["steps"],
    }


MEASURED = (
    *("folder", "seconds", "_per_s", "_ms", "share", "memory", "cost", "dominated", "speed", "disturbed"),
    *("in_turn", "rounds", "train_against", "inference_against"),
)
"""Parts of the names of columns with measured values, which differ between runs."""


def sweep_facts(folder: Path) -> dict[str, Any]:
    """Return the facts that are equal in two runs of a sweep: its runs, and its tables without measured values."""
    runs = {path.parent.name: facts(path.parent) for path in sorted(folder.glob("*/manifest.json"))}
    tables = {name: _unmeasured(folder / name) for name in ("sweep.csv", "jobs.csv", "report.csv")}
    return {**runs, **tables}


def _unmeasured(path: Path) -> list[dict[str, str]] | None:
    if not path.is_file():
        return None
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    return [{key: cell for key, cell in row.items() if not any(part in key for part in MEASURED)} for row in rows]


@dataclass(frozen=True)
class Course:
    """A training for interruption trials, with figures of the uninterrupted run.

    Attributes
    ----------
    facts
        Facts of the uninterrupted run.
    operations
        Number of operations that change a file.
    seconds
        Total time.
    """

    name: str
    words: list[str]
    facts: dict[str, Any]
    operations: int
    seconds: float


COURSES = {
    "patches": [*DATA, *SMALL, *PATCHES, "training.max_steps=120", "training.max_epochs=9"],
    "points": [*DATA, *SMALL, *POINTS, "training.max_steps=80", "training.max_epochs=9"],
    "saves": [*DATA, *SMALL, *PATCHES, "training.max_steps=60", "training.checkpoint_minutes=0.0005", "loss=mse"],
    "weighted": [
        *("data=synthetic", "data.rows=700", "data.targets=[oil_temperature_c]", *SMALL, "model=patch_informer"),
        *("model.patch_length=12", "training.max_steps=200", "training.max_epochs=20"),
        *("training.validations_per_epoch=1", "scheduler=cosine"),
    ],
}
"""Trainings for interruptions by name: presets, losses, schedules, saves between validations."""


def _has_onnx() -> bool:
    return all(importlib.util.find_spec(name) for name in ("onnx", "onnxscript", "onnxruntime"))


class Fixtures:
    """Folders that trials copy, each made on first use.

    Parameters
    ----------
    folder
        Empty folder.
    quick
        Make only one course, and no export.
    """

    def __init__(self, folder: Path, quick: bool = False) -> None:
        self.folder = folder
        self.quick = quick
        self.logs = folder / "logs"
        self.references: dict[str, Any] = {}

    @cached_property
    def table(self) -> Path:
        """The table of the small runs."""
        return self._work("plain") / TABLE

    @cached_property
    def finished(self) -> Path:
        """A working folder with a table and a sweep of two finished runs."""
        _ = self.sweep
        return self.folder / "finished"

    @cached_property
    def sweep(self) -> Course:
        """The sweep in `finished`."""
        work = self._work("finished")
        steps = 12 if self.quick else 40
        words = [*DATA, *SMALL, *PATCHES, f"training.max_steps={steps}", *SWEEPING]
        counter = mmap.mmap(-1, COUNTER.size)
        ended = self._command(
            work, "train", "-m", *words, before=lambda: sys.addaudithook(Operations(work, None, counter=counter))
        )
        return Course("sweep", words, sweep_facts(work / SWEEP), COUNTER.unpack(counter[:])[0], ended.seconds)

    @cached_property
    def exported(self) -> Path:
        """A working folder like `finished`, with exports of the first run."""
        work = copied(self.finished, self.folder / "exported")
        if self.quick:
            return work
        self._command(work, "export", "--run", RUN, "--output", "model.pt2", "--input", TABLE)
        if _has_onnx():
            self._command(work, "export", "--run", RUN, "--output", "model.onnx", "--input", TABLE)
        return work

    @cached_property
    def unfinished(self) -> Path:
        """A working folder with a run that was killed after some checkpoints."""
        course = self.courses["patches"]
        work = self._work("unfinished")

        at = course.operations * 2 // 3
        die = Operations(work, at, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        ended = run(
            ["train", *course.words, "resume=auto"], work, self.logs, before=lambda: sys.addaudithook(die), seconds=LONG
        )
        if ended.code != -signal.SIGKILL or len(list(work.glob("outputs/**/step-*.ckpt"))) < 2:
            raise RuntimeError(f"the unfinished run was not stopped after two checkpoints: {ended}")
        return work

    @cached_property
    def courses(self) -> dict[str, Course]:
        """The trainings for interruptions, with the facts of uninterrupted runs."""
        if self.quick:
            return {"patches": self._course("patches", [*COURSES["patches"], "training.max_steps=30"])}
        return {name: self._course(name, words) for name, words in COURSES.items()}

    def _course(self, name: str, words: list[str]) -> Course:
        work = self._work(f"course-{name}")
        counter = mmap.mmap(-1, COUNTER.size)  # the child shares it
        ended = self._command(
            work, "train", *words, before=lambda: sys.addaudithook(Operations(work, None, counter=counter))
        )
        (folder,) = (path.parent for path in work.glob("outputs/**/manifest.json"))
        return Course(name, words, facts(folder), COUNTER.unpack(counter[:])[0], ended.seconds)

    def _work(self, name: str) -> Path:
        work = self.folder / name
        work.mkdir(parents=True)
        (work / TABLE).parent.mkdir()
        hourly().to_csv(work / TABLE, index=False)
        return work

    def _command(self, work: Path, *command: str, **options: Any) -> Ended:
        ended = run(command, work, self.logs, seconds=LONG, **options)
        if ended.code:
            raise RuntimeError(f"the command of a fixture failed: {' '.join(command)}: {ended.text[-2000:]}")
        return ended


def copied(source: Path, place: Path) -> Path:
    """Copy a fixture to the folder `work` of a trial and return it."""
    work = place / "work"
    shutil.copytree(source, work, symlinks=True)
    return work


def put_table(table: Path, work: Path) -> Path:
    """Copy the table into `work`, since a run folder may not name data elsewhere; return its path."""
    path = work / TABLE
    path.parent.mkdir(exist_ok=True)
    shutil.copy(table, path)
    return path
