"""The default configuration on a dozen generated series starts close to the best baseline."""

from pathlib import Path

import pytest

from benchmarks.studies.generated import DOZEN, Generated, configuration
from forecast.data.calendar import seasonal_period
from forecast.evaluation.baselines import SeasonalNaive, last_value
from forecast.evaluation.evaluate import evaluate
from forecast.runs.settings import Settings
from tests.support.covering import covering
from tests.support.prepared import prepare

WORSE = 1.05
"""Maximum ratio of the default's test MSE to the best baseline."""


@pytest.mark.parametrize("series", covering(DOZEN, every=3), ids=lambda series: series.name)
def test_the_default_starts_no_worse_than_the_best_baseline(series: Generated, tmp_path: Path) -> None:
    made = prepare(Settings.parse(configuration(series, 1, tmp_path)))
    test, period = made.data.parts["test"], seasonal_period(made.data.source.series.frequency)
    assert made.linear_maps.start is not None
    forecasters = [last_value, SeasonalNaive(test, period), made.linear_maps.baseline, made.linear_maps.start]
    *baselines, start = (evaluate(forecaster, test, 256).sums.scaled()["mse"] for forecaster in forecasters)
    assert start <= WORSE * min(baselines)
