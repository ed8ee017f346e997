"""The quantile loss against independent packages and its own definition."""

import numpy as np
import pytest
import torch

from forecast.evaluation.metrics import loss_by_name, quantile_loss

rules = pytest.importorskip("scoringrules")
LEVELS = (0.05, 0.3, 0.5, 0.7, 0.95)


def test_the_loss_is_twice_the_mean_pinball_loss() -> None:
    quantiles, future = torch.randn(2, 3, 4, 5).double(), torch.randn(2, 3, 4).double()
    expected = [rules.quantile_score(future.numpy(), quantiles[..., k].numpy(), q) for k, q in enumerate(LEVELS)]
    found = quantile_loss(quantiles, future, torch.tensor(LEVELS, dtype=torch.float64))
    np.testing.assert_allclose(found.numpy(), 2 * np.mean(expected, 0), rtol=1e-12)


def test_the_loss_of_the_median_is_the_absolute_error() -> None:
    median, future = torch.randn(2, 3, 4, 1), torch.randn(2, 3, 4)
    loss = loss_by_name("quantile", [0.5])(median, future, None)
    torch.testing.assert_close(loss, (future - median[..., 0]).abs().mean())


def test_missing_targets_have_no_loss_and_no_gradient() -> None:
    quantiles = torch.randn(2, 3, 4, 5, requires_grad=True)
    future, observed = torch.randn(2, 3, 4), torch.rand(2, 3, 4) > 0.4
    future[~observed] = torch.nan
    loss = loss_by_name("quantile", LEVELS)(quantiles, future, observed)
    loss.backward()
    assert torch.isfinite(loss)
    assert quantiles.grad is not None
    assert float(quantiles.grad[~observed].abs().max()) == 0
    kept = quantile_loss(quantiles.detach()[observed], future[observed], torch.tensor(LEVELS))
    torch.testing.assert_close(loss.detach(), kept.mean())


def test_the_best_constant_is_the_quantile_of_the_values() -> None:
    values = torch.from_numpy(np.random.default_rng(0).gamma(2.0, size=2001)).view(-1, 1, 1)
    grid = torch.linspace(0, 10, 2001, dtype=torch.float64)
    for level in (0.1, 0.9):
        tensor = torch.tensor([level], dtype=torch.float64)
        losses = torch.stack([quantile_loss(point.expand(2001, 1, 1, 1), values, tensor).mean() for point in grid])
        assert float(grid[losses.argmin()]) == pytest.approx(np.quantile(values.numpy(), level), abs=0.02)
