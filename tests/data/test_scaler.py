import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data.scaler import Scaler, SeriesScaler, check_spikes, statistics_by_series
from forecast.tables.files import read_table
from tests.tables.test_series import shared

COLUMNS = ("load", "oil", "still")


@pytest.fixture
def values() -> np.ndarray:
    values = np.random.default_rng(0).normal([300.0, -5.0, 0.0], [80.0, 0.01, 0.0], (500, 3))
    values[:, 2] = 7.1
    return values


def test_training_rows_become_z_scores_and_a_constant_column_zero(values: np.ndarray) -> None:
    scaler = Scaler.fit(values, COLUMNS)
    scaled = scaler.transform(values)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(scaled.std(axis=0), [1, 1, 0], atol=1e-9)
    assert scaler.scale[2] == 1
    np.testing.assert_allclose(scaler.mean, values.mean(axis=0))
    np.testing.assert_allclose(scaler.inverse(scaled), values, rtol=1e-12)


TIMES = pd.date_range("2024-01-01", periods=500, freq="h")


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("rows", [[7], [7, 300, 499]], ids=["one", "three"])
@pytest.mark.parametrize("value", [1e30, -1e30])
def test_a_value_that_would_be_the_scale_of_its_column_is_refused(
    values: np.ndarray, place: int, rows: list[int], value: float
) -> None:
    check_spikes(values, TIMES, COLUMNS)
    values[rows, place] = value
    message = rf"^column '{COLUMNS[place]}', 2024-01-\d\d \d\d:00:00: {re.escape(f'{value:g}')} is .*e\+\d\d stand"
    with pytest.raises(InputError, match=message):
        check_spikes(values, TIMES, COLUMNS)
    observed = np.ones(values.shape, dtype=bool)
    observed[rows, place] = False
    check_spikes(values, TIMES, COLUMNS, observed)  # filled values are not checked


def test_values_of_a_real_column_are_not_spikes() -> None:
    draw = np.random.default_rng(0)
    rare = np.where(draw.random(500) < 0.004, 5e6, 0.0)  # an event counter that is 0 except for two hours
    noise = np.where(draw.random(500) < 0.01, 40.0, 2e-17 * draw.standard_normal(500))  # rain, as computed
    steps = np.where(np.arange(500) < 495, 3.0, 9e14)
    heavy = draw.standard_cauchy(500) * 1e6
    values = np.stack([rare, noise, steps, heavy], axis=1)
    check_spikes(values, TIMES, ("rare", "noise", "steps", "heavy"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["ETTh1.csv", "weather.csv.gz", "traffic_volume.csv", "rossmann.parquet", "EPF_DE.csv"]
)
def test_real_columns_hold_no_spike(name: str) -> None:
    table = read_table(shared(name)).select_dtypes("number")
    values = table.to_numpy(np.float64)
    times = pd.date_range("2000-01-01", periods=len(values), freq="min")
    check_spikes(values, times, list(table), ~np.isnan(values))


def test_json_keeps_every_digit(values: np.ndarray) -> None:
    scaler = Scaler.fit(values, COLUMNS)
    back = Scaler.from_dict(json.loads(json.dumps(scaler.to_dict())))
    assert back.columns == scaler.columns
    np.testing.assert_array_equal(back.mean, scaler.mean)
    np.testing.assert_array_equal(back.transform(values), scaler.transform(values))


def test_named_columns_are_put_back_with_their_own_numbers(values: np.ndarray) -> None:
    scaler = Scaler.fit(values, COLUMNS)
    scaled = scaler.transform(values).reshape(5, 100, 3)
    back = scaler.inverse(scaled[..., [1, 0]], ["oil", "load"])
    np.testing.assert_allclose(back, values.reshape(5, 100, 3)[..., [1, 0]], rtol=1e-12)


def test_a_state_that_does_not_fit_together_is_refused() -> None:
    with pytest.raises(ValueError, match="2 columns"):
        Scaler(np.zeros(3), np.ones(3), ["a", "b"])


def test_reading_data_and_scaling_need_no_heavy_import() -> None:
    code = (
        "import sys, forecast.tables.series, forecast.data.calendar, forecast.data.scaler as s, forecast.data.split\n"
        "s.Scaler.from_dict({'columns': ['a'], 'mean': [1.0], 'scale': [2.0]})\n"
        "print(*{'sklearn', 'scipy', 'torch', 'lightning', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_filled_values_are_not_fitted() -> None:
    values = np.random.default_rng(0).standard_normal((50, 2)) * [1, 1000] + [5, -7]
    observed = np.random.default_rng(1).random((50, 2)) < 0.6
    scaler = Scaler.fit(np.where(observed, values, 1e30), ["a", "b"], observed)
    for place in range(2):
        seen = values[observed[:, place], place]
        np.testing.assert_allclose([scaler.mean[place], scaler.scale[place]], [seen.mean(), seen.std()], rtol=1e-12)


def test_a_mask_that_hides_nothing_changes_no_digit() -> None:
    values = np.random.default_rng(0).standard_normal((50, 2))
    masked = Scaler.fit(values, ["a", "b"], np.ones((50, 2), dtype=bool))
    assert masked.to_dict() == Scaler.fit(values, ["a", "b"]).to_dict()


def test_a_column_without_a_measured_value_is_refused_by_name() -> None:
    observed = np.ones((5, 2), dtype=bool)
    observed[:, 1] = False
    with pytest.raises(InputError, match="column 'b' has no measured value in the training split: choose another"):
        Scaler.fit(np.ones((5, 2)), ["a", "b"], observed)


@pytest.mark.parametrize(
    ("scale", "places"), [(1.0, 5), (0.99, 6), (9.9, 5), (10.0, 4), (6_000.0, 2), (1e5, 0), (1e30, 0), (0.0123, 7)]
)
def test_a_forecast_has_the_decimals_of_a_100000th_of_a_deviation(scale: float, places: int) -> None:
    assert Scaler(np.zeros(2), np.array([scale, 1.0]), ["load", "oil"]).decimals(["load"]) == {"load": places}
    assert 0.5 * 10.0**-places <= max(0.5e-5 * scale, 0.5)


def test_tiny_numbers_are_not_rounded() -> None:
    assert Scaler(np.zeros(1), np.array([1e-300]), ["load"]).decimals(["load"]) == {}


def test_long_series_have_their_own_scale_and_short_ones_shrink_towards_the_pool() -> None:
    random = np.random.default_rng(0)
    lengths = [400, 400, 32, 4, 1, 40, 40]
    series = np.repeat(np.arange(7), lengths)
    levels = np.array([10.0, 1000, 50, 50, 50, 7, 0])[series]
    values = (levels * (1 + 0.1 * random.standard_normal(len(series))))[:, None]
    values[series == 5], values[series == 6] = 7.0, 0.0
    mean, scale = (table[:, 0] for table in statistics_by_series(values, series, 7, None))
    for place in range(7):
        own = values[series == place, 0]
        assert mean[place] == pytest.approx(own.mean())
        if place <= 2:
            assert scale[place] == pytest.approx(own.std())
    own, pool = values[series == 3, 0].std(), 0.1 * mean[3]
    assert min(own, pool) * 0.8 < scale[3] < max(own, pool) * 1.2
    assert scale[4] == pytest.approx(0.1 * mean[4], rel=0.2)  # one value has no deviation of its own
    assert scale[5] == pytest.approx(0.1 * 7, rel=0.2)  # nor has a constant
    assert scale[6] == 1.0
    assert np.isfinite(scale).all()


@pytest.mark.parametrize("value", [0.0, 7.0, -1e-9, 1e12])
def test_constant_series_alone_have_a_positive_scale(value: float) -> None:
    mean, scale = statistics_by_series(np.full((20, 1), value), np.repeat([0, 1], 10), 2, None)
    np.testing.assert_allclose(mean, value)
    assert (scale > 0).all()


def test_values_that_were_filled_change_no_scale() -> None:
    random = np.random.default_rng(0)
    values, series = random.normal(size=(80, 2)), np.repeat([0, 1], 40)
    observed = random.random(values.shape) < 0.8
    clean = statistics_by_series(np.where(observed, values, 0.0), series, 2, observed)
    poisoned = statistics_by_series(np.where(observed, values, 1e9), series, 2, observed)
    np.testing.assert_array_equal(clean, poisoned)


def test_a_scaler_of_series_is_its_own_inverse_and_survives_a_file() -> None:
    random = np.random.default_rng(0)
    scaler = SeriesScaler(
        random.normal(size=(3, 2)), random.uniform(1, 9, (3, 2)), ["y", "z"], [("a",), ("b",), ("c",)]
    )
    rows, series = random.normal(size=(6, 2)), np.array([0, 0, 1, 2, 2, 1])
    back = scaler.inverse(scaler.transform(rows, series)[:, None], series)[:, 0]
    np.testing.assert_allclose(back, rows)
    again = SeriesScaler.from_dict(scaler.to_dict())
    assert again.to_dict() == scaler.to_dict()
    assert np.array_equal(again.mean, scaler.mean)
