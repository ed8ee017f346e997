"""`score`: errors on a table that the model has not seen, equal to those of the training on the same windows."""

import numpy as np
import pandas as pd
import pytest

import forecast
from forecast.predict.panel import PanelForecaster
from tests.conftest import TinyRun
from tests.support.small import CONTEXT, HORIZON


def test_the_windows_of_the_test_split_have_the_scores_of_the_result(tiny_run: TinyRun) -> None:
    model = forecast.load(tiny_run.path)
    rows = tiny_run.table.iloc[560 - CONTEXT :]
    scores, result = model.score(rows), model.result
    assert scores.loc["model", "mse"] == pytest.approx(result["test"]["scaled"]["mse"], rel=1e-4)
    assert scores.loc["model", "mae"] == pytest.approx(result["test"]["scaled"]["mae"], rel=1e-4)
    assert scores.loc["model", "mae_original"] == pytest.approx(result["test"]["original"]["mae"], rel=1e-4)
    naive = result["baselines"]["seasonal_naive"]["test"]["scaled"]["mse"]
    assert scores.loc["seasonal naive (24 h)", "mse"] == pytest.approx(naive, rel=1e-6)
    assert scores.loc["model", "skill"] == pytest.approx(result["test"]["skill"], rel=1e-3)
    last = result["baselines"]["last_value"]["test"]["scaled"]["mse"]
    assert scores.loc["last value", "mse"] == pytest.approx(last, rel=1e-6)


def test_a_score_needs_a_look_back_and_a_horizon(tiny_run: TinyRun) -> None:
    model = forecast.load(tiny_run.path)
    rows = tiny_run.table.iloc[: CONTEXT + HORIZON]
    one = model.score(rows)
    assert np.isfinite(one.to_numpy()).all()
    with pytest.raises(forecast.InputError, match="the frame has 59 rows: a score needs a look-back of 48 and a"):
        model.score(rows[1:])


def test_an_ensemble_of_one_run_twice_scores_like_the_run(tiny_run: TinyRun) -> None:
    model = forecast.load(tiny_run.path)
    both = forecast.Ensemble([model, model])
    rows = tiny_run.table.iloc[: CONTEXT + HORIZON + 5]
    pd.testing.assert_frame_equal(both.score(rows), model.score(rows))
    assert repr(both) == "<Ensemble>"
    with pytest.raises(forecast.InputError, match="<Ensemble>: has no run folder of its own"):
        both.save("copy")


def test_each_series_of_a_long_table_is_scored_by_its_own_scale(panel_run: TinyRun) -> None:
    model = forecast.load(panel_run.path)
    assert isinstance(model, PanelForecaster)
    scores = model.score(panel_run.table)
    assert scores.loc["model", "mse"] > 0
    alone = [model.score(panel_run.table, ids=[name]) for name in panel_run.table["store"].astype(str).unique()[:5]]
    assert min(each.loc["model", "mse"] for each in alone) < scores.loc["model", "mse"]
    assert max(each.loc["model", "mse"] for each in alone) > scores.loc["model", "mse"]
    short = panel_run.table.dropna(subset=["sales"]).groupby("store").tail(model.least_context + HORIZON - 1)
    with pytest.raises(forecast.InputError, match="a score needs"):
        model.score(short)
