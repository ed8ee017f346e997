"""Backtests in Python: a loop of forecasts, none of which reads what came after its origin."""

import numpy as np
import pandas as pd
import pytest

import forecast
from forecast.common.errors import InputError
from forecast.predict.ensemble import Ensemble
from forecast.predict.forecaster import Forecaster
from forecast.predict.panel import PanelForecaster
from tests.conftest import TinyRun
from tests.support.panels import stores
from tests.support.small import HORIZON

START = "2016-07-24 08:00"
"""First row of the test split of `tiny_run`."""


@pytest.fixture(scope="module")
def model(tiny_run: TinyRun) -> Forecaster:
    return Forecaster.load(tiny_run.path)


@pytest.fixture(scope="module")
def rolled(model: Forecaster, tiny_run: TinyRun) -> pd.DataFrame:
    return model.backtest(tiny_run.table, START, step="30h", levels=[80])


def difference(ours: pd.Series, theirs: pd.Series) -> float:
    """Return the largest difference, in standard deviations."""
    return float(np.abs(ours.to_numpy() - theirs.to_numpy()).max() / theirs.std())


def test_a_backtest_is_a_loop_of_forecasts_of_shorter_tables(
    model: Forecaster, tiny_run: TinyRun, rolled: pd.DataFrame
) -> None:
    table = tiny_run.table
    origins = pd.date_range(START, table["date"].iloc[-HORIZON], freq="30h")
    assert list(rolled["origin"].unique()) == list(origins)
    for origin, rows in rolled.groupby("origin"):
        own = model.predict(table[table["date"] < origin], levels=[80])
        for target, part in rows.groupby("series"):
            assert list(part["time"]) == list(own.index)
            for name, other in (
                ("value", target),
                ("lower_80", f"{target}_lower_80"),
                ("upper_80", f"{target}_upper_80"),
            ):
                assert difference(part[name], own[other]) < 1e-5
            truth = table.set_index("date").loc[own.index, target]
            np.testing.assert_array_equal(part["truth"], truth)
            day_before = table.set_index("date").loc[own.index - pd.Timedelta(days=1), target]
            assert difference(part["naive"], day_before) < 1e-5


def test_the_mean_of_two_runs_is_the_mean_of_their_backtests(
    model: Forecaster, tiny_run: TinyRun, rolled: pd.DataFrame
) -> None:
    both = Ensemble([model, model]).backtest(tiny_run.table, START, step="30h", levels=[80])
    pd.testing.assert_frame_equal(both, rolled)


@pytest.mark.parametrize("poison", [np.nan, 1e9])
def test_what_comes_after_the_last_origin_changes_no_forecast(
    model: Forecaster, tiny_run: TinyRun, rolled: pd.DataFrame, poison: float
) -> None:
    last, table = rolled["origin"].max(), tiny_run.table.copy()
    table.loc[table["date"] >= last, ["load", "oil", "air"]] = poison
    table.loc[table["date"] == last, ["load", "oil"]] = tiny_run.table.loc[table["date"] == last, ["load", "oil"]]
    poisoned = model.backtest(table, START, last, step="30h", levels=[80])

    pd.testing.assert_frame_equal(poisoned.drop(columns="truth"), rolled.drop(columns="truth"))
    later = poisoned["time"] > last
    np.testing.assert_array_equal(poisoned["truth"][later], poison)


def test_a_series_that_ends_earlier_has_fewer_origins_and_the_same_forecasts(
    model: Forecaster, tiny_run: TinyRun, rolled: pd.DataFrame
) -> None:
    table, (first, second, *_) = tiny_run.table.copy(), rolled["origin"].unique()
    table.loc[table["date"] > second, ["load", "oil"]] = np.nan
    shorter = model.backtest(table, START, table["date"].iloc[-1], step="30h", levels=[80])

    assert list(shorter["origin"].unique()) == [first, second]
    same = rolled[rolled["origin"] <= second].reset_index(drop=True)
    pd.testing.assert_frame_equal(shorter.drop(columns="truth"), same.drop(columns="truth"))


def test_a_gap_before_an_origin_is_refused_by_name_if_training_had_none(model: Forecaster, tiny_run: TinyRun) -> None:
    table = tiny_run.table.copy()
    table.loc[600, "air"] = np.nan
    with pytest.raises(InputError, match=r"'air' has no value at 2016-07-26 00:00:00, and the model was trained"):
        model.backtest(table, START)


def test_every_series_of_a_panel_is_forecast_as_at_its_end(panel_run: TinyRun) -> None:
    model, table = forecast.load(panel_run.path), stores()
    assert isinstance(model, PanelForecaster)
    rolled = model.backtest(table, "2024-01-09 19:00", step=24, levels=[80])

    counts = rolled.groupby("origin")["series"].nunique()
    assert list(counts) == [10, 8, 8]  # two stores end two days before the others
    for origin, rows in rolled.groupby("origin"):
        cut = table.assign(sales=table["sales"].mask(table["date"] >= origin))
        own = model.predict(cut, levels=[80]).set_index(["store", "date"])
        part = own.loc[list(zip(rows["series"], rows["time"], strict=True))]
        assert difference(rows["value"], part["sales"]) < 1e-5
        assert difference(rows["upper_80"], part["sales_upper_80"]) < 1e-5
    assert set(rolled["target"]) == {"sales"}


def test_the_future_of_a_panel_changes_no_forecast(panel_run: TinyRun) -> None:
    model, table, last = forecast.load(panel_run.path), stores(), pd.Timestamp("2024-01-10 19:00")
    assert isinstance(model, PanelForecaster)
    clean = model.backtest(table, "2024-01-09 19:00", last, step=24)
    table.loc[(table["date"] > last) & table["sales"].notna(), "sales"] = 1e9
    poisoned = model.backtest(table, "2024-01-09 19:00", last, step=24)
    pd.testing.assert_frame_equal(poisoned.drop(columns="truth"), clean.drop(columns="truth"))
