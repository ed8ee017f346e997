"""A backtest of a model that reads known covariates: those after an origin count as known."""

from pathlib import Path

import numpy as np

from forecast.predict.forecaster import Forecaster
from tests.support.known import ORIGIN, PAST, TARGETS, whole
from tests.support.small import HORIZON


def test_a_backtest_reads_the_known_covariates_after_each_origin(known_run: Path) -> None:
    model, table = Forecaster.load(known_run), whole()
    start = table["date"].iloc[ORIGIN]
    rolled = model.backtest(table, start, step=HORIZON)

    assert rolled["origin"].nunique() == (len(table) - ORIGIN) // HORIZON
    for origin, rows in rolled.groupby("origin"):
        cut = table.copy()
        cut.loc[cut["date"] >= origin, [*TARGETS, *PAST]] = np.nan
        own = model.predict(cut)
        for target in TARGETS:
            ours = rows[rows["series"] == target]["value"]
            np.testing.assert_allclose(ours, own[target], rtol=0, atol=1e-5 * table[target].std())
