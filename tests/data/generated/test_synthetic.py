import sys

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data.generated.synthetic import simulate_transformer, top_oil_temperature
from tests.support.reading import series_from_frame

COLUMNS = ["active_power_kw", "reactive_power_kvar", "ambient_temperature_c", "oil_temperature_c"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return simulate_transformer()


def test_two_years_of_hours_that_the_reader_accepts(frame: pd.DataFrame) -> None:
    assert list(frame) == COLUMNS
    assert frame.shape == (17520, 4)
    assert (frame.index.name, frame.index[0]) == ("date", pd.Timestamp("2022-01-01"))
    assert series_from_frame(frame).frequency == "h"


def test_a_seed_makes_the_same_rows_at_every_length(frame: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(simulate_transformer(), frame, check_exact=True)
    pd.testing.assert_frame_equal(simulate_transformer(1000), frame[:1000], check_exact=True, check_freq=False)
    assert not np.allclose(simulate_transformer(1000, seed=1), frame[:1000])


def test_values_stay_in_the_range_of_such_a_transformer() -> None:
    long = simulate_transformer(200_000, seed=3)
    assert long["active_power_kw"].between(40, 900).all()
    assert long["ambient_temperature_c"].between(-30, 48).all()
    assert long["oil_temperature_c"].between(-10, 115).all()
    assert 0.4 < np.hypot(long["active_power_kw"], long["reactive_power_kvar"]).mean() / 630 < 0.6


def test_loads_and_weather_have_the_cycles_promised(frame: pd.DataFrame) -> None:
    load, air = frame["active_power_kw"], frame["ambient_temperature_c"]
    hourly = load.groupby(frame.index.hour).mean()
    assert hourly.idxmax() in range(17, 21)
    assert hourly.idxmin() in range(0, 5)
    noon = load[frame.index.hour == 12]
    assert noon[noon.index.day_of_week < 5].mean() > 1.05 * noon[noon.index.day_of_week >= 5].mean()
    holiday, day_after = noon["2023-05-01"].iloc[0], noon["2023-05-02"].iloc[0]  # Monday, Tuesday
    assert holiday < day_after
    assert air["2022-07"].mean() > air["2022-01"].mean() + 12
    monthly = load.groupby(frame.index.month).mean()
    assert monthly[1] > monthly[5]
    assert load.resample("D").mean().autocorr(1) > 0.5


def test_the_load_answers_cold_and_heat() -> None:
    frame = simulate_transformer(100_000)
    evening = frame[(frame.index.hour == 15) & (frame.index.day_of_week < 5)]
    by_air = evening["active_power_kw"].groupby(evening["ambient_temperature_c"] < 3).mean()
    assert by_air[True] > by_air[False]
    slope = evening[evening["ambient_temperature_c"] > 24]
    assert np.corrcoef(slope["ambient_temperature_c"], slope["active_power_kw"])[0, 1] > 0.2


@pytest.mark.parametrize("load", [0.0, 0.5, 1.0, 1.3])
def test_the_steady_state_is_that_of_the_equation(load: float) -> None:
    steady = top_oil_temperature(np.full(100, load), np.full(100, 20.0))
    np.testing.assert_allclose(steady, 20 + 55 * ((1 + load**2 * 5) / 6) ** 0.8, rtol=1e-12)


def test_rated_load_causes_the_rated_temperature_rise() -> None:
    assert top_oil_temperature(np.ones(3), np.full(3, 20.0))[-1] == pytest.approx(75)


def test_the_oil_follows_a_step_of_load_by_the_time_constant() -> None:
    load = np.where(np.arange(40) < 10, 0.3, 1.0)
    oil = top_oil_temperature(load, np.full(40, 20.0))
    risen = (oil[10:] - oil[9]) / (75 - oil[9])
    np.testing.assert_allclose(risen, 1 - np.exp(-np.arange(1, 31) / 3), rtol=1e-9)


def test_the_exponential_form_agrees_with_the_difference_equation_in_small_steps() -> None:
    load, air = np.array([0.4, 0.9, 1.2, 0.7, 0.2]), np.array([10.0, 12.0, 15.0, 11.0, 5.0])
    target = air + 55 * ((1 + load**2 * 5) / 6) ** 0.8
    oil = [target[0]]
    for hourly_target in target[1:]:
        level = oil[-1]
        for _ in range(6000):
            level += 0.01 / 180 * (hourly_target - level)
        oil.append(level)
    np.testing.assert_allclose(top_oil_temperature(load, air), oil, atol=2e-3)


def test_the_simulated_oil_is_the_equation_of_its_own_columns(frame: pd.DataFrame) -> None:
    load = np.hypot(frame["active_power_kw"], frame["reactive_power_kvar"]).to_numpy() / 630
    error = frame["oil_temperature_c"] - top_oil_temperature(load, frame["ambient_temperature_c"].to_numpy())
    assert abs(error.mean()) < 0.01
    assert error.std() == pytest.approx(0.15, rel=0.05)


@pytest.mark.parametrize("rows", [0, -1, 3_000_000])
def test_row_counts_that_cannot_be_are_refused(rows: int) -> None:
    with pytest.raises(InputError, match=f"data.rows={rows}: must be 1 to "):
        simulate_transformer(rows)


def test_ten_times_the_rows_take_no_more_calls() -> None:
    def calls(rows: int) -> int:
        count = 0

        def note(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(note)
        try:
            series_from_frame(simulate_transformer(rows))
        finally:
            sys.setprofile(None)
        return count

    calls(3_000)  # imports
    assert calls(30_000) < 1.2 * calls(3_000)
