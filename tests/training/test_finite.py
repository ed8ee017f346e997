import math
from pathlib import Path

import pytest
import torch

from forecast.common import finite
from forecast.common.errors import NotFiniteError
from forecast.common.finite import READ_EVERY, FiniteGuard
from forecast.training.train import train
from tests.support.small import quick


def parameter(gradient: float, device: str = "cpu") -> torch.nn.Parameter:
    result = torch.nn.Parameter(torch.ones(3, device=device))
    result.grad = torch.full((3,), gradient, device=device)
    return result


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", ["loss", "norm"])
def test_on_a_cpu_a_value_that_is_not_finite_raises_with_its_step(place: str, bad: float) -> None:
    values = {"loss": torch.tensor(1.0), "norm": torch.tensor(1.0), place: torch.tensor(bad)}
    with pytest.raises(NotFiniteError, match="step 17: not finite"):
        FiniteGuard().check(values["loss"], values["norm"], [parameter(1.0)], 17)


def test_finite_steps_pass_and_keep_their_gradients() -> None:
    guard, weight = FiniteGuard(), parameter(2.0)
    for step in range(3 * READ_EVERY):
        guard.check(torch.tensor(1e30), torch.tensor(0.0), [weight], step)
    guard.read()
    assert weight.grad is not None
    assert weight.grad.tolist() == [2.0] * 3


def test_an_accelerator_reads_the_flag_together_with_the_logged_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finite, "READ_AT_ONCE", set())
    guard, weight = FiniteGuard(), parameter(2.0)
    loss = torch.tensor(0.1)
    guard.check(loss, torch.tensor(3.0), [weight], 4)
    assert [number.item() for number in guard.read(loss, torch.tensor(3.0))] == [loss.item(), 3.0]
    guard.check(torch.tensor(math.nan), loss, [weight], 5)
    assert weight.grad is not None
    assert weight.grad.tolist() == [0.0] * 3
    with pytest.raises(NotFiniteError, match="step 5: not finite"):
        guard.read(loss)


def test_the_error_has_exit_code_3() -> None:
    assert NotFiniteError.exit_code == 3


@pytest.mark.gpu
def test_on_a_gpu_a_bad_step_has_zero_gradients_and_is_reported_later() -> None:
    guard, good, bad = FiniteGuard(), parameter(2.0, "cuda"), parameter(math.nan, "cuda")
    fine, broken = torch.tensor(1.0, device="cuda"), torch.tensor(math.nan, device="cuda")
    guard.check(fine, fine, [good], 1)
    assert good.grad.tolist() == [2.0] * 3
    guard.check(broken, broken, [bad], 2)
    assert bad.grad.tolist() == [0.0] * 3
    guard.check(broken, fine, [bad], 3)
    guard.check(fine, fine, [good], READ_EVERY)
    with pytest.raises(NotFiniteError, match="step 2: not finite"):
        guard.read(fine)


@pytest.mark.parametrize(("model", "step"), [("patch_informer", 0), ("informer", 7)])
def test_a_validation_score_that_is_not_finite_ends_the_run(
    model: str, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No score is less than NaN, so the first weights would stay the best ones."""
    config = quick(tmp_path, model=model)
    monkeypatch.setattr("forecast.evaluation.metrics.ErrorSums.scaled", lambda sums: {"mse": math.nan, "mae": math.nan})
    with pytest.raises(NotFiniteError, match=rf"^validation after step {step}: not finite \(score nan\)"):
        train(config)
