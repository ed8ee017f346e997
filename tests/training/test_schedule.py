import math
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import torch
from torch.optim import SGD, AdamW
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LinearLR,
    LRScheduler,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
    StepLR,
)

from forecast.common.errors import InputError
from forecast.training.schedule import cosine, halving, one_cycle, restore_with_new_length, with_length


def rates(make: Callable[..., LRScheduler], total_steps: int, **options: float) -> list[float]:
    """Return the learning rate of each step of a run."""
    optimizer = SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = make(optimizer, total_steps, **options)
    result = []
    for _ in range(total_steps):
        result.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return result


def test_one_cycle_warms_up_to_the_optimizers_rate_and_decays_to_zero() -> None:
    result = rates(one_cycle, 100, warmup_fraction=0.3)
    top = result.index(max(result))
    assert top == pytest.approx(29, abs=1)
    assert result[top] == pytest.approx(0.1)
    assert result == sorted(result[: top + 1]) + sorted(result[top + 1 :], reverse=True)
    assert result[0] == pytest.approx(0.004)
    assert result[-1] < 1e-5


def test_cosine_warms_up_linearly_and_decays_as_a_half_cosine() -> None:
    result = rates(cosine, 60, warmup_steps=10, final_factor=0.1)
    for step in range(10):
        assert result[step] == pytest.approx(0.1 * (step + 1) / 11)
    for step in range(10, 60):
        share = (step - 10) / 50
        assert result[step] == pytest.approx(0.01 + 0.09 * (1 + math.cos(math.pi * share)) / 2, rel=1e-6)


def test_cosine_without_warm_up_begins_at_the_maximum() -> None:
    assert rates(cosine, 10, warmup_steps=0, final_factor=0.0)[0] == pytest.approx(0.1)


def test_halving_halves_the_rate_after_each_period() -> None:
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
def test_short_runs_have_valid_rates_and_learn(
    make: Callable[..., LRScheduler], options: dict[str, float], total_steps: int
) -> None:
    result = rates(make, total_steps, **options)
    assert all(0 <= rate <= 0.1 + 1e-12 for rate in result)
    assert max(result) > 1e-3


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (one_cycle, {"warmup_fraction": 0.3}),
        (cosine, {"warmup_steps": 100, "final_factor": 0.0}),
        (halving, {"periods": 6}),
    ],
)
def test_a_run_of_one_step_has_a_positive_rate(make: Callable[..., LRScheduler], options: dict[str, float]) -> None:
    assert 0 < rates(make, 1, **options)[0] <= 0.1


def test_one_cycle_without_warm_up_begins_at_the_maximum() -> None:
    result = rates(one_cycle, 100, warmup_fraction=0)
    assert result == sorted(result, reverse=True)
    assert result[0] == pytest.approx(0.1, rel=0.01)


@pytest.mark.parametrize(
    ("make", "last"),
    [
        (partial(StepLR, step_size=10, gamma=0.5), 0.1 * 0.5**9),
        (partial(ExponentialLR, gamma=0.99), 0.1 * 0.99**99),
        (partial(MultiStepLR, milestones=[50]), 0.01),
        (partial(LinearLR, start_factor=1.0, end_factor=0.0), 0.001),
        (partial(ConstantLR, factor=0.5), 0.05),
        (partial(OneCycleLR, max_lr=0.1), None),
        (partial(CosineAnnealingLR), None),
        (partial(CosineAnnealingLR, T_max=50), None),
        (partial(CosineAnnealingWarmRestarts), None),
        (partial(PolynomialLR, power=1), 0.001),
        (partial(halving, periods=2), 0.05),
    ],
    ids=lambda value: f"{value.func.__name__} {sorted(value.keywords)}" if isinstance(value, partial) else "",
)
def test_schedules_of_torch_get_the_length_by_its_name(make: Any, last: float | None) -> None:
    optimizer = SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = with_length(make, 100)(optimizer)
    found = []
    for _ in range(100):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if len(found) < 100:
            scheduler.step()
    if last is not None:
        assert found[-1] == pytest.approx(last, rel=1e-6)
    assert 0 <= min(found) <= max(found) <= 0.1
    if make.func is CosineAnnealingLR:
        assert found[50] == pytest.approx(0.0 if make.keywords else 0.05, abs=1e-9)


def test_a_schedule_that_follows_a_score_is_refused_with_others() -> None:
    with pytest.raises(InputError, match=r"ReduceLROnPlateau: follows a score.*use scheduler=one_cycle, cosine or"):
        with_length(partial(ReduceLROnPlateau, patience=3), 100)


@pytest.mark.parametrize(
    "make",
    [
        lambda optimizer, steps: cosine(optimizer, steps, warmup_steps=10, final_factor=0.1),
        lambda optimizer, steps: one_cycle(optimizer, steps, warmup_fraction=0.3),
        lambda optimizer, steps: CosineAnnealingLR(optimizer, steps),
        lambda optimizer, steps: PolynomialLR(optimizer, steps, power=2),
        lambda optimizer, steps: ExponentialLR(optimizer, 0.99),
    ],
    ids=["cosine", "one_cycle", "torch cosine", "torch polynomial", "torch exponential"],
)
@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")  # before a step of the restored run
def test_a_resumed_run_of_another_length_has_the_rates_of_a_whole_one(make: Callable[..., LRScheduler]) -> None:
    whole = rates(make, 1000)
    optimizer = SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = make(optimizer, 1000)
    restore_with_new_length(optimizer, scheduler, {"state": {}}, 500)
    for step in (500, 501):
        assert optimizer.param_groups[0]["lr"] == pytest.approx(whole[step], rel=1e-9)
        optimizer.step()
        scheduler.step()


def adamw() -> AdamW:
    return AdamW([torch.nn.Parameter(torch.zeros(size)) for size in (1, 3)], lr=0.1)


def test_a_run_of_another_length_keeps_the_state_of_the_optimizer() -> None:
    trained = adamw()
    for step in range(5):
        for parameter in trained.param_groups[0]["params"]:
            parameter.grad = torch.full_like(parameter, step + 1.0)
        trained.step()
    saved, optimizer = trained.state_dict(), adamw()
    expected = deepcopy(saved["state"])
    restore_with_new_length(optimizer, cosine(optimizer, 20, warmup_steps=2, final_factor=0.0), saved, 5)
    restored = optimizer.state_dict()["state"]
    assert restored.keys() == expected.keys() == {0, 1}
    for number, state in expected.items():
        assert state["step"] == 5
        assert state["exp_avg"].abs().min() > 0
        assert restored[number].keys() == state.keys()
        for name, value in state.items():
            assert torch.equal(restored[number][name], value)
