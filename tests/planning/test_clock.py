from types import SimpleNamespace
from typing import Any

import pytest
import torch

from forecast.planning import clock
from forecast.planning.clock import LEAST, StepClock

TRAINER: Any = SimpleNamespace(should_stop=False, train_dataloader=SimpleNamespace(asked=0.0, given=0.0))
MODULE: Any = SimpleNamespace(device=torch.device("cpu"))


def batch_of(windows: int) -> Any:
    return SimpleNamespace(origin=range(windows))


def test_the_parts_of_a_training_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(clock, "_now", lambda _: now[0])
    timer, loader = StepClock(seconds=1e9), TRAINER.train_dataloader

    def step(seconds: float) -> None:
        loader.asked = now[0]
        loader.given = now[0] = now[0] + 0.25
        timer.on_train_batch_start(TRAINER, MODULE, None, 0)
        now[0] += seconds
        timer.on_train_batch_end(TRAINER, MODULE, None, None, 0)
        now[0] += 0.5

    def validate(fixed: float) -> None:
        timer.on_validation_start(TRAINER, MODULE)
        for windows, seconds in ((4, 9.0), (4, 2.0), (2, 1.0)):
            now[0] += seconds
            timer.on_validation_batch_end(TRAINER, MODULE, None, batch_of(windows), 0)
        now[0] += fixed

    for seconds in (7.0, 3.0, 1.0, 1.0, 1.0):
        step(seconds)
    validate(fixed=11.0)
    step(1.0)
    validate(fixed=6.0)
    now[0] -= 0.5  # nothing comes between the last validation and the end
    timer.on_train_end(TRAINER, MODULE)
    pace = timer.pace(prepare=3.0)
    assert (pace.step, pace.wait, pace.between, pace.prepare) == (1.0, 0.25, 0.5, 3.0)
    assert pace.first == pytest.approx(7 + 3 - 2 * 1)
    assert pace.window == pytest.approx(0.5)
    assert pace.validation == pytest.approx(12 + 6 - 0.5 - 10 * 0.5)
    assert pace.first_validation == pytest.approx(11 + 0.5 - 6)


def test_the_training_is_ended_after_its_seconds_and_its_least_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TRAINER, "should_stop", False)
    timer = StepClock(seconds=0.0)
    timer.on_train_start(TRAINER, MODULE)
    for number in range(1, LEAST + 1):
        assert not TRAINER.should_stop
        timer.on_train_batch_start(TRAINER, MODULE, None, 0)
        timer.on_train_batch_end(TRAINER, MODULE, None, None, 0)
        assert timer.steps == number
    assert TRAINER.should_stop
