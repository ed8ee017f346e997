"""Numbers that stand for missing are found, and extreme measurements are not taken for them."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from forecast.tables.repair import Policies
from forecast.tables.sentinels import find_sentinels, sentinel_warnings
from tests.support.reading import series_from_frame

GENERATOR = np.random.default_rng(3)
HOUR = np.arange(1200)
TEMPERATURE = (15 + 5 * np.sin(HOUR * np.pi / 12) + GENERATOR.standard_normal(1200)).round(1)


def marked(numbers: list[float], cells: int = 14) -> np.ndarray:
    """Return the temperature with each number in so many cells."""
    values = TEMPERATURE.copy()
    for place, number in enumerate(numbers):
        values[100 + 200 * place : 100 + 200 * place + cells] = number
    return values


@pytest.mark.parametrize(
    "numbers", [[-9999.0], [-200.0], [999.0], [-99.9], [1e20], [-9999.0, 9999.0], [-9999.0, -999.0]]
)
def test_an_alien_number_that_repeats_is_found(numbers: list[float]) -> None:
    assert find_sentinels(marked(numbers)) == dict.fromkeys(sorted(numbers), 14)


@pytest.mark.parametrize("code", [99.9, 99.99, 999, 999.9, 9999, 99999, 999999, 1e20, 32767, 65535, 2147483647])
def test_each_usual_code_is_found_from_its_first_cell_on(code: float) -> None:
    assert find_sentinels(np.append(TEMPERATURE / 4, code)) == {code: 1}
    assert find_sentinels(np.append(TEMPERATURE / 4, -code)) == {-code: 1}


def test_a_usual_code_needs_fewer_cells_than_another_number() -> None:
    assert find_sentinels(marked([-9999.0], cells=1)) == {-9999.0: 1}
    assert find_sentinels(marked([-200.0], cells=4)) == {}


def test_the_other_values_of_a_column_of_zeros_are_no_zeros_kelvin() -> None:
    kelvin = TEMPERATURE + 273.15
    kelvin[500:510] = 0
    assert find_sentinels(kelvin) == {0.0: 10}


@pytest.mark.parametrize(
    "make",
    [
        lambda: GENERATOR.poisson(0.1, 1200) * GENERATOR.integers(100, 130, 1200).astype(float),  # rare, large demand
        lambda: np.where(HOUR % 168 < 24, 0, GENERATOR.normal(500, 5, 1200)),  # closed on Sundays
        lambda: GENERATOR.pareto(1.2, 1200).round(),
        lambda: np.minimum(GENERATOR.pareto(1.0, 1200) * 20, 3000).round(2),  # a cap on prices
        lambda: np.where(HOUR % 500 == 7, 400.0, GENERATOR.poisson(5, 1200)),  # two or three equal spikes
        lambda: np.clip(GENERATOR.normal(90, 10, 1200), 0, 100).round(),
        lambda: HOUR.astype(float),
        lambda: np.full(1200, 7.0),
        lambda: (HOUR % 2).astype(float),
        lambda: np.where(HOUR < 400, 10.0, 9999.0),
        lambda: np.full(1200, np.nan),
        lambda: np.where(HOUR < 600, TEMPERATURE, TEMPERATURE + 1000),  # a step
    ],
)
def test_extreme_measurements_are_no_sentinels(make: Callable[[], np.ndarray]) -> None:
    assert find_sentinels(np.asarray(make(), dtype=np.float64)) == {}


def test_the_warning_names_column_number_count_and_cure() -> None:
    values = {"temp": marked([-9999.0]), "air": TEMPERATURE, "gas": marked([-200.0, -1.5e9])}
    table = pd.DataFrame(values, index=pd.date_range("2024-01-01", periods=1200, freq="h"))
    (text,) = sentinel_warnings(series_from_frame(table), list(values))
    assert text.startswith("'temp' holds -9999 in 14 cells, and else ")
    assert "; 'gas' holds -1500000000 in 14 cells and -200 in 14 cells, and else " in text
    assert text.endswith("train with 'data.missing_values=[-9999,-1500000000,-200]' data.missing=mask")
    series = series_from_frame(table, policies=Policies(missing="ffill", missing_values=(-9999,)))
    assert sentinel_warnings(series, ["temp", "air"]) == []
    (text,) = sentinel_warnings(series, ["gas"])
    assert text.endswith("train with 'data.missing_values=[-9999,-1500000000,-200]'")
