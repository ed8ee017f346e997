"""The run folder of a panel: its result does not grow with its series, and other commands read it."""

import math

import numpy as np
import pandas as pd

from forecast.report.comparisons import _read
from forecast.runs.read import FinishedRun
from tests.conftest import TinyRun
from tests.support.panels import ENDED
from tests.support.small import HORIZON


def test_the_last_forecast_has_the_last_test_window_of_each_series(panel_run: TinyRun) -> None:
    table = pd.read_csv(panel_run.path / "forecast.csv", parse_dates=["date"])
    measured = panel_run.table.dropna()
    for store, own in table.groupby("store"):
        assert len(own) == HORIZON
        truth = measured[(measured["store"] == store) & (measured["date"] <= own["date"].max())].tail(HORIZON)
        assert own["date"].tolist() == truth["date"].tolist()
        assert (own["date"].max() == measured["date"].max()) == (str(store) not in ENDED)
        assert abs(own["sales"] - truth["sales"].to_numpy()).mean() < 5
    assert (panel_run.path / "forecast.png").stat().st_size > 10_000


def test_scores_of_all_series_are_in_a_file_and_the_worst_in_the_result(panel_run: TinyRun) -> None:
    test, scores = panel_run.result["test"], pd.read_parquet(panel_run.path / "series.parquet")
    assert "by_series" not in test
    assert sorted(scores["store"].astype(int)) == list(range(1, 11))
    assert math.isclose(test["original"]["mase"], scores["mase"].mean(), rel_tol=1e-9)
    assert math.isclose(test["intervals"]["sql"], scores["sql"].mean(), rel_tol=1e-9)
    worst = scores.nlargest(5, "mase")
    assert list(test["worst_series"]) == [f"store {name!r}" for name in worst["store"]]
    assert [row["mase"] for row in test["worst_series"].values()] == worst["mase"].tolist()


def test_errors_have_a_row_for_each_date_which_a_report_reads(panel_run: TinyRun) -> None:
    errors, data = pd.read_parquet(panel_run.path / "errors.parquet"), panel_run.result["data"]
    for part in ("validation", "test"):
        own = errors[errors["part"] == part]
        assert own["origin"].is_unique
        assert len(own) == data["origins"][part] < data["windows"][part] <= 100
    windows = _read(FinishedRun("panel", panel_run.path, panel_run.result, "panel"))
    assert isinstance(windows, pd.Series)
    assert np.isfinite(windows).all()
