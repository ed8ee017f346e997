"""The combination of linear maps: its weights, its name, and which windows choose it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from forecast.data.windows import Windows
from forecast.evaluation.combination import POWER, PRIOR, SOME, Members, best_weights, mixture, shrunk_weights
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.holdout import blocks
from forecast.evaluation.linear_start import choose_start, cross_validation, half_life_maps, naive_maps
from forecast.evaluation.ridge import LinearMap, fit_ridge, refit
from tests.support.examples import split_windows


def products(seed: int, count: int = 5) -> torch.Tensor:
    errors = torch.randn(count, 40, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return errors @ errors.T / 40


@pytest.mark.parametrize("seed", range(8))
def test_the_best_weights_are_those_of_a_numerical_search(seed: int) -> None:
    own = products(seed)
    found = minimize(
        lambda weights: float(weights @ own.numpy() @ weights),
        np.full(5, 0.2),
        bounds=[(0, 1)] * 5,
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1},
        options={"ftol": 1e-12},
    )
    np.testing.assert_allclose(best_weights(own), found.x, atol=1e-3)


def test_equal_members_have_finite_weights() -> None:
    weights = best_weights(torch.ones(3, 3, dtype=torch.float64))
    assert float(weights.sum()) == pytest.approx(1)
    assert (weights >= 0).all()
    assert shrunk_weights(torch.zeros(3, 3, dtype=torch.float64), 4).isfinite().all()


def test_little_evidence_gives_the_prior_and_much_evidence_the_best_weights() -> None:
    own = torch.diag(torch.tensor([1.0, 2.0, 8.0], dtype=torch.float64))
    torch.testing.assert_close(shrunk_weights(own, 0), torch.tensor([0.5, 0.5, 0], dtype=torch.float64))
    torch.testing.assert_close(shrunk_weights(own, 1e9), best_weights(own), atol=1e-6, rtol=0)
    ratio = 2.0 ** (-POWER * PRIOR / (PRIOR + SOME))
    prior = torch.tensor([1.0, ratio, 0], dtype=torch.float64) / (1 + ratio)
    torch.testing.assert_close(shrunk_weights(own, PRIOR), (best_weights(own) + prior) / 2)


def test_the_poorest_forecast_counts_only_by_evidence() -> None:
    own = torch.diag(torch.tensor([1.0, 1.01, 1.02], dtype=torch.float64))
    assert shrunk_weights(own, 0)[2] == 0
    assert shrunk_weights(own, 1000)[2] > 0.3


def test_a_mixture_is_the_weighted_mean_and_says_so() -> None:
    train, _ = split_windows()
    maps = naive_maps(8, 3, 4)
    mixed = mixture(maps, torch.tensor([0.5, 0.0, 0.5]))
    batch = train.batch(torch.tensor([3, 9]))
    torch.testing.assert_close(mixed(batch), (maps[0](batch) + maps[2](batch)) / 2)
    assert mixed.name == "50 % window's mean + 50 % seasonal naive forecast"
    each = LinearMap(torch.stack([maps[1].weight, maps[2].weight]), "each")
    mixed = mixture([*maps, each], torch.tensor([0.25, 0.0, 0.0, 0.75]))
    torch.testing.assert_close(mixed(batch), maps[0](batch) / 4 + 3 * each(batch) / 4)


def short(seed: int = 9) -> tuple[Windows, Windows]:
    """Return splits of a season with noise, in which no forecast is surely the best, and 20 validation windows."""
    train, validation = split_windows()
    random = torch.Generator().manual_seed(seed)
    noise = 2.0 * torch.randn(train.values.shape, generator=random)
    for windows in (train, validation):
        windows.values[:] = torch.sin(torch.arange(len(noise)) * torch.pi / 2)[:, None] + noise
    return train, replace(validation, starts=validation.starts[:20])


def test_with_little_evidence_the_start_is_a_combination_and_no_forecast_in_disguise() -> None:
    train, validation = short()
    ridge = fit_ridge(train, validation)
    start, held_out, _, _ = choose_start(ridge, train, validation, period=4, confidence=0.9)
    assert " + " in start.name
    maps = [ridge, *naive_maps(8, 3, 4), *half_life_maps(8, 3)]
    errors = [float(evaluate(one, validation, 64).sums.squared.sum()) for one in maps]
    assert float(evaluate(start, validation, 64).sums.squared.sum()) < 1.05 * min(errors)
    parts = blocks(validation)
    assert len(held_out) == (1 if parts is None else len(parts))
    assert choose_start(ridge, train, validation, period=4, confidence=None).held_out == ()


def test_a_block_does_not_change_the_combination_that_forecasts_it() -> None:
    train, validation = short()
    parts = blocks(validation)
    assert parts is not None
    ridge = fit_ridge(train, validation)
    maps = [ridge, *naive_maps(8, 3, 4)]
    scored = [([refit(rest, ridge), *naive_maps(8, 3, 4)], part) for part, rest in cross_validation(train, 1)]

    def held_out(windows: Windows) -> tuple[LinearMap, ...]:
        return Members.of(maps, windows, scored).held_out()

    before = held_out(validation)
    for place, block in enumerate(parts):
        changed = replace(validation, values=validation.values.clone())
        starts = validation.starts[block.held_out.start : block.held_out.stop]
        changed.values[int(starts[0]) + 8 : int(starts[-1]) + 11] = 50.0  # also in the look-back of later windows
        kept = torch.cat([validation.starts[part.start : part.stop] for part in (block.before, block.after)])
        reads = (kept[:, None] + torch.arange(8))[..., None] == torch.arange(int(starts[0]) + 8, int(starts[-1]) + 11)
        if reads.any():
            continue
        torch.testing.assert_close(held_out(changed)[place].weight, before[place].weight)
    assert not torch.equal(before[0].weight, before[-1].weight)


def test_all_windows_as_one_block_are_forecast_by_what_training_windows_chose() -> None:
    train, validation = short()
    few = replace(validation, starts=validation.starts[:4])
    assert blocks(few) is None
    maps = naive_maps(8, 3, 4)
    changed = replace(few, values=few.values.clone())
    changed.values[int(few.starts[0]) + 8 :] += 3.0
    pools = [Members.of(maps, windows, [(maps, train)]) for windows in (few, changed)]
    (own,), (other,) = (pool.held_out() for pool in pools)
    torch.testing.assert_close(own.weight, other.weight)
    own, other = (pool.combined() for pool in pools)
    assert not torch.allclose(own.weight, other.weight)


def test_a_forecast_that_validation_shows_to_be_best_is_taken_alone() -> None:
    train, validation = short()
    random = torch.Generator().manual_seed(3)
    train.values[:] = torch.randn(train.values.shape, generator=random).cumsum(0)
    season = 2.0 * (torch.arange(len(validation.values)) % 4)
    validation.values[:] = season[:, None] + torch.randn(validation.values.shape, generator=random)
    ridge = fit_ridge(train, validation)
    start, held_out, _, _ = choose_start(ridge, train, validation, period=4, confidence=0.9)
    assert start.name in ("the seasonal naive forecast", "exponential smoothing")
    assert held_out == ()


def test_series_count_the_same_whatever_their_errors() -> None:
    train, validation = short()
    maps = naive_maps(8, 3, 4)
    own = Members.of(maps, validation, [(maps, train)]).combined()
    for windows in (train, validation):
        windows.values[:, 0] *= 1e3
    scaled = Members.of(maps, validation, [(maps, train)]).combined()
    torch.testing.assert_close(scaled.weight, own.weight, atol=1e-4, rtol=1e-4)
