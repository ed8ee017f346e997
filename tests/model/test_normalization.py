import pytest
import torch

from forecast.model.normalization import EPSILON, LEAST_SPREAD, NoNormalization, WindowNormalization, window_spread


def test_each_channel_is_normalized_by_its_mean_and_scale() -> None:
    torch.manual_seed(0)
    past = torch.randn(3, 50, 2) * torch.tensor([1.0, 20.0]) + torch.tensor([5.0, -300.0])
    normal, statistics = WindowNormalization().normalize(past, None)
    torch.testing.assert_close(normal.mean(1), torch.zeros(3, 2), atol=1e-4, rtol=0)
    torch.testing.assert_close(normal.square().mean(1), torch.ones(3, 2), atol=1e-3, rtol=0)
    torch.testing.assert_close(statistics.level[:, 0], past.mean(1))
    torch.testing.assert_close(statistics.scale[:, 0], (past.var(1, correction=0) + EPSILON).sqrt())


def test_restoring_inverts_the_normalization_of_targets() -> None:
    past = torch.randn(3, 50, 4) * 7 + 2
    normalization = WindowNormalization()
    normal, statistics = normalization.normalize(past, None)
    torch.testing.assert_close(normalization.restore(normal[..., :2], statistics), past[..., :2])


def test_statistics_use_observed_steps_only() -> None:
    torch.manual_seed(0)
    past = torch.randn(1, 20, 2)
    observed = torch.ones(1, 20, 2, dtype=torch.bool)
    observed[0, :13, 0] = False
    normal, statistics = WindowNormalization().normalize(torch.where(observed, past, torch.nan), observed)
    short, expected = WindowNormalization().normalize(past[:, 13:, :1], None)
    torch.testing.assert_close(statistics.level[..., :1], expected.level)
    torch.testing.assert_close(statistics.scale[..., :1], expected.scale)
    torch.testing.assert_close(normal[:, 13:, :1], short)
    assert (normal[:, :13, 0] == 0).all()


def test_a_mask_that_hides_nothing_changes_nothing() -> None:
    past = torch.randn(2, 9, 3)
    with_mask, _ = WindowNormalization().normalize(past, torch.ones_like(past, dtype=torch.bool))
    torch.testing.assert_close(with_mask, WindowNormalization().normalize(past, None)[0])


@pytest.mark.parametrize("observed", [None, torch.zeros(1, 9, 2, dtype=torch.bool)])
def test_a_constant_or_unobserved_window_has_finite_values_and_gradients(observed: torch.Tensor | None) -> None:
    past = torch.full((1, 9, 2), 4.0, requires_grad=True)
    normal, statistics = WindowNormalization().normalize(past, observed)
    (normal.sum() + statistics.level.sum() + statistics.scale.sum()).backward()
    assert (normal == 0).all()
    assert past.grad is not None
    assert past.grad.isfinite().all()


def test_no_normalization_only_replaces_unobserved_values() -> None:
    past = torch.randn(2, 9, 3)
    observed = torch.rand(2, 9, 3) > 0.4
    plain, statistics = NoNormalization().normalize(past, None)
    assert torch.equal(plain, past)
    hidden, _ = NoNormalization().normalize(torch.where(observed, past, torch.nan), observed)
    mean = (past * observed).sum(1, keepdim=True) / observed.sum(1, keepdim=True)
    torch.testing.assert_close(hidden, torch.where(observed, past, mean))
    forecast = torch.randn(2, 4, 2)
    assert torch.equal(NoNormalization().restore(forecast, statistics), forecast)


def test_the_level_is_of_the_newest_steps_and_the_scale_of_the_window() -> None:
    past = torch.randn(3, 50, 4) * 7 + torch.linspace(0, 30, 50)[:, None]
    whole, newest = WindowNormalization(), WindowNormalization(newest=6)
    normal, statistics = newest.normalize(past, None)
    torch.testing.assert_close(statistics.level, past[:, -6:].mean(1, keepdim=True))
    torch.testing.assert_close(statistics.scale, whole.normalize(past, None)[1].scale)
    torch.testing.assert_close(normal, (past - statistics.level) / statistics.scale)
    torch.testing.assert_close(newest.restore(normal[..., :2], statistics), past[..., :2])


def test_the_newest_level_uses_the_last_observed_steps() -> None:
    past = torch.randn(1, 20, 3)
    observed = torch.ones(1, 20, 3, dtype=torch.bool)
    observed[0, -5:-2, 0] = observed[0, -5:, 1] = observed[0, 3:, 2] = False
    normal, statistics = WindowNormalization(newest=5).normalize(torch.where(observed, past, torch.nan), observed)
    torch.testing.assert_close(statistics.level[0, 0, 0], past[0, [12, 13, 14, 18, 19], 0].mean())
    torch.testing.assert_close(statistics.level[0, 0, 1], past[0, 10:15, 1].mean())
    torch.testing.assert_close(statistics.level[0, 0, 2], past[0, :3, 2].mean())  # fewer than five: all of them
    back = (normal * statistics.scale + statistics.level)[0]
    torch.testing.assert_close(back[:-5, :2], past[0, :-5, :2])
    mean = past[0, :, 0][observed[0, :, 0]].mean()
    torch.testing.assert_close(back[-5:-2, 0], mean.expand(3))  # hidden: the window's mean, not the level


def test_the_spread_is_the_deviation_with_a_floor() -> None:
    past = torch.randn(3, 50, 2, dtype=torch.float64).cumsum(1)
    expected = (past.var(1, correction=0) + LEAST_SPREAD**2).sqrt()
    torch.testing.assert_close(window_spread(past, None)[:, 0], expected)


def test_the_spread_uses_observed_steps_only() -> None:
    past = torch.randn(1, 20, 2)
    observed = torch.ones(1, 20, 2, dtype=torch.bool)
    observed[0, :13, 0] = False
    spread = window_spread(torch.where(observed, past, torch.nan), observed)
    torch.testing.assert_close(spread[..., :1], window_spread(past[:, 13:, :1], None))
    torch.testing.assert_close(spread[..., 1:], window_spread(past[..., 1:], None))


@pytest.mark.parametrize("past", [torch.full((1, 9, 1), 4.0), torch.full((1, 1, 1), 4.0)])
@pytest.mark.parametrize("masked", [False, True])
def test_a_constant_window_has_the_least_spread(past: torch.Tensor, masked: bool) -> None:
    observed = torch.zeros_like(past, dtype=torch.bool) if masked else None
    torch.testing.assert_close(window_spread(past, observed), torch.full((1, 1, 1), LEAST_SPREAD))
