"""The protocol of M4 hourly on a small table: which hours are scored, and how."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.published.m4_hourly import HORIZON, ID, SEASON, TARGET, TIME, parts, scores, seasonal_naive


@pytest.fixture
def table() -> pd.DataFrame:
    random, pieces = np.random.default_rng(0), []
    for name, rows in (("H2", 130), ("H10", 200)):
        times = pd.date_range("2015-07-01", periods=rows, freq="h")
        pieces.append(pd.DataFrame({ID: name, TIME: times, TARGET: random.normal(10, 2, rows)}))
    return pd.concat(pieces, ignore_index=True)


def test_the_last_48_hours_of_each_series_are_scored(table: pd.DataFrame) -> None:
    past, scored = parts(table)
    assert scored.groupby(ID).size().to_dict() == {"H2": HORIZON, "H10": HORIZON}
    assert past.groupby(ID)[TIME].max().max() < scored.groupby(ID)[TIME].min().max()
    assert len(past) + len(scored) == len(table)


def test_the_mase_of_the_seasonal_naive_forecast_equals_a_plain_computation(table: pd.DataFrame) -> None:
    expected = []
    for _, own in table.groupby(ID):
        values = own[TARGET].to_numpy()
        past, truth = values[:-HORIZON], values[-HORIZON:]
        errors = [abs(truth[step] - past[len(past) - SEASON + step % SEASON]) for step in range(HORIZON)]
        expected.append(
            np.mean(errors) / np.mean([abs(past[row] - past[row - SEASON]) for row in range(SEASON, len(past))])
        )
    naive = seasonal_naive(table)
    assert scores(table, naive)["MASE"] == pytest.approx(np.mean(expected))
    assert scores(table, naive, (naive - 1e9, naive + 1e9))["covered_80"] == 1
