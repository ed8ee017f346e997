import math
from collections.abc import Callable

import pytest
import torch
from torch.optim import SGD
from torch.optim.lr_scheduler import LRScheduler

from forecast.common.errors import InputError
from forecast.training.schedule import cosine, halving, one_cycle


def rates(make: Callable[..., LRScheduler], total_steps: int, **options: float) -> list[float]:
    """Return the rate of each step of a whole run."""
    optimizer = SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = make(optimizer, total_steps, **options)
    found = []
    for _ in range(total_steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def test_one_cycle_rises_to_the_optimizers_rate_and_falls_to_nothing() -> None:
    found = rates(one_cycle, 100, warmup_fraction=0.3)
    top = found.index(max(found))
    assert top == pytest.approx(29, abs=1)
    assert found[top] == pytest.approx(0.1)
    assert found == sorted(found[: top + 1]) + sorted(found[top + 1 :], reverse=True)
    assert found[0] == pytest.approx(0.004)
    assert found[-1] < 1e-5


def test_cosine_rises_in_a_line_and_falls_as_half_a_cosine() -> None:
    found = rates(cosine, 60, warmup_steps=10, final_factor=0.1)
    for step in range(10):
        assert found[step] == pytest.approx(0.1 * (step + 1) / 11)
    for step in range(10, 60):
        share = (step - 10) / 50
        assert found[step] == pytest.approx(0.01 + 0.09 * (1 + math.cos(math.pi * share)) / 2, rel=1e-6)


def test_cosine_without_a_rise_begins_at_the_top() -> None:
    assert rates(cosine, 10, warmup_steps=0, final_factor=0.0)[0] == pytest.approx(0.1)


def test_halving_halves_after_each_part_of_the_run() -> None:
    assert rates(halving, 6, periods=3) == pytest.approx([0.1, 0.1, 0.05, 0.05, 0.025, 0.025])
    assert rates(halving, 3, periods=2) == pytest.approx([0.1, 0.1, 0.05])
    for periods in (0, 1.5, True):
        with pytest.raises(InputError, match=r"^scheduler.periods="):
            rates(halving, 3, periods=periods)


@pytest.mark.parametrize("total_steps", [2, 3, 5])
@pytest.mark.parametrize(
    ("make", "options"),
    [
        (one_cycle, {"warmup_fraction": 0.3}),
        (cosine, {"warmup_steps": 100, "final_factor": 0.0}),
        (halving, {"periods": 6}),
    ],
)
def test_a_run_of_a_few_steps_has_a_rate_for_each_and_learns_in_one(
    make: Callable[..., LRScheduler], options: dict[str, float], total_steps: int
) -> None:
    found = rates(make, total_steps, **options)
    assert all(0 <= rate <= 0.1 + 1e-12 for rate in found)
    assert max(found) > 1e-3


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (one_cycle, {"warmup_fraction": 0.3}),
        (cosine, {"warmup_steps": 100, "final_factor": 0.0}),
        (halving, {"periods": 6}),
    ],
)
def test_a_run_of_one_step_has_a_rate(make: Callable[..., LRScheduler], options: dict[str, float]) -> None:
    assert 0 < rates(make, 1, **options)[0] <= 0.1


def test_one_cycle_without_a_rise_begins_at_the_top() -> None:
    found = rates(one_cycle, 100, warmup_fraction=0)
    assert found == sorted(found, reverse=True)
    assert found[0] == pytest.approx(0.1, rel=0.01)
