"""Exponential smoothing: the maps against the recursion on one series, and the choice of the rates."""

import numpy as np
import pytest
import torch

from forecast.evaluation.smoothing import PLAIN, RATES, Rates, fit_smoothing, smoothing_maps, smoothing_weights
from tests.support.examples import split_windows


def recursion(values: np.ndarray, rates: Rates, period: int, horizon: int) -> list[float]:
    """Return the forecast by the textbook's recursion on numbers."""
    count = len(values)
    half = max(1, count // 2 // period * period or count // 2)
    slope = (values[-half:].mean() - values[:half].mean()) / max(1, count - half) if rates.damping else 0.0
    level, trend = values.mean() - slope * (count + 1) / 2, slope
    line = level + slope * np.arange(1, count + 1)
    season = np.zeros(period)
    if period > 1:
        season = np.array([(values - line)[phase::period].mean() for phase in range(period)])
        season -= season.mean()
    for step, value in enumerate(values):
        error = value - level - rates.damping * trend - season[step % period]
        level = level + rates.damping * trend + rates.level * error
        trend = rates.damping * trend + rates.level * rates.trend * error
        season[step % period] += rates.season * error
    forecast = []
    for step in range(horizon):
        trend *= rates.damping
        level += trend
        forecast.append(level + season[(count + step) % period])
    return forecast


@pytest.mark.parametrize(("look_back", "period"), [(9, 1), (1, 1), (8, 4), (11, 4), (5, 4), (30, 7)])
def test_the_maps_are_the_recursion(look_back: int, period: int) -> None:
    values = np.random.default_rng(look_back).normal(size=look_back).cumsum()
    rates = RATES if period > 1 else PLAIN
    maps = list(smoothing_weights(rates, look_back, 6, period))
    assert len(maps) == len(rates)
    for one, weight in zip(rates, maps, strict=True):
        expected = recursion(values, one, period, 6)
        np.testing.assert_allclose(torch.from_numpy(values) @ weight, expected, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(weight.sum(0), torch.ones(6, dtype=torch.float64))  # a constant stays


def test_a_line_with_a_season_is_continued_exactly() -> None:
    steps = torch.arange(40, dtype=torch.float64)
    values = 3 + 0.5 * steps + torch.tensor([1.0, -2, 0.5, 0.5], dtype=torch.float64).repeat(10)
    (weight,) = smoothing_weights([Rates(0.2, 0.05, 1.0, 0.1)], 32, 8, 4)
    torch.testing.assert_close(values[:32] @ weight, values[32:])


@pytest.mark.parametrize(("period", "candidates"), [(1, len(PLAIN)), (9, len(PLAIN)), (8, len(PLAIN) + len(RATES))])
def test_a_season_needs_a_look_back_of_one(period: int, candidates: int) -> None:
    assert len(list(smoothing_maps(8, 3, period))) == candidates


def test_the_rates_follow_the_series() -> None:
    train, _ = split_windows()
    walk = torch.randn(train.values.shape, generator=torch.Generator().manual_seed(1)).cumsum(0)
    noise = torch.randn(train.values.shape, generator=torch.Generator().manual_seed(2))
    for values, newest in ((walk, 0.9), (noise, 0.2)):
        train.values[:] = values
        assert float(fit_smoothing(train, 8, 1).weight[-1, 0]) == pytest.approx(newest, abs=0.1)


def test_a_large_series_does_not_choose_for_the_others() -> None:
    train, _ = split_windows()
    random = torch.Generator().manual_seed(2)
    train.values[:] = torch.randn(train.values.shape, generator=random)
    before = fit_smoothing(train, 8, 1)
    train.values[:, 0] *= 1e4
    torch.testing.assert_close(fit_smoothing(train, 8, 1).weight, before.weight)
