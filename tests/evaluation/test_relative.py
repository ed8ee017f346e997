import math

import numpy as np
import pytest
import torch
from torch import Tensor

from forecast.evaluation.baselines import SeasonalNaive
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.metrics import ErrorSums, RelativeSums, Scores, Units, seasonal_error
from tests.support.examples import make_windows

MEAN, SCALE = np.array([10.0, -2.0]), np.array([2.0, 4.0])
UNITS = Units(MEAN, SCALE, seasonal_error=np.array([5.0, 2.0]))

# in original units: two windows, two steps, two series
FORECAST = torch.tensor([[[10.0, 2.0], [12.0, -2.0]], [[10.0, 6.0], [10.0, 2.0]]])
FUTURE = torch.tensor([[[12.0, 2.0], [8.0, -6.0]], [[10.0, -2.0], [14.0, 6.0]]])
# errors: window 0 [[2, 0], [4, 4]], window 1 [[0, 8], [4, 4]]


def scored(forecast: Tensor, future: Tensor, observed: Tensor | None = None, units: Units = UNITS) -> "Sums":
    sums = Sums(units, *future.shape[1:])
    sums.update(forecast, future, observed)
    return sums


class Sums:
    """Both kinds of sums over batches in original units."""

    def __init__(self, units: Units, horizon: int, targets: int) -> None:
        self.units = units
        self.errors = ErrorSums.zeros(horizon, targets)
        self.relative = RelativeSums.zeros(units, horizon)

    def update(self, *batch: Tensor | None) -> None:
        forecast, future, observed = batch
        assert forecast is not None
        assert future is not None
        mean, scale = torch.tensor(self.units.mean), torch.tensor(self.units.scale)
        scaled = [((values - mean) / scale).float() for values in (forecast, future)]
        self.errors.update(*scaled, observed)
        self.relative.update(*scaled, observed)

    @property
    def scores(self) -> Scores:
        return self.relative.scores(self.errors)


def test_scores_of_a_small_batch_equal_hand_computed_ones() -> None:
    sums = scored(FORECAST, FUTURE)
    assert sums.scores["wape"] == pytest.approx(100 * 26 / 60)
    assert sums.scores["smape"] == pytest.approx((400 / 22 + 40 + 0 + 800 / 24 + 0 + 100 + 200 + 100) / 8)
    assert sums.scores["mase"] == pytest.approx((2.5 / 5 + 4 / 2) / 2)


def test_horizon_steps_and_series_have_their_own_scores() -> None:
    sums = scored(FORECAST, FUTURE)
    first, second = sums.relative.by_step(sums.errors)
    assert first == pytest.approx({"smape": (400 / 22 + 200) / 4, "wape": 1000 / 26, "mase": (1 / 5 + 4 / 2) / 2})
    assert second["mase"] == pytest.approx((4 / 5 + 4 / 2) / 2)
    assert second["wape"] == pytest.approx(1600 / 34)
    a, b = sums.relative.by_series(sums.errors)
    assert a == pytest.approx({"smape": (400 / 22 + 40 + 800 / 24) / 4, "wape": 1000 / 44, "mase": 0.5})
    assert b == pytest.approx({"smape": 100, "wape": 100, "mase": 2})


@pytest.mark.parametrize("filled", [0.0, 1e30, math.nan, math.inf])
def test_a_filled_target_is_ignored(filled: float) -> None:
    observed = torch.ones(2, 2, 2, dtype=torch.bool)
    observed[0, 1, 1] = observed[1, 0, 1] = False
    sums = scored(FORECAST, torch.where(observed, FUTURE, filled), observed)
    assert sums.scores["wape"] == pytest.approx(100 * 14 / 52)
    assert sums.scores["smape"] == pytest.approx((400 / 22 + 40 + 800 / 24 + 100) / 6)
    assert sums.scores["mase"] == pytest.approx((2.5 / 5 + 2 / 2) / 2)


def test_scores_do_not_depend_on_the_batch_size() -> None:
    torch.manual_seed(0)
    forecast, future = 10 * torch.randn(2, 11, 3, 2)
    whole = scored(forecast, future).scores
    for size in (1, 4, 10):
        sums = Sums(UNITS, 3, 2)
        for batch in zip(forecast.split(size), future.split(size), strict=True):
            sums.update(*batch, None)
        assert sums.scores == pytest.approx(whole, rel=1e-12)


def test_smape_is_200_per_cent_if_signs_differ_and_0_if_both_are_zero() -> None:
    zero = torch.zeros(1, 1, 2)
    assert scored(torch.full((1, 1, 2), -3.0), torch.full((1, 1, 2), 0.01)).scores["smape"] == pytest.approx(200)
    assert scored(zero, zero).scores["smape"] == 0
    assert scored(torch.full((1, 1, 2), 1e-3), zero).scores["smape"] == pytest.approx(200)


def test_wape_of_zeros_is_undefined_despite_rounded_z_scores() -> None:
    units = Units(np.array([1 / 3]), np.array([0.7]), seasonal_error=np.array([1.0]))
    scores = scored(torch.ones(1, 4, 1), torch.zeros(1, 4, 1), units=units).scores
    assert math.isnan(scores["wape"])
    assert scores["smape"] == pytest.approx(200)
    assert scores["mase"] == pytest.approx(1)


@pytest.mark.parametrize("unknown", [0.0, 1e-9, math.nan])
def test_a_series_without_a_seasonal_error_is_left_out_of_the_mean(unknown: float) -> None:
    sums = scored(FORECAST, FUTURE, units=Units(MEAN, SCALE, np.array([5.0, unknown])))
    assert sums.scores["mase"] == pytest.approx(0.5)
    assert [step["mase"] for step in sums.relative.by_step(sums.errors)] == pytest.approx([1 / 5, 4 / 5])
    assert math.isnan(sums.relative.by_series(sums.errors)[1]["mase"])
    assert math.isnan(scored(FORECAST, FUTURE, units=Units(MEAN, SCALE, np.full(2, unknown))).scores["mase"])


def test_a_nan_forecast_makes_all_scores_nan() -> None:
    broken = FORECAST.clone()
    broken[0, 0, 0] = math.nan
    assert all(math.isnan(value) for value in scored(broken, FUTURE).scores.values())


def test_the_seasonal_error_is_the_mean_difference_one_season_apart() -> None:
    values = np.array([[1.0, 0.0], [2.0, 0.0], [4.0, 0.0], [3.0, 5.0]])
    assert seasonal_error(values, 2).tolist() == [2.0, 2.5]
    assert seasonal_error(values, 1).tolist() == pytest.approx([4 / 3, 5 / 3])
    observed = np.ones((4, 2), bool)
    observed[3, 1] = observed[0, 0] = False
    assert seasonal_error(values, 2, observed).tolist() == [1.0, 0.0]
    assert np.isnan(seasonal_error(values, 4)).all()
    assert np.isnan(seasonal_error(values, 9)).all()


def test_the_seasonal_naive_forecast_of_the_training_split_has_mase_one() -> None:
    windows = make_windows(context_length=6, horizon=1)
    values = windows.values[:, :2].double().numpy()
    units = Units(np.zeros(2), np.ones(2), seasonal_error(values, 6))
    evaluation = evaluate(SeasonalNaive(windows, 6), windows, 16, units=units)
    assert evaluation.original(units.scale)["mase"] == pytest.approx(1, rel=1e-6)
    assert [scores["mase"] for scores in evaluation.by_series(["a", "b"], units.scale).values()] == pytest.approx(
        [1, 1]
    )
