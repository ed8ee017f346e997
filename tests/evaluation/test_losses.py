import math

import pytest
import torch
from torch.nn import functional

from forecast.common.errors import InputError
from forecast.evaluation.metrics import loss_by_name

FORECAST = torch.tensor([[[0.5, 0.0], [0.0, 0.0]]])
FUTURE = torch.tensor([[[0.0, 2.0], [0.0, -3.0]]])  # errors 0.5, 2, 0, 3
OBSERVED = torch.tensor([[[True, True], [True, False]]])


@pytest.mark.parametrize(
    ("name", "whole", "observed"),
    [
        ("mse", (0.25 + 4 + 9) / 4, (0.25 + 4) / 3),
        ("mae", 5.5 / 4, 2.5 / 3),
        ("huber", (0.125 + 1.5 + 2.5) / 4, (0.125 + 1.5) / 3),
    ],
)
def test_a_loss_is_the_mean_over_the_observed_targets(name: str, whole: float, observed: float) -> None:
    loss = loss_by_name(name)
    assert float(loss(FORECAST, FUTURE, None)) == pytest.approx(whole)
    assert float(loss(FORECAST, FUTURE, OBSERVED)) == pytest.approx(observed)


@pytest.mark.parametrize("name", ["mse", "mae", "huber"])
@pytest.mark.parametrize("hidden", [math.nan, math.inf, 1e30])
def test_a_target_that_was_not_observed_has_no_gradient(name: str, hidden: float) -> None:
    forecast = FORECAST.clone().requires_grad_()
    future = torch.where(OBSERVED, FUTURE, hidden)
    loss_by_name(name)(forecast, future, OBSERVED).backward()
    assert forecast.grad is not None
    assert forecast.grad[0, 1, 1] == 0
    assert forecast.grad.isfinite().all()
    assert forecast.grad[0, 0, 1] < 0


def test_a_batch_without_an_observed_target_has_loss_zero() -> None:
    forecast = FORECAST.clone().requires_grad_()
    loss = loss_by_name("mae")(forecast, FUTURE, torch.zeros_like(OBSERVED))
    loss.backward()
    assert float(loss.detach()) == 0
    assert forecast.grad is not None
    assert (forecast.grad == 0).all()


@pytest.mark.parametrize("name", ["mse", "mae", "huber"])
def test_a_mask_of_ones_does_not_change_the_loss(name: str) -> None:
    forecast, future = torch.randn(2, 3, 4, 2)
    loss = loss_by_name(name)
    everything = torch.ones(3, 4, 2, dtype=torch.bool)
    torch.testing.assert_close(loss(forecast, future, everything), loss(forecast, future, None))


def test_huber_equals_torchs_with_its_default_delta() -> None:
    forecast, future = 3 * torch.randn(2, 3, 4, 2)
    torch.testing.assert_close(loss_by_name("huber")(forecast, future, None), functional.huber_loss(forecast, future))


def test_an_unknown_loss_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"^loss=pinball: choose mse, mae, huber or quantile$"):
        loss_by_name("pinball")
