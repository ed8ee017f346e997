from types import SimpleNamespace
from typing import Any

import pytest
import torch

from forecast.plan import clock
from forecast.plan.clock import LEAST, WARM_UP, StepClock

TRAINER: Any = SimpleNamespace(should_stop=False, train_dataloader=SimpleNamespace(asked=0.0, given=0.0))
MODULE: Any = SimpleNamespace(device=torch.device("cpu"))


def batch_of(windows: int) -> Any:
    return SimpleNamespace(origin=range(windows))


def test_steps_waits_gaps_and_validations_are_timed_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(clock, "_now", lambda _: now[0])
    timer, loader = StepClock(seconds=1e9), TRAINER.train_dataloader

    def step(seconds: float, wait: float, gap: float) -> None:
        loader.asked = now[0]
        loader.given = now[0] = now[0] + wait
        timer.on_train_batch_start(TRAINER, MODULE, None, 0)
        now[0] += seconds
        timer.on_train_batch_end(TRAINER, MODULE, None, None, 0)
        now[0] += gap

    def validate(fixed: float) -> None:
        timer.on_validation_start(TRAINER, MODULE)
        for windows, seconds in ((4, 9.0), (4, 2.5), (2, 0.5)):
            now[0] += seconds
            timer.on_validation_batch_end(TRAINER, MODULE, None, batch_of(windows), 0)
        now[0] += fixed

    step(7.0, 9.0, 9.0)
    step(3.0, 9.0, 9.0)
    step(0.5, 0.1, 0.2)
    step(0.5, 0.1, 0.8)
    step(2.5, 0.7, 0.5)
    validate(fixed=11.0)
    step(0.5, 0.1, 0.5)
    validate(fixed=6.0)
    now[0] -= 0.5  # the training ends right after the last validation
    timer.on_train_end(TRAINER, MODULE)
    pace = timer.pace(prepare=3.0)
    assert (pace.step, pace.wait, pace.between, pace.prepare) == pytest.approx((1.0, 0.25, 0.5, 3.0))
    assert pace.first == pytest.approx(7 + 3 - 2 * 1)
    assert pace.window == pytest.approx(0.5)
    assert pace.validation == pytest.approx(12 + 6 - 0.5 - 10 * 0.5)
    assert pace.first_validation == pytest.approx(11 + 0.5 - 6)


@pytest.mark.parametrize(("windows", "seconds_each"), [((256, 1), 4 / 257), ((256, 256), 1 / 256), ((256,), 3 / 256)])
def test_the_first_validation_batch_is_not_timed_if_the_others_have_as_many_windows(
    windows: tuple[int, ...], seconds_each: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch takes three seconds, every other one second."""
    now = [0.0]
    monkeypatch.setattr(clock, "_now", lambda _: now[0])
    timer = StepClock(seconds=1e9)
    for _ in range(LEAST):
        timer.on_train_batch_start(TRAINER, MODULE, None, 0)
        timer.on_train_batch_end(TRAINER, MODULE, None, None, 0)
    timer.on_validation_start(TRAINER, MODULE)
    for count, seconds in zip(windows, (3.0, 1.0), strict=False):
        now[0] += seconds
        timer.on_validation_batch_end(TRAINER, MODULE, None, batch_of(count), 0)
    timer.on_train_end(TRAINER, MODULE)
    assert timer.pace(prepare=0.0).window == pytest.approx(seconds_each)


@pytest.mark.parametrize(("seconds", "steps"), [(0.0, LEAST), (10.0, WARM_UP + 10)])
def test_the_training_ends_after_its_seconds_and_minimum_steps(
    seconds: float, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(clock, "_now", lambda _: now[0])
    monkeypatch.setattr(TRAINER, "should_stop", False)
    timer = StepClock(seconds)
    for number in range(1, steps + 1):
        assert not TRAINER.should_stop
        now[0] += 3.0  # the time between steps does not count
        TRAINER.train_dataloader.given = now[0]
        timer.on_train_batch_start(TRAINER, MODULE, None, 0)
        now[0] += 1.0
        timer.on_train_batch_end(TRAINER, MODULE, None, None, 0)
        assert timer.steps == max(0, number - WARM_UP)
    assert TRAINER.should_stop
