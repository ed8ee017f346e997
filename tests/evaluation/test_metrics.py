import math

import numpy as np
import pytest
import torch

from forecast.evaluation import metrics
from forecast.evaluation.metrics import ErrorSums, seasonal_error, seasonal_errors, skill, windows_at_once

# two windows, two steps, two series
FORECAST = torch.tensor([[[1.0, 0.0], [2.0, 0.0]], [[0.0, 5.0], [0.0, 0.0]]])
FUTURE = torch.tensor([[[0.0, 0.0], [0.0, 3.0]], [[0.0, 1.0], [0.0, 0.0]]])
# errors: window 0 [[1, 0], [2, -3]], window 1 [[0, 4], [0, 0]]


def sums_of(*batches: tuple[torch.Tensor, ...]) -> ErrorSums:
    sums = ErrorSums.zeros(2, 2)
    for batch in batches:
        sums.update(*batch)
    return sums


def scores_of(mse: float, mae: float, end: str = "") -> dict[str, float]:
    return {f"mse{end}": mse, f"mae{end}": mae, f"rmse{end}": math.sqrt(mse)}


def test_horizon_steps_in_original_units_are_means_over_the_series() -> None:
    scale = np.array([10.0, 2.0])
    error = (FORECAST - FUTURE).numpy() * scale
    for step, row in enumerate(sums_of((FORECAST, FUTURE)).by_step(scale)):
        assert row["mse"] == sums_of((FORECAST, FUTURE)).by_step()[step]["mse"]
        assert row["mae_original"] == pytest.approx(np.abs(error[:, step]).mean())
        assert row["rmse_original"] == pytest.approx(np.sqrt(np.square(error[:, step]).mean()))


def test_scores_of_a_small_batch_equal_hand_computed_ones() -> None:
    sums = sums_of((FORECAST, FUTURE))
    assert sums.scaled() == {"mse": 30 / 8, "mae": 10 / 8, "rmse": math.sqrt(30 / 8)}
    assert sums.by_step() == [scores_of(17 / 4, 5 / 4), scores_of(13 / 4, 5 / 4)]
    by_series = sums.by_series(["a", "b"], np.array([10.0, 2.0]))
    assert by_series["a"] == {**scores_of(5 / 4, 3 / 4), **scores_of(125.0, 7.5, "_original")}
    assert by_series["b"] == {**scores_of(25 / 4, 7 / 4), **scores_of(25.0, 3.5, "_original")}


def test_original_units_multiply_each_series_by_its_own_standard_deviation() -> None:
    scale = np.array([10.0, 2.0])
    error = (FORECAST - FUTURE).numpy() * scale
    original = sums_of((FORECAST, FUTURE)).original(scale)
    assert original["mse"] == pytest.approx(np.square(error).mean())
    assert original["mae"] == pytest.approx(np.abs(error).mean())
    assert original["rmse"] == pytest.approx(np.sqrt(np.square(error).mean()))


def test_each_window_has_its_own_scores() -> None:
    mse, mae = ErrorSums.zeros(2, 2).update(FORECAST, FUTURE)
    assert mse.tolist() == [14 / 4, 16 / 4]
    assert mae.tolist() == [6 / 4, 4 / 4]


@pytest.mark.parametrize("filled", [0.0, 1e30, math.nan, math.inf])
def test_a_filled_target_is_ignored(filled: float) -> None:
    observed = torch.ones(2, 2, 2, dtype=torch.bool)
    observed[0, 1, 1] = observed[1, 0, 1] = False
    future = torch.where(observed, FUTURE, filled)
    sums = ErrorSums.zeros(2, 2)
    mse, mae = sums.update(FORECAST, future, observed)
    assert sums.scaled() == scores_of(5 / 6, 3 / 6)
    assert sums.by_step() == [scores_of(1 / 3, 1 / 3), scores_of(4 / 3, 2 / 3)]
    assert mse.tolist() == pytest.approx([5 / 3, 0])
    assert mae.tolist() == pytest.approx([3 / 3, 0])


def test_a_window_without_a_target_has_no_score_and_does_not_change_the_others() -> None:
    observed = torch.ones(2, 2, 2, dtype=torch.bool)
    observed[1] = False
    sums = ErrorSums.zeros(2, 2)
    mse, _ = sums.update(FORECAST, FUTURE, observed)
    assert math.isnan(mse[1])
    assert sums.scaled()["mse"] == 14 / 4


def test_a_short_last_batch_is_weighted_by_its_windows() -> None:
    torch.manual_seed(0)
    forecast, future = torch.randn(2, 11, 2, 2)
    future[-1] += 10  # a mean of batch means would give the last window too much weight
    whole = sums_of((forecast, future))
    for size in (1, 4, 10):
        batches = sums_of(*zip(forecast.split(size), future.split(size), strict=True))
        assert batches.scaled() == pytest.approx(whole.scaled(), rel=1e-12)
    assert whole.scaled()["mse"] == pytest.approx(float((forecast - future).double().square().mean()), rel=1e-6)


def test_sums_keep_small_errors_that_float32_would_lose() -> None:
    sums = ErrorSums.zeros(1, 1)
    sums.update(torch.full((1, 1, 1), 1e4), torch.zeros(1, 1, 1))
    for _ in range(100):
        sums.update(torch.ones(1, 1, 1), torch.zeros(1, 1, 1))
    assert float(sums.squared) == 1e8 + 100


@pytest.mark.parametrize(("mse", "expected"), [(0.0, 1.0), (2.0, 0.0), (4.0, -1.0)])
def test_skill_is_1_without_error_0_for_the_reference_and_negative_for_larger_errors(
    mse: float, expected: float
) -> None:
    assert skill(mse, 2.0) == expected


def test_skill_against_a_perfect_reference_is_undefined() -> None:
    assert math.isnan(skill(1.0, 0.0))


@pytest.mark.parametrize("reference", [0.0, 1e-15, float("nan")])
def test_skill_is_undefined_if_the_reference_error_is_rounding(reference: float) -> None:
    assert math.isnan(skill(0.5, reference))


def test_a_cpu_scores_as_many_numbers_together_as_a_chunk_and_a_gpu_all() -> None:
    for size in ((700, 720, 21), (700, 720, 7, 3)):
        assert windows_at_once(torch.empty(size)) == metrics.CHUNK // (720 * 21)
        assert windows_at_once(torch.empty(size, device="meta")) == 700
        assert windows_at_once(torch.empty(size, device="meta"), everywhere=True) == metrics.CHUNK // (720 * 21)
    assert windows_at_once(torch.empty(3, 2**19)) == windows_at_once(torch.empty(0, 2**19)) == 1


@pytest.mark.parametrize("gaps", [False, True])
def test_the_seasonal_error_of_each_series_is_that_of_its_rows_alone(gaps: bool) -> None:
    random, lengths = np.random.default_rng(0), [30, 7, 8, 50]
    series = np.repeat(np.arange(4), lengths)
    values = random.normal(size=(len(series), 2))
    observed = random.random(values.shape) < 0.7 if gaps else None
    found = seasonal_errors(values, 7, series, 4, observed)
    for place in (0, 2, 3):
        own = series == place
        expected = seasonal_error(values[own], 7, None if observed is None else observed[own])
        np.testing.assert_allclose(found[place], expected)
    assert np.isnan(found[1]).all()  # as long as a season


def test_the_seasonal_error_of_a_long_wide_table_is_that_of_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=(100, 11))
    observed = np.random.default_rng(1).random(values.shape) < 0.9
    whole = seasonal_error(values, 7, observed)
    monkeypatch.setattr(metrics, "SCANNED_ROWS", 13)
    monkeypatch.setattr(metrics, "SCANNED_COLUMNS", 4)
    np.testing.assert_allclose(seasonal_error(values, 7, observed), whole, rtol=1e-12)
