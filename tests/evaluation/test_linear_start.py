"""Where the linear path starts: a naive forecast, unless the ridge is surely better."""

from dataclasses import replace

import pytest
import torch

from forecast.data.windows import Windows
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.linear_start import LAST, MEAN, SEASON, choose_start, fit_maps, in_turn, naive_maps
from forecast.evaluation.ridge import fit_ridge, refit
from forecast.evaluation.scoring import SeasonalNaive, last_value
from tests.support.examples import make_windows, split_windows


def test_the_maps_of_the_naive_forecasts_give_them() -> None:
    windows = make_windows(horizon=7)
    batch = windows.batch(torch.tensor([0, 30]))
    naive = {MEAN: batch.past[..., :2].mean(1, keepdim=True).expand(-1, 7, -1), LAST: last_value(batch)}
    naive[SEASON] = SeasonalNaive(windows, 4)(batch)
    maps = naive_maps(8, 7, 4)
    assert [each.name for each in maps] == list(naive)
    for each in maps:
        torch.testing.assert_close(each(batch), naive[each.name])


@pytest.mark.parametrize("period", [1, 9])
def test_a_season_that_the_look_back_does_not_hold_is_no_candidate(period: int) -> None:
    assert [each.name for each in naive_maps(8, 3, period)] == [MEAN, LAST]


def test_the_late_windows_of_the_training_part_score_a_map_that_has_not_seen_their_targets() -> None:
    train, _ = split_windows(context_length=8, horizon=3)
    for every in (1, 4):
        early, late = in_turn(train, every)
        assert int(early.starts.max()) + 8 + 3 <= int(late.starts.min()) + 8  # rows of targets
        assert len(late) == pytest.approx(0.4 * len(train) / every, abs=1)
        left_out = len(train.every(every)) - len(early) - len(late)
        assert left_out == pytest.approx(2 / every, abs=1)


@pytest.mark.parametrize("confidence", [0.9, None])
def test_a_walk_starts_from_the_last_value_and_a_season_from_the_last_one(confidence: float | None) -> None:
    walk, season = split_windows(), split_windows()
    for windows in walk:
        windows.values[:] = windows.values.cumsum(0)
    for windows in season:
        windows.values[:] = windows.values.view(75, 4, 3).cumsum(0).view(300, 3)  # a walk of each phase by itself
    for (train, validation), name in ((walk, LAST), (season, SEASON)):
        maps = fit_maps(train, validation, starts=True, period=4, confidence=confidence, stride=1, batch_size=64)
        assert maps.start is not None
        assert maps.start.name == name
        assert torch.equal(maps.baseline.weight, fit_ridge(train, validation).weight)


def test_noise_about_a_level_and_a_law_that_no_naive_forecast_knows_start_from_the_ridge_or_the_mean() -> None:
    (train, validation), other = split_windows(), split_windows()
    assert choose_start(fit_ridge(train, validation), train, validation, period=4, confidence=0.9).name == MEAN
    law(*other)
    ridge = fit_ridge(*other)
    assert choose_start(ridge, *other, period=4, confidence=0.9) is ridge


def test_a_ridge_that_is_better_by_chance_is_taken_only_where_the_better_score_counts() -> None:
    train, validation = split_windows()
    ridge = fit_ridge(train, validation)
    naive = choose_start(ridge, train, validation, period=1, confidence=0.9)
    batch = validation.batch(torch.arange(len(validation)))
    target = naive(batch)
    better = replace(ridge, weight=naive.weight.clone())
    noise = torch.randn(better.weight.shape, generator=torch.Generator().manual_seed(4)) * 1e-3
    for sign in (1, -1):  # one of two small changes is the better one, by next to nothing
        changed = replace(better, weight=better.weight + sign * noise)
        assert not torch.equal(changed(batch), target)
        assert choose_start(changed, train, validation, period=1, confidence=0.9).name == naive.name
    by_score = {
        choose_start(
            replace(better, weight=better.weight + sign * noise), train, validation, period=1, confidence=None
        ).name
        for sign in (1, -1)
    }
    assert "ridge" in by_score


def test_a_start_is_not_chosen_on_a_short_validation_part_alone() -> None:
    train, validation = split_windows()
    train.values[:] = train.values.cumsum(0)  # a walk
    validation.values[:] = (torch.arange(300) % 4)[:, None]  # on which the season is right, for once
    short = replace(validation, starts=validation.starts[:1])
    ridge = fit_ridge(train, validation)
    whole, tail = (choose_start(ridge, train, part, period=4, confidence=0.9) for part in (validation, short))
    assert whole.name == SEASON  # it holds horizons enough
    assert tail.name == LAST


def law(*parts: Windows) -> None:
    """Make all rows follow x_t = 2 cos(w) x_{t-1} - x_{t-2}, which the ridge knows and no naive forecast does."""
    for windows in parts:
        for row in range(2, 300):
            windows.values[row] = 1.8 * windows.values[row - 1] - windows.values[row - 2]


@pytest.mark.parametrize(("windows", "name"), [(5, LAST), (6, LAST), (9, "ridge")])
def test_fewer_than_three_blocks_prove_nothing(windows: int, name: str) -> None:
    train, validation = split_windows()
    law(train, validation)
    ridge = fit_ridge(train, validation)
    first = replace(train, starts=train.starts[:1])  # nothing before the last windows of it
    part = replace(validation, starts=validation.starts[:windows])
    assert choose_start(ridge, first, part, period=1, confidence=0.9).name == name


def test_windows_that_lie_apart_are_blocks_by_themselves() -> None:
    train, validation = split_windows()
    law(train, validation)
    ridge, first = fit_ridge(train, validation), replace(train, starts=train.starts[:1])
    apart = replace(validation, starts=validation.starts[:13:4])  # four of them
    assert choose_start(ridge, first, apart, period=1, confidence=0.9, stride=1).name == LAST
    assert choose_start(ridge, first, apart, period=1, confidence=0.9, stride=4).name == "ridge"


def test_what_is_worse_on_all_windows_is_not_taken_for_some_blocks() -> None:
    train, validation = split_windows(horizon=12)
    law(train)
    ridge = fit_ridge(train, train)
    few = replace(validation, starts=validation.starts[:11])  # fewer than a block
    validation.values[:] = 40.0 * torch.arange(300)[:, None] % 1000 - 500.0
    start = choose_start(ridge, train, few, period=1, confidence=0.9)
    assert start.name == choose_start(ridge, train, few, period=1, confidence=None).name != "ridge"


def test_the_late_windows_are_scored_by_a_map_that_was_fitted_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    train, validation = split_windows()
    short, fitted = replace(validation, starts=validation.starts[:1]), []
    monkeypatch.setattr(
        "forecast.evaluation.linear_start.refit", lambda early, ridge: fitted.append(early) or refit(early, ridge)
    )
    ridge = fit_ridge(train, validation)
    choose_start(ridge, train, short, period=1, confidence=0.9)
    (early,) = fitted
    assert int(early.starts.max()) < 0.6 * len(train)
    scored = []
    monkeypatch.setattr(
        "forecast.evaluation.linear_start.evaluate", lambda *each: scored.append(each[0]) or evaluate(*each)
    )
    choose_start(ridge, train, short, period=1, confidence=0.9)
    assert sum(each is ridge for each in scored) == 1  # on validation alone


def test_windows_without_a_target_say_nothing() -> None:
    observed = torch.ones(300, 3, dtype=torch.bool)
    train, validation = split_windows()
    law(train, validation)
    ridge = fit_ridge(train, validation)
    observed[210:216] = False
    holed = replace(validation, observed=observed)
    assert choose_start(ridge, train, holed, period=1, confidence=0.9) is ridge
