import time
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from forecast.model.informer import Informer
from forecast.training import task as module
from forecast.training.callbacks.speed import WARM_UP_STEPS
from forecast.training.task import SEED_STRIDE, step_seed
from forecast.training.train import train
from tests.support.boards import curve
from tests.support.small import quick

PAUSE = 1.0


class Clock:
    """Clock that advances only on request."""

    def __init__(self) -> None:
        self.now = 0.0

    def advance(self) -> None:
        self.now += PAUSE


class SlowDescent(torch.optim.SGD):
    """Optimizer whose update takes a pause."""

    clock: Clock

    def step(self, closure: Any = None) -> Any:
        loss = super().step(closure)
        self.clock.advance()
        return loss


def test_a_single_process_and_the_leading_process_have_the_same_step_seeds() -> None:
    assert [step_seed(3, step, rank=0) for step in (0, 1, 99)] == [3 * SEED_STRIDE + step for step in (0, 1, 99)]


def test_step_seeds_are_distinct_in_their_lowest_32_bits() -> None:
    places = [(seed, step, rank) for seed in (0, 1, 2) for step in range(200) for rank in range(8)]
    assert len({step_seed(*place) % 2**32 for place in places}) == len(places)


@pytest.mark.slow
def test_arithmetic_time_is_forward_backward_clipping_and_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learners, clip, seed = Informer.learners, module.clip_grad_norm_, module.step_seed
    clock = SlowDescent.clock = Clock()

    def slow_passes(self: Informer, *inputs: Any) -> tuple[Tensor, ...]:
        (forecast,) = learners(self, *inputs)
        clock.advance()
        forecast.register_hook(lambda _: clock.advance())
        return (forecast,)

    def slow_clip(*arguments: Any) -> Tensor:
        clock.advance()
        return clip(*arguments)

    def slow_seed(*arguments: int) -> int:
        clock.advance()  # outside of the step
        return seed(*arguments)

    monkeypatch.setattr(time, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(Informer, "learners", slow_passes)
    monkeypatch.setattr(module, "clip_grad_norm_", slow_clip)
    monkeypatch.setattr(module, "step_seed", slow_seed)
    config = quick(tmp_path, f"training.max_steps={WARM_UP_STEPS + 4}", "model.linear_path=ridge")
    descent = {"_target_": "tests.training.test_task.SlowDescent", "lr": 0.001}
    _, result = train({**config, "optimizer": descent})
    assert result["speed"]["arithmetic_share"] == pytest.approx(4 / 5)


class StopsAt(Callback):
    """Stops the training after step 7, as the timer does."""

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        if trainer.global_step == 7:
            trainer.should_stop = True


@pytest.mark.slow
def test_curves_have_every_nth_step_and_the_last_one(tmp_path: Path) -> None:
    points = []
    for every in (1, 5):
        config = quick(tmp_path / str(every), f"trainer.log_every_n_steps={every}")
        run, result = train({**config, "callbacks": {"stop": {"_target_": "tests.training.test_task.StopsAt"}}})
        assert result["model"]["steps"] == 7
        points.append({name: curve(run.path, f"train/{name}") for name in ("loss", "gradient_norm")})
    for name, whole in points[0].items():
        assert list(whole) == list(range(7))
        assert points[1][name] == {step: whole[step] for step in (4, 6)}
