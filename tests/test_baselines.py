from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge as SklearnRidge

from forecast import baselines
from forecast.baselines import Ridge, SeasonalNaive, fit_ridge, last_value
from forecast.data.datamodule import ForecastData
from forecast.data.series import read_series
from forecast.data.sources import Source
from forecast.data.windows import Windows
from forecast.evaluate import evaluate
from tests.examples import SHARED_DATA, make_windows


def split_windows(rows: int = 300, **options: int) -> tuple[Windows, Windows]:
    cut = 2 * rows // 3
    return (
        make_windows(rows, targets=range(cut), **options),
        make_windows(rows, targets=range(cut, rows), **options),
    )


def design(windows: Windows, look_back: int, every: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Give rows of context and horizon less the context's mean, built by slicing."""
    x, y = [], []
    table = windows.values.double().numpy()
    length = windows.context_length
    for start in windows.every(every).starts.tolist():
        for series in range(windows.num_targets):
            past = table[start + length - look_back : start + length, series]
            future = table[start + length : start + length + windows.horizon, series]
            x.append(past - past.mean())
            y.append(future - past.mean())
    return np.array(x), np.array(y)


def test_last_value_repeats_the_row_before_the_origin() -> None:
    windows = make_windows()
    batch = windows.batch(torch.tensor([4, 31]))
    expected = windows.values[[11, 38], :2]
    assert torch.equal(last_value(batch), expected[:, None].expand(2, 3, 2))


@pytest.mark.parametrize(("period", "horizon"), [(6, 3), (6, 6), (6, 12), (6, 15), (7, 3), (4, 11), (1, 5)])
def test_seasonal_naive_gives_the_newest_value_of_the_same_phase_before_the_origin(period: int, horizon: int) -> None:
    windows = make_windows(horizon=horizon)
    batch = windows.batch(torch.tensor([0, 13]))
    forecast = SeasonalNaive(windows, period)(batch)
    for row, origin in enumerate(batch.origin.tolist()):
        for step in range(horizon):
            source = origin + step
            while source >= origin:
                source -= period
            assert torch.equal(forecast[row, step], windows.values[source, :2])


def test_seasonal_naive_reaches_back_further_than_the_context_and_never_past_the_origin() -> None:
    windows = make_windows(context_length=2, targets=range(30, 60))
    batch = windows.batch(torch.tensor([0]))
    expected = SeasonalNaive(windows, 24)(batch)
    assert torch.equal(expected[0], windows.values[6:9, :2])
    windows.values[30:] = torch.nan
    assert torch.equal(SeasonalNaive(windows, 24)(batch), expected)


def test_seasonal_naive_is_perfect_on_a_season_and_last_value_on_a_constant() -> None:
    windows = make_windows(horizon=10)
    windows.values[:] = (torch.arange(60) % 4)[:, None]
    assert evaluate(SeasonalNaive(windows, 4), windows, 16).sums.scaled() == {"mse": 0, "mae": 0, "rmse": 0}
    windows.values[:] = 3
    assert evaluate(last_value, windows, 16).sums.scaled() == {"mse": 0, "mae": 0, "rmse": 0}


def test_ridge_is_sklearns_on_windows_less_their_mean() -> None:
    train, validation = split_windows()
    ridge = fit_ridge(train, validation)
    x, y = design(train, 8)
    alpha = ridge.penalty * np.square(x).sum() / 8
    reference = SklearnRidge(alpha=alpha, fit_intercept=False).fit(x, y)
    np.testing.assert_allclose(ridge.weight.numpy(), reference.coef_.T, atol=1e-5)
    assert ridge.weight.shape == (8, 3)
    assert ridge.every == 1


def test_the_penalty_is_the_best_on_validation_of_all_that_are_tried() -> None:
    train, validation = split_windows()
    ridge = fit_ridge(train, validation)
    (x, y), (x_val, y_val) = design(train, 8), design(validation, 8)
    errors = {}
    for penalty in baselines.PENALTIES.tolist():
        alpha = penalty * np.square(x).sum() / 8
        errors[penalty] = np.square(SklearnRidge(alpha=alpha, fit_intercept=False).fit(x, y).predict(x_val) - y_val)
    assert ridge.penalty == min(errors, key=lambda penalty: errors[penalty].mean())


def test_a_ridge_forecast_is_its_map_of_the_centred_context_with_the_mean_put_back() -> None:
    windows = make_windows()
    weight = torch.randn(5, 3)
    batch = windows.batch(torch.tensor([2, 40]))
    forecast = Ridge(weight=weight, penalty=0.0, every=1)(batch)
    for row, origin in enumerate(batch.origin.tolist()):
        past = windows.values[origin - 5 : origin, :2]
        expected = weight.T @ (past - past.mean(0)) + past.mean(0)
        torch.testing.assert_close(forecast[row], expected)


def test_ridge_recovers_a_linear_law_that_no_mean_hides() -> None:
    train, validation = split_windows(context_length=8, horizon=2)
    values = train.values
    for row in range(2, 300):  # the second difference is fixed: x_t = 2 cos(w) x_{t-1} - x_{t-2}
        values[row] = 1.8 * values[row - 1] - values[row - 2]
    validation.values[:] = values
    assert evaluate(fit_ridge(train, validation), validation, 64).sums.scaled()["mse"] < 1e-4


@pytest.mark.parametrize("hostile", [torch.nan, 1e30])
def test_ridge_neither_fits_nor_forecasts_with_what_lies_past_the_origin(hostile: float) -> None:
    train, validation = split_windows()
    expected = fit_ridge(train, validation)
    batch = validation.batch(torch.tensor([5]))
    forecast = expected(batch)
    origin = int(batch.origin)
    validation.values[origin:] = hostile
    assert torch.equal(expected(validation.batch(torch.tensor([5]))), forecast)
    train.values[200:] = hostile  # after the training part
    clean = make_windows(300, targets=range(200, 300))
    again = fit_ridge(train, clean)
    assert torch.equal(again.weight, expected.weight)


def test_ridge_leaves_out_the_windows_with_a_filled_target() -> None:
    observed = torch.ones(300, 3, dtype=torch.bool)
    observed[150, 0] = False
    train, validation = split_windows()
    train = Windows(**{**vars(train), "observed": observed, "values": train.values.clone()})
    expected_x, expected_y = design(train, 8)
    keep = np.ones(len(expected_x), bool)
    for start in range(140, 143):  # the windows of series 0 whose targets hold row 150
        keep[2 * start] = False
    ridge = fit_ridge(train, validation)
    x, y = expected_x[keep], expected_y[keep]
    reference = SklearnRidge(alpha=ridge.penalty * np.square(x).sum() / 8, fit_intercept=False).fit(x, y)
    np.testing.assert_allclose(ridge.weight.numpy(), reference.coef_.T, atol=1e-5)


def test_ridge_without_a_window_to_fit_forecasts_the_mean_of_the_context() -> None:
    train, validation = split_windows()
    train = replace(train, observed=torch.zeros(300, 3, dtype=torch.bool))
    batch = validation.batch(torch.tensor([0, 9]))
    forecast = fit_ridge(train, validation)(batch)
    torch.testing.assert_close(forecast, batch.past[..., :2].mean(1, keepdim=True).expand(-1, 3, -1))


def test_baselines_read_what_was_filled_as_values() -> None:
    windows = make_windows(observed=torch.rand(60, 3) > 0.3)
    batch, whole = windows.batch(torch.tensor([9])), replace(windows, observed=None).batch(torch.tensor([9]))
    for forecaster in (last_value, SeasonalNaive(windows, 6), Ridge(weight=torch.randn(5, 3), penalty=0.0, every=1)):
        assert torch.equal(forecaster(batch), forecaster(whole))


def test_a_context_beyond_the_longest_look_back_is_read_from_its_newest_end(monkeypatch: pytest.MonkeyPatch) -> None:
    train, validation = split_windows()
    monkeypatch.setattr(baselines, "MAX_LOOK_BACK", 5)
    ridge = fit_ridge(train, validation)
    x, y = design(train, 5)
    reference = SklearnRidge(alpha=ridge.penalty * np.square(x).sum() / 5, fit_intercept=False).fit(x, y)
    assert ridge.look_back == 5
    np.testing.assert_allclose(ridge.weight.numpy(), reference.coef_.T, atol=1e-5)


def test_too_many_windows_are_thinned_and_the_result_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    train, validation = split_windows()
    monkeypatch.setattr(baselines, "FIT_OPERATIONS", len(train) * 2 * 8 * 11 / 3)
    ridge = fit_ridge(train, validation)
    x, y = design(train, 8, every=3)
    reference = SklearnRidge(alpha=ridge.penalty * np.square(x).sum() / 8, fit_intercept=False).fit(x, y)
    assert ridge.every == 3
    np.testing.assert_allclose(ridge.weight.numpy(), reference.coef_.T, atol=1e-5)


def test_ridge_of_a_constant_series_forecasts_the_constant() -> None:
    train, validation = split_windows()
    train.values[:] = 2.5
    validation.values[:] = 2.5
    assert evaluate(fit_ridge(train, validation), validation, 64).sums.scaled()["mse"] < 1e-9


def ett(name: str, context_length: int) -> ForecastData:
    path = SHARED_DATA / f"{name}.csv"
    if not path.is_file():
        pytest.skip(f"{path.name} is not beside the project")
    series = read_series(path, time_column="date", frequency="h")
    return ForecastData(
        Source(series, list(series.frame.columns), [], path),
        {"train": 8640, "validation": 2880, "test": 2880},
        context_length=context_length,
        horizon=96,
        batch_size=32,
        evaluation_batch_size=256,
        seed=1,
    )


@pytest.mark.parametrize(("name", "published"), [("ETTh1", 1.295), ("ETTh2", 0.432)])
def test_last_value_scores_what_is_published(name: str, published: float) -> None:
    windows = ett(name, 96).parts["test"]
    assert len(windows) == 2785
    assert evaluate(last_value, windows, 512).sums.scaled()["mse"] == pytest.approx(published, rel=0.01)


def test_seasonal_naive_and_ridge_score_what_they_should_on_etth1() -> None:
    data = ett("ETTh1", 512)
    test = data.parts["test"]
    assert evaluate(SeasonalNaive(test, 24), test, 512).sums.scaled()["mse"] == pytest.approx(0.512, abs=0.002)
    ridge = fit_ridge(data.parts["train"], data.parts["validation"])
    assert evaluate(ridge, test, 512).sums.scaled()["mse"] <= 0.372
