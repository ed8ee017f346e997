"""Block length and interval of the circular block bootstrap against the package arch."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri, stdtrit

from forecast.evaluation import significance
from forecast.evaluation.significance import block_length, mean_interval
from tests.report.made import correlated

SERIES = [(seed, count, phi) for seed, (count, phi) in enumerate([(500, 0.3), (2000, 0.5), (5000, 0.8), (20000, 0.9)])]


@pytest.fixture(scope="module")
def arch() -> Any:
    """Return the part of arch that resamples; its import takes a second."""
    return pytest.importorskip("arch.bootstrap")


@pytest.fixture(params=SERIES, ids=str)
def series(request: pytest.FixtureRequest) -> np.ndarray:
    return correlated(*request.param)


def test_the_block_length_equals_that_of_arch_for_the_same_lags(
    arch: Any, series: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arch counts up to the first insignificant lag; Politis and White, and we, up to the lag before it."""
    last_lag = significance._last_lag
    monkeypatch.setattr(significance, "_last_lag", lambda correlation: last_lag(correlation) + 1)
    assert block_length(series) == pytest.approx(arch.optimal_block_length(series)["circular"].iloc[0], rel=1e-9)


def test_the_block_length_is_close_to_that_of_arch(arch: Any, series: np.ndarray) -> None:
    assert block_length(series) == pytest.approx(arch.optimal_block_length(series)["circular"].iloc[0], rel=0.15)


def test_the_interval_equals_that_of_arch_within_the_error_of_the_draws(arch: Any) -> None:
    """Without the stretch for few blocks, which arch does not apply."""
    series, level, draws = correlated(5, 2003, phi=0.8), 0.9, 5000  # the last block is cut short
    ours = mean_interval(series, 10, level=level, draws=draws)
    assert ours is not None
    theirs = arch.CircularBlockBootstrap(ours.block, series, seed=1).conf_int(
        np.mean, reps=draws, method="percentile", size=level
    )
    blocks = ours.count / ours.block
    stretch = math.sqrt(blocks / (blocks - 1)) * stdtrit(blocks - 1, (1 + level) / 2) / ndtri((1 + level) / 2)
    ends = ours.mean + (np.array([ours.low, ours.high]) - ours.mean) / stretch
    # the error of a quantile at 5 % of 5,000 draws is 0.03 standard deviations of the mean, 1.8 % of the half width
    np.testing.assert_allclose(ends, theirs.ravel(), atol=0.1 * (ours.high - ours.low) / 2)
