"""The coverage of intervals of Rossmann, by store."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.published.rossmann import HORIZON, STORE, TARGET, TIME, WINDOWS, coverage, cutoffs


def test_coverage_counts_days_with_sales_and_stores_of_60_to_95_percent() -> None:
    days = pd.date_range("2014-01-01", periods=HORIZON * WINDOWS + 20)
    week = np.where(days.day_of_week == 6, 0.0, 100.0)  # closed on Sundays
    table = pd.concat([pd.DataFrame({STORE: store, TIME: days, TARGET: week}) for store in range(3)])
    forecasts = []
    for first in cutoffs(table):
        open_days = np.flatnonzero(pd.date_range(first, periods=HORIZON).day_of_week != 6)
        quantiles = np.zeros((3, HORIZON, 9))
        quantiles[..., -1] = 120.0
        quantiles[1, open_days[::4], -1] = 50.0  # every fourth is above its interval
        quantiles[2, open_days[::2], 0] = 110.0  # every second is below
        forecasts.append(quantiles)
    found = coverage(table, forecasts)
    assert found["covered_80_open"] == pytest.approx(0.75, abs=0.01)  # the mean of 1, 0.75 and 0.5
    assert found["covered_80"] == pytest.approx((6 * 0.75 + 1) / 7, abs=0.01)
    assert found["stores_60_to_95"] == pytest.approx(1 / 3)
