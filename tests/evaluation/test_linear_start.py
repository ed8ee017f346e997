"""The start of the linear path: a naive forecast, unless the ridge is significantly better."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from forecast.data.windows import Windows
from forecast.evaluation import linear_start
from forecast.evaluation.baselines import SeasonalNaive, last_value
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.linear_maps import fit_maps
from forecast.evaluation.linear_start import (
    LAST,
    MEAN,
    OWN,
    SEASON,
    choose_start,
    cross_validation,
    fit_series,
    half_life_maps,
    naive_maps,
    window_errors,
)
from forecast.evaluation.ridge import LinearMap, fit_ridge, refit
from forecast.model.linear_path import extended
from tests.support.examples import make_windows, split_windows


def chosen(*given: Any, **options: Any) -> LinearMap:
    """Return the start alone."""
    return choose_start(*given, **options).map


def test_the_naive_maps_equal_the_naive_forecasts() -> None:
    windows = make_windows(horizon=7)
    batch = windows.batch(torch.tensor([0, 30]))
    naive = {MEAN: batch.past[..., :2].mean(1, keepdim=True).expand(-1, 7, -1), LAST: last_value(batch)}
    naive[SEASON] = SeasonalNaive(windows, 4)(batch)
    maps = naive_maps(8, 7, 4)
    assert [linear_map.name for linear_map in maps] == list(naive)
    for linear_map in maps:
        torch.testing.assert_close(linear_map(batch), naive[linear_map.name])


@pytest.mark.parametrize("period", [1, 9])
def test_a_season_longer_than_the_look_back_is_not_a_candidate(period: int) -> None:
    assert [linear_map.name for linear_map in naive_maps(8, 3, period)] == [MEAN, LAST]


@pytest.mark.parametrize("every", [1, 4])
def test_a_part_of_the_training_windows_shares_no_target_with_those_that_fit_its_maps(every: int) -> None:
    train, _ = split_windows(context_length=8, horizon=3)
    parts = cross_validation(train, every)
    assert torch.equal(torch.cat([part.starts for part, _ in parts]), train.thinned(every).starts)
    for part, rest in parts:
        apart = (part.starts[:, None] - rest.starts).abs()
        assert int(apart.min()) >= 3
        assert len(rest) >= len(train.thinned(every)) - len(part) - 4
    assert cross_validation(replace(train, starts=train.starts[:4]), 1) == []


def test_of_very_many_training_windows_some_are_scored_by_cross_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    train, _ = split_windows(context_length=8, horizon=3)
    monkeypatch.setattr(linear_start, "MOST_SCORED", 20)
    assert 10 < sum(len(part) for part, _ in cross_validation(train, 1)) <= 20


@pytest.mark.parametrize("confidence", [0.9, None])
def test_a_random_walk_starts_from_the_last_value_and_a_seasonal_one_from_the_last_season(
    confidence: float | None,
) -> None:
    walk, season = split_windows(), split_windows()
    for windows in walk:
        windows.values[:] = windows.values.cumsum(0)
    for windows in season:
        windows.values[:] = (
            windows.values.view(75, 4, 3).cumsum(0).view(300, 3)
        )  # a separate random walk for each phase
    for (train, validation), name in ((walk, LAST), (season, SEASON)):
        maps = fit_maps(train, validation, starts=True, period=4, confidence=confidence, batch_size=64)
        assert maps.start is not None
        assert maps.start.name == name
        assert torch.equal(maps.baseline.weight, fit_ridge(train, validation).weight)


def test_noise_around_a_level_starts_from_the_mean_and_a_linear_law_from_the_ridge() -> None:
    (train, validation), other = split_windows(), split_windows()
    assert chosen(fit_ridge(train, validation), train, validation, period=4, confidence=0.9).name == MEAN
    follow_law(*other)
    ridge = fit_ridge(*other)
    assert chosen(ridge, *other, period=4, confidence=0.9) is ridge


def test_a_ridge_that_is_better_by_chance_is_chosen_only_without_a_confidence() -> None:
    train, validation = split_windows()
    ridge = fit_ridge(train, validation)
    naive = chosen(ridge, train, validation, period=1, confidence=0.9)
    batch = validation.batch(torch.arange(len(validation)))
    target = naive(batch)
    better = replace(ridge, weight=naive.weight.clone())
    noise = torch.randn(better.weight.shape, generator=torch.Generator().manual_seed(4)) * 1e-3
    for sign in (1, -1):  # one of the two small changes is better, by almost nothing
        changed = replace(better, weight=better.weight + sign * noise)
        assert not torch.equal(changed(batch), target)
        assert chosen(changed, train, validation, period=1, confidence=0.9).name == naive.name
    by_score = {
        chosen(replace(better, weight=better.weight + sign * noise), train, validation, period=1, confidence=None).name
        for sign in (1, -1)
    }
    assert "ridge" in by_score


def test_a_start_is_not_chosen_on_a_short_validation_split_alone() -> None:
    train, validation = split_windows()
    train.values[:] = train.values.cumsum(0)  # a random walk
    validation.values[:] = (torch.arange(300) % 4)[:, None]  # the season fits here
    short = replace(validation, starts=validation.starts[:1])
    ridge = fit_ridge(train, validation)
    middle = replace(validation, starts=validation.starts[:28])  # ten horizons
    splits = (validation, middle, short)
    whole, part, tail = (chosen(ridge, train, split, period=4, confidence=0.9) for split in splits)
    assert whole.name == SEASON  # it spans enough horizons
    assert part.name == SEASON  # surely better than the combination there
    assert tail.name.startswith("65 % last value + 25 % exponential smoothing")


def follow_law(*splits: Windows) -> None:
    """Make all rows follow x_t = 2 cos(w) x_{t-1} - x_{t-2}, which the ridge can fit and no naive forecast can."""
    for windows in splits:
        for row in range(2, 300):
            windows.values[row] = 1.8 * windows.values[row - 1] - windows.values[row - 2]


@pytest.mark.parametrize(("windows", "is_sure"), [(5, False), (6, False), (9, True)])
def test_fewer_than_three_blocks_are_no_proof(windows: int, is_sure: bool) -> None:
    train, validation = split_windows()
    follow_law(train, validation)
    ridge = fit_ridge(train, validation)
    first = replace(train, starts=train.starts[:1])  # no early windows
    some = replace(validation, starts=validation.starts[:windows])
    start, held_out, _, _ = choose_start(ridge, first, some, period=1, confidence=0.9)
    assert start is ridge  # which has no error here
    assert (held_out == ()) == is_sure


def test_windows_further_apart_than_a_horizon_are_blocks_of_their_own() -> None:
    train, validation = split_windows()
    follow_law(train, validation)
    ridge, first = fit_ridge(train, validation), replace(train, starts=train.starts[:1])
    near = replace(validation, starts=validation.starts[:4])
    apart = replace(validation, starts=validation.starts[:13:4])  # four too
    assert choose_start(ridge, first, near, period=1, confidence=0.9).held_out
    assert choose_start(ridge, first, apart, period=1, confidence=0.9) == (ridge, (), (), ())


def test_a_ridge_that_is_worse_on_all_windows_is_not_chosen() -> None:
    train, validation = split_windows(horizon=12)
    follow_law(train)
    ridge = fit_ridge(train, train)
    few = replace(validation, starts=validation.starts[:11])  # fewer than a block
    validation.values[:] = 40.0 * torch.arange(300)[:, None] % 1000 - 500.0
    assert "ridge" not in chosen(ridge, train, few, period=1, confidence=0.9).name
    assert chosen(ridge, train, few, period=1, confidence=None).name != "ridge"


def test_smoothing_wins_on_a_level_with_noise() -> None:
    train, validation = split_windows()
    random = torch.Generator().manual_seed(3)
    level = torch.randn(300, 1, generator=random).cumsum(0)
    noise = 1.2 * torch.randn(300, validation.values.shape[1], generator=random)
    train.values[:], validation.values[:] = level + noise, level + noise
    ridge = fit_ridge(train, validation)
    poor = replace(ridge, weight=-ridge.weight)
    start = chosen(poor, train, validation, period=1, confidence=None)
    assert start.name.startswith("exponential smoothing")
    for smoothing in half_life_maps(8, 3):
        torch.testing.assert_close(smoothing.weight.sum(0), torch.ones(3))
    batch = validation.batch(torch.tensor([0]))
    constant = batch._replace(past=torch.full_like(batch.past, 5.0))
    assert torch.allclose(half_life_maps(8, 3)[0](constant), torch.tensor(5.0))
    half, quarter = half_life_maps(400, 3)[0].weight[-2:, 0].flip(0).tolist()
    assert (half, quarter) == pytest.approx((0.5, 0.25))
    assert [one.name for one in half_life_maps(8, 3)][1:] == ["exponential smoothing, half-life 2 steps"]


def test_training_windows_are_scored_by_maps_that_others_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    train, validation = split_windows()
    short = replace(validation, starts=validation.starts[:1])
    ridge, scored = fit_ridge(train, validation), []
    monkeypatch.setattr(
        linear_start,
        "window_errors",
        lambda maps, windows, size: (
            scored.extend((one, windows.starts) for one in maps) or window_errors(maps, windows, size)
        ),
    )
    start = choose_start(ridge, train, short, period=1, confidence=0.9)
    assert all(torch.equal(starts, short.starts) for forecaster, starts in scored if forecaster is ridge)
    parts = cross_validation(train, 1)
    for part, rest in parts:
        own = refit(rest, ridge).weight
        assert any(torch.equal(one.weight, own) and torch.equal(starts, part.starts) for one, starts in scored)
    assert len(start.cross_fitted) == len(parts) == 3
    whole = choose_start(ridge, train, validation, period=1, confidence=0.9)
    assert (whole.held_out, whole.cross_fitted) == ((), ())


def test_the_errors_of_maps_are_those_of_an_evaluation_of_each() -> None:
    windows = replace(split_windows()[0], observed=torch.rand(300, 3) < 0.8)
    maps = naive_maps(8, windows.horizon, 4)
    found = window_errors(maps, windows, 7)
    assert len(found) == 3
    for one, errors in zip(maps, found, strict=True):
        np.testing.assert_array_equal(errors, evaluate(one, windows, 7).mse)


def test_windows_without_a_target_do_not_change_the_choice() -> None:
    observed = torch.ones(300, 3, dtype=torch.bool)
    train, validation = split_windows()
    follow_law(train, validation)
    ridge = fit_ridge(train, validation)
    observed[210:216] = False
    with_gap = replace(validation, observed=observed)
    assert chosen(ridge, train, with_gap, period=1, confidence=0.9) is ridge


def two_laws() -> tuple[Windows, Windows]:
    """Return windows that follow the step before last, the second series with the other sign."""
    train, validation = split_windows()
    random = torch.Generator().manual_seed(0)
    noise = 0.3 * torch.randn(train.values.shape[0], 2, generator=random)
    for windows in (train, validation):
        for row in range(2, len(windows.values)):
            windows.values[row, 0] = 0.9 * windows.values[row - 2, 0] + noise[row, 0]
            windows.values[row, 1] = -0.9 * windows.values[row - 2, 1] + noise[row, 1]
    return train, validation


def errors(linear_map: LinearMap, windows: Windows) -> list[float]:
    return evaluate(linear_map, windows, 64).sums.squared.sum(0).tolist()


def test_series_with_other_laws_get_maps_of_their_own() -> None:
    train, validation = two_laws()
    shared = fit_ridge(train, validation)
    own = fit_series(train, validation, shared)
    assert own.weight.shape == (2, 8, 3)
    both = zip(errors(own, validation), errors(shared, validation), strict=True)
    assert all(mine < 0.9 * theirs for mine, theirs in both)
    for place in range(2):  # each is the best of the ridges of this series
        part, scored = train.of_series(place), validation.of_series(place)
        best = min(
            errors(fit_ridge(part.newest(length), scored.newest(length)), scored.newest(length))[0]
            for length in (8, 4, 2)
        )
        assert errors(own, validation)[place] == pytest.approx(best, rel=1e-4)
    chosen = choose_start(shared, train, validation, period=1, confidence=0.9, each_series=True).map
    assert chosen.name == OWN
    assert choose_start(shared, train, validation, period=1, confidence=0.9).map.name != OWN


def test_a_series_keeps_the_shared_map_where_its_own_is_no_better(monkeypatch: pytest.MonkeyPatch) -> None:
    train, validation = two_laws()
    shared = fit_ridge(train, validation)
    monkeypatch.setattr("forecast.evaluation.linear_start.DIVISORS", ())
    np.testing.assert_array_equal(fit_series(train, validation, shared).weight, shared.weight.expand(2, -1, -1))


def test_extended_weights_forecast_like_the_newest_steps() -> None:
    batch = split_windows()[0].batch(torch.arange(5))
    short = LinearMap(torch.randn(3, 3, generator=torch.Generator().manual_seed(1)), "short")
    torch.testing.assert_close(LinearMap(extended(short.weight, 8), "long")(batch), short(batch), atol=1e-4, rtol=1e-4)


def test_windows_of_one_series_and_of_the_newest_steps() -> None:
    windows = split_windows()[0]
    observed = torch.rand(windows.values.shape, generator=torch.Generator().manual_seed(2)) > 0.1
    windows = replace(windows, observed=observed)
    whole, part = windows.batch(torch.tensor([3, 9])), windows.of_series(1).newest(5).batch(torch.tensor([3, 9]))
    torch.testing.assert_close(part.past, whole.past[:, 3:, 1:2])
    torch.testing.assert_close(part.future, whole.future[..., 1:])
    torch.testing.assert_close(part.past_known, whole.past_known[:, 3:])
    assert part.future_observed is not None
    assert whole.future_observed is not None
    torch.testing.assert_close(part.future_observed, whole.future_observed[..., 1:])
    assert part.origin.tolist() == whole.origin.tolist()
