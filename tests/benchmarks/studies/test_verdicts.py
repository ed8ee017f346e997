"""A short form of the study: simulated sweeps of one mechanism under four names."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.studies.verdicts import OWN, SHARED, moving_means, simulate, tables


def test_the_series_are_moving_means_of_an_autoregression() -> None:
    (series,) = moving_means(np.random.default_rng(0), 1, 200_000, 10, 0.9)
    weights = 10 - np.abs(np.arange(-9, 10))
    assert series.var() == pytest.approx((weights * 0.9 ** np.abs(np.arange(-9, 10))).sum() / 100, rel=0.05)


@pytest.mark.parametrize("coefficient", [0.0, 0.9, 0.99])
def test_one_mechanism_under_four_names_has_hardly_a_false_verdict(coefficient: float) -> None:
    """Without the variance between seeds, with one seed each, more than half of all comparisons would be wrong."""
    draws = np.random.default_rng(0)
    kinds = [(seeds, noise) for seeds in (1, 2, 3) for noise in (OWN, SHARED)]
    found = [simulate(draws, seeds, coefficient, 24, 1200, noise) for seeds, noise in 2 * kinds]
    comparisons = sum(row["comparisons"] for row in found)
    assert comparisons == 12 * 9
    assert sum(row["false"] for row in found) <= 1
    if coefficient <= 0.9:
        assert sum(row["marked"] for row in found) <= 0.05 * comparisons


def test_the_tables_have_the_shares_of_each_kind_and_of_all() -> None:
    kind = {"seeds": 1, "horizon": 24, "windows": 600, "noise": OWN}
    counts = {"sweeps": 10, "comparisons": 90, "marked": 9}
    false = (
        {"coefficient": 0.0, "false": 0, "sweeps_with_false": 0},
        {"coefficient": 9.0, "false": 9, "sweeps_with_false": 2},
    )
    sweeps = pd.DataFrame([{**kind, **counts, **more} for more in false])
    series = {"coefficient": 0.9, "horizon": 24, "windows": 600, "series": 200}
    intervals = pd.DataFrame([{**series, "missed": 3, "missed_unmarked": 2, "marked": 8, "accepted": 22}])
    text = tables(sweeps, intervals)
    assert "| 1 | 9 | 10 | 10.0 | 20.0 | 10.0 |" in text
    assert "| all | all | 20 | 5.0 | 10.0 | 10.0 |" in text
    assert "| 0.9 | 24 | 600 | 1.5 | 1.0 | 4.0 | 11.0 |" in text
