"""Scores of forecasts whose truth is known."""

import numpy as np
import pandas as pd
import pytest

from forecast.backtest.scores import Errors
from forecast.common.errors import InputError


def made(origins: int = 20, horizon: int = 4, series: tuple[str, ...] = ("load",)) -> pd.DataFrame:
    """Return forecasts one day apart, of which the model is off by 1 and the naive forecast by 2."""
    parts = []
    for name in series:
        for origin in pd.date_range("2024-01-01", periods=origins, freq="D"):
            times = pd.date_range(origin, periods=horizon, freq="h")
            truth = np.arange(horizon, dtype=float)
            parts.append(
                pd.DataFrame(
                    {
                        "origin": origin,
                        "time": times,
                        "step": np.arange(1, horizon + 1),
                        "series": name,
                        "value": truth + 1,
                        "lower_80": truth - 1,
                        "upper_80": truth + np.where(np.arange(horizon) < 3, 1, -0.5),
                        "naive": truth - 2,
                        "truth": truth,
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


def test_scores_are_means_over_all_values() -> None:
    total = Errors.of(made()).total()
    assert total == {
        "values": 80, "mae": 1, "mse": 1, "naive_mae": 2, "naive_mse": 4, "skill": 0.75, "covered_80": 0.75,
    }  # fmt: skip


def test_scores_by_step_and_hour_take_the_rows_of_that_step_and_hour() -> None:
    table = made()
    table.loc[table["step"] == 2, "value"] += 9
    scores = Errors.of(table).tables("h")
    assert list(scores["step"]["mae"]) == [1, 10, 1, 1]
    assert list(scores["hour of day"].index) == ["0", "1", "2", "3"]
    assert list(scores["hour of day"]["mae"]) == [1, 10, 1, 1]
    assert list(scores["month of year"].index) == ["Jan"]
    assert scores["step"]["covered_80"].tolist() == [1, 1, 1, 0]


def test_the_share_of_better_origins_counts_origins() -> None:
    table = made()
    table.loc[table["origin"] < "2024-01-06", "value"] += 5
    assert Errors.of(table).better_origins() == (15, 20)


def test_a_value_that_has_not_come_is_not_scored() -> None:
    table = made()
    table.loc[table["origin"] == "2024-01-20", "truth"] = np.nan
    assert Errors.of(table).total()["values"] == 76
    with pytest.raises(InputError, match="no value has come"):
        Errors.of(table.assign(truth=np.nan))


def test_errors_of_several_series_are_in_units_of_each() -> None:
    table = made(series=("load", "oil"))
    scaled = Errors.of(table, {"load": 1.0, "oil": 10.0})
    assert scaled.tables("h")["series"]["mae"].to_numpy() == pytest.approx([1, 0.1])
    own = Errors.of(table)
    assert own.tables("h")["series"]["mae"].to_numpy() == pytest.approx(1 / np.arange(4).std())


def test_errors_of_a_constant_series_keep_its_own_unit() -> None:
    table = made(series=("load", "oil"))
    table.loc[table["series"] == "oil", "truth"] = 5.0
    table["value"] = table["truth"] + 1
    scores = Errors.of(table).tables("h")["series"]["mae"]
    assert scores["oil"] == 1
    assert scores["load"] == pytest.approx(1 / np.arange(4).std())


def test_the_overlap_counts_origins_that_share_a_time() -> None:
    assert Errors.of(made()).overlap == 1
    assert Errors.of(made(horizon=49)).overlap == 3


def test_the_difference_from_the_naive_forecast_has_an_interval() -> None:
    table = made()
    noise = np.random.default_rng(0).normal(size=20).repeat(4)
    interval = Errors.of(table.assign(value=table["truth"] + 1 + 0.1 * noise)).against_naive()
    assert interval is not None
    assert interval.low < -1 < interval.high < -0.9
    assert Errors.of(made(origins=3)).against_naive() is None
