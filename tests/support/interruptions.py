"""Interrupt trainings, and compare them with uninterrupted ones."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from forecast.common.errors import Interrupted
from forecast.common.files import sha256
from forecast.runs.run import Run
from forecast.training.task import ForecastTask
from forecast.training.train import train


def interrupt(monkeypatch: pytest.MonkeyPatch, method: str, when: Callable[[ForecastTask, int], bool]) -> None:
    """Send SIGTERM in `method` the first time that `when(task, batch_idx)` holds."""
    original = getattr(ForecastTask, method)
    sent: list[int] = []

    def sending(self: ForecastTask, batch: Any, batch_idx: int) -> Any:
        if not sent and when(self, batch_idx):
            sent.append(batch_idx)
            signal.raise_signal(signal.SIGTERM)
        return original(self, batch, batch_idx)

    monkeypatch.setattr(ForecastTask, method, sending)


def replace_clock(monkeypatch: pytest.MonkeyPatch, module: str, seconds: Callable[[int], float]) -> None:
    """Replace the clock of a module; it advances only in training steps, by `seconds(global_step)`."""
    original, now = ForecastTask.training_step, [0.0]

    def ticking(self: ForecastTask, batch: Any, batch_idx: int) -> Any:
        now[0] += seconds(self.global_step)
        return original(self, batch, batch_idx)

    monkeypatch.setattr(ForecastTask, "training_step", ticking)
    monkeypatch.setattr(f"{module}.time", SimpleNamespace(monotonic=lambda: now[0]))


def train_in_two_parts(
    config: dict[str, Any], folder: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[Run, dict[str, Any]]:
    """Train in `folder`, interrupted at `step` and resumed in another random state; return the run and its result."""
    config = {**config, "output_dir": str(folder), "resume": "auto"}
    interrupt(monkeypatch, "training_step", lambda task, _: task.global_step == step)
    with pytest.raises(Interrupted):
        train(config)
    torch.manual_seed(99)
    return train(config)


def assert_same(run: Run, result: dict[str, Any], whole: tuple[Run, dict[str, Any]]) -> None:
    """Compare weights, best step, scores and probe results for exact equality."""
    assert sha256(run.path / "model.safetensors") == sha256(whole[0].path / "model.safetensors")
    for part in ("test", "validation"):
        assert result[part] == whole[1][part]
    assert result["model"] == whole[1]["model"]
    assert result["status"] == whole[1]["status"]
    assert result["probe"] == whole[1]["probe"]
    assert [(each["step"], each["mse"]) for each in result["validations"]] == [
        (each["step"], each["mse"]) for each in whole[1]["validations"]
    ]
    assert not [path for path in run.path.rglob("*") if path.name.endswith(".tmp")]


def curve(run: Run, tag: str) -> list[tuple[int, float]]:
    events = EventAccumulator(str(run.path), size_guidance={"scalars": 0})
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


def next_second() -> None:
    """Wait for the next second: event files of the same second are read by name, where 10 comes before 9."""
    time.sleep(1 - time.time() % 1)


def fail() -> None:
    raise RuntimeError("killed")
