"""Conformal calibration: formula, ranks, quantile runs, and an independent package."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.common.errors import InputError
from forecast.data.windows import thinned_places
from forecast.evaluation import intervals as module
from forecast.evaluation.intervals import Calibration, fewest_windows, interval_levels, ranks

crepes = pytest.importorskip("crepes")

HORIZON, SERIES = 3, 2
DECILES = tuple(tenths / 10 for tenths in range(1, 10))


def residuals_of(count: int, seed: int = 0, levels: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Return residuals (W, h, C, K), float32, and spreads (W, 1, C)."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(count, HORIZON, SERIES, 1, generator=generator)
    if levels > 1:
        quantiles = torch.randn(count, HORIZON, SERIES, levels, generator=generator).sort(-1).values
        values = values - quantiles
    return values, torch.rand(count, 1, SERIES, generator=generator) + 0.2


def inputs(count: int = 4, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Return forecasts (B, h, C), float64, and spreads (B, 1, C)."""
    generator = torch.Generator().manual_seed(seed)
    forecast = torch.randn(count, HORIZON, SERIES, generator=generator, dtype=torch.float64)
    return forecast, torch.rand(count, 1, SERIES, generator=generator, dtype=torch.float64) + 0.2


@pytest.mark.parametrize("percent", [50, 80, 95, 99])
def test_an_interval_is_the_forecast_plus_and_minus_a_ranked_score(percent: float) -> None:
    residuals, spread = residuals_of(200)
    forecast, own = inputs()
    calibration = Calibration.fit(residuals, spread)
    low, high = calibration.quantiles(forecast, own, interval_levels(percent)).numpy().transpose(3, 0, 1, 2)
    scores = np.sort(np.abs(residuals[..., 0].numpy()) / spread.numpy(), axis=0)
    half = scores[math.ceil(round(201 * percent / 100, 9)) - 1] * own.numpy()
    np.testing.assert_allclose(low, forecast.numpy() - half, rtol=1e-6)
    np.testing.assert_allclose(high, forecast.numpy() + half, rtol=1e-6)


@pytest.mark.parametrize("percent", [80, 90, 95])
def test_intervals_equal_those_of_crepes(percent: float) -> None:
    residuals, spread = residuals_of(203)  # its ranks are one too high where binary fractions round, as for 199
    forecast, own = inputs()
    found = Calibration.fit(residuals, spread).quantiles(forecast, own, interval_levels(percent)).numpy()
    for step in range(HORIZON):
        for series in range(SERIES):
            regressor = crepes.ConformalRegressor()
            regressor.fit(
                residuals[:, step, series, 0].numpy().astype(float), spread[:, 0, series].numpy().astype(float)
            )
            expected = regressor.predict_int(
                forecast[:, step, series].numpy(), sigmas=own[:, 0, series].numpy(), confidence=percent / 100
            )
            np.testing.assert_allclose(found[:, step, series], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("levels", [(0.5,), DECILES, (0.025, 0.1, 0.5, 0.9, 0.975)])
def test_an_unchanged_calibration_returns_the_quantiles_that_it_is_given(levels: tuple[float, ...]) -> None:
    calibration = Calibration.unchanged(levels, HORIZON, SERIES)
    quantiles = torch.randn(5, HORIZON, SERIES, len(levels)).sort(-1).values
    spread = torch.rand(5, 1, SERIES) + 0.2
    assert calibration.shape[:2] == (HORIZON, SERIES)
    assert torch.equal(calibration.quantiles(quantiles, spread, levels), quantiles)


def test_quantile_runs_move_both_ends_of_a_pair_by_the_same_distance() -> None:
    levels = (0.1, 0.3, 0.5, 0.7, 0.9)
    residuals, spread = residuals_of(200, levels=5)
    calibration = Calibration.fit(residuals, spread, levels)
    generator = torch.Generator().manual_seed(2)
    quantiles = torch.randn(4, HORIZON, SERIES, 5, generator=generator, dtype=torch.float64).sort(-1).values
    _, own = inputs()
    found = calibration.quantiles(quantiles, own, levels).numpy()
    expected = quantiles.numpy().copy()
    for pair, coverage in ((0, 0.8), (1, 0.4)):
        error = residuals.numpy()  # future minus quantile
        score = np.maximum(-error[..., pair], error[..., -1 - pair]) / spread.numpy()
        moved = np.sort(score, axis=0)[math.ceil(round(201 * coverage, 9)) - 1] * own.numpy()
        expected[..., pair] -= moved
        expected[..., -1 - pair] += moved
    np.testing.assert_allclose(found, np.sort(expected, -1), rtol=1e-5, atol=1e-6)
    assert (found[..., 2] == np.sort(expected, -1)[..., 2]).all()


def test_levels_between_trained_ones_are_interpolated_and_those_beyond_refused() -> None:
    residuals, spread = residuals_of(200, levels=9)
    calibration = Calibration.fit(residuals, spread, DECILES)
    quantiles = torch.arange(9.0, dtype=torch.float64).expand(1, HORIZON, SERIES, 9)
    _, own = inputs(1)
    low, between, high = calibration.quantiles(quantiles, own, (0.6, 0.675, 0.7)).unbind(-1)
    torch.testing.assert_close(between, 0.25 * low + 0.75 * high)
    with pytest.raises(InputError, match=r"^quantile 0.95 is outside the trained quantiles 0.1 to 0.9: choose one"):
        calibration.check([0.95])
    with pytest.raises(InputError, match=r"^levels: the 95 % interval \(quantile 0.025\) is outside the trained"):
        calibration.check_intervals([80, 95])
    calibration.check_intervals([80])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0.02, 0.98), min_size=2, max_size=9, unique=True).map(sorted),
    st.integers(60, 120),
    st.sampled_from([(), DECILES]),
    st.integers(0, 1000),
)
def test_quantiles_do_not_cross_at_any_levels(levels: list[float], count: int, trained: tuple, seed: int) -> None:
    residuals, spread = residuals_of(count, seed, max(1, len(trained)))
    calibration = Calibration.fit(residuals, spread, trained)
    usable = [level for level in levels if calibration.supports(level)]
    forecast, own = inputs(seed=seed)
    if trained:
        forecast = torch.randn(4, HORIZON, SERIES, 9, dtype=torch.float64).sort(-1).values
    if usable:
        assert bool((calibration.quantiles(forecast, own, usable).diff(dim=-1) >= 0).all())


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 500), st.floats(0.01, 0.99))
def test_the_rank_covers_at_least_its_level_and_at_most_one_window_more(count: int, coverage: float) -> None:
    rank = int(ranks(coverage, torch.tensor(count)))
    if count >= fewest_windows(coverage):
        assert rank / (count + 1) >= coverage - 1e-6
    assert rank == count or (rank - 1) / (count + 1) < coverage


@pytest.mark.parametrize(("coverage", "windows"), [(0.8, 4), (0.9, 9), (0.95, 19), (0.99, 99)])
def test_a_level_needs_so_many_windows(coverage: float, windows: int) -> None:
    assert fewest_windows(coverage) == windows
    level = 0.5 + coverage / 2
    assert Calibration.fit(*residuals_of(windows)).supports(level)
    assert not Calibration.fit(*residuals_of(windows - 1)).supports(level)


def test_exchangeable_windows_are_covered_at_the_level() -> None:
    residuals, spread = residuals_of(2000, seed=5)
    calibration = Calibration.fit(residuals[:1000], spread[:1000])
    forecast = torch.zeros(1000, HORIZON, SERIES)
    low, high = calibration.quantiles(forecast, spread[1000:], interval_levels(80)).unbind(-1)
    future = residuals[1000:, ..., 0]
    assert 0.78 < float(((future >= low) & (future <= high)).double().mean()) < 0.82


def test_of_many_windows_one_of_each_few_is_stored_with_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WINDOWS", 25)
    residuals = torch.arange(1.0, 101).view(-1, 1, 1, 1).expand(-1, HORIZON, SERIES, 1)
    stored = Calibration.fit(residuals, torch.ones(100, 1, SERIES)).scores[:, 0, 0, 0]
    assert stored.tolist() == (1 + thinned_places(100, 4)).tolist()
    assert (len(stored), float(stored[-1])) == (25, 100.0)


def test_a_wide_table_stores_the_scores_that_an_interval_of_95_percent_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SCORES", 100)
    residuals, spread = residuals_of(1000)
    for windows in (39, 40, 78, 79, 1000):
        calibration = Calibration.fit(residuals[:windows], spread[:windows])
        assert 20 <= calibration.count <= module.LEAST_WINDOWS
        calibration.check_intervals([80, 95])
    with pytest.raises(InputError, match="needs the scores of 199 held-out windows") as refused:
        calibration.check_intervals([99.5])
    assert str(refused.value).endswith("choose one nearer to the median")  # a longer split would not store more
    few = Calibration.fit(residuals[:10], spread[:10])
    with pytest.raises(InputError, match="or train with a longer validation split"):
        few.check_intervals([95])


def test_missing_targets_are_left_out_of_their_step_and_series() -> None:
    residuals, spread = residuals_of(100)
    residuals[10:, 1, 0] = math.nan
    calibration = Calibration.fit(residuals, spread)
    assert calibration.count == 10
    whole = Calibration.fit(residuals[:10], spread[:10])
    assert torch.equal(calibration.scores[:10, 1, 0], whole.scores[:, 1, 0])
    assert not calibration.supports(0.975)


def test_a_calibration_survives_a_file_and_damage_is_refused() -> None:
    calibration = Calibration.fit(*residuals_of(50, levels=9), DECILES)
    copy = Calibration.from_tensors(calibration.tensors())
    assert torch.equal(copy.scores, calibration.scores)
    assert copy.trained == DECILES
    good = calibration.tensors()
    for change in (
        {"scores": good["scores"].flip(0)},
        {"scores": good["scores"][..., :2]},
        {"scores": good["scores"].double()},
        {"scores": torch.full_like(good["scores"], math.inf)},
        {"trained": good["trained"].flip(0)},
    ):
        with pytest.raises(ValueError, match=r"."):
            Calibration.from_tensors({**good, **change})


def test_each_step_is_calibrated_on_all_hours_of_the_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors that depend on the hour: windows 24 rows apart would calibrate a step on one hour."""
    monkeypatch.setattr(module, "MAX_WINDOWS", 1000)
    hours = torch.arange(24_000)[:, None] % 24 + torch.arange(24)
    scale = 1 + (hours % 24).double()
    errors = scale * torch.randn(24_000, 24, generator=torch.Generator().manual_seed(0)).double()
    calibration = Calibration.fit(errors[..., None, None], torch.ones(24_000, 1, 1))
    assert calibration.count == 1000
    ends = calibration.quantiles(torch.zeros(1, 24, 1), torch.ones(1, 1, 1), interval_levels(80))[0, :, 0]
    covered = ((errors >= ends[:, 0]) & (errors <= ends[:, 1])).double().mean(0)
    assert 0.75 < float(covered.min()) < float(covered.max()) < 0.85  # a share of 1,000 windows varies by 0.013


def test_crossing_quantiles_do_not_move_the_median() -> None:
    levels = (0.1, 0.5, 0.9)
    inwards = Calibration(torch.full((40, 1, 1, 1), -3.0), levels)
    forecast = torch.tensor([0.0, 1.0, 9.0]).view(1, 1, 1, 3)
    assert inwards.quantiles(forecast, torch.ones(1, 1, 1), levels).flatten().tolist() == [1, 1, 6]
