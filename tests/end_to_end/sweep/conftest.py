"""Fixtures of the sweep tests: one sweep of six jobs, and fake trainings."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forecast.runs.settings import Settings
from forecast.training.sweep import job as sweep_job
from forecast.training.sweep import sweep
from tests.support.kept import kept
from tests.support.sweeps import SIX, Ended, command

OUTCOME = "outcome.pickle"


@pytest.fixture(scope="session")
def six() -> tuple[Path, Ended]:
    """Return the folder and the outcome of a sweep over three mechanisms and two seeds; no test changes them."""

    def sweep_six(root: Path) -> None:
        ended = command(root, *SIX, "sweep.repeat_timing=0.1")
        (root / OUTCOME).write_bytes(pickle.dumps(ended))

    root = kept("six", sweep_six, module="forecast.training.command_line")
    (folder,) = (root / "sweeps").iterdir()
    return folder, pickle.loads((root / OUTCOME).read_bytes())


@pytest.fixture(autouse=True)
def without_report(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Skip the report of the sweeps in single tests, since it takes as long as their jobs; `six` has one."""
    original = sweep.report_sweep
    monkeypatch.setattr(sweep, "report_sweep", lambda folder: None)
    return original


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], list[str]]:
    """Return a function that replaces the training and returns the list of folders of the jobs it is called for."""

    def replace(training: Callable[[dict[str, Any]], Any]) -> list[str]:
        called: list[str] = []

        def instead(settings: Settings, *, folder: Path, announced: set[str]) -> Any:
            called.append(folder.name)
            mse = training(settings.plain)
            return None, {"validation": {"scaled": {"mse": mse}}, "speed": {"train_windows_per_s": 10 * mse}}

        monkeypatch.setattr(sweep_job, "train", instead)
        return called

    return replace


@pytest.fixture
def returned(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """Return the list of the values that jobs return to Hydra."""
    values: list[float | None] = []

    def run_job(*job: Any) -> float | None:
        values.append(sweep_job.run_job(*job))
        return values[-1]

    monkeypatch.setattr(sweep, "run_job", run_job)
    return values
