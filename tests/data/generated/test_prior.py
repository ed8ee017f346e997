"""The prior over series: numbered draws are finite, differ, and never change."""

import numpy as np
import pytest

from forecast.data.generated import prior, processes
from forecast.data.generated.windows import draw_pool

STEPS = 300

DRAWN, MEASURED = [0.9164, 1.522, 0.3585, 1.7572], 5845
"""Some values of the first series, and how many values are measured: other ones need another training."""


def test_every_series_is_finite_and_hardly_any_is_constant() -> None:
    drawn = [prior.draw_series(np.random.default_rng([1, number]), STEPS) for number in range(200)]
    assert all(np.isfinite(one).all() and one.shape == (STEPS,) for one in drawn)
    assert sum(np.ptp(one) == 0 for one in drawn) <= 4


def test_a_series_depends_on_the_seed_and_its_number_alone() -> None:
    several = draw_pool(3, range(6), STEPS).values
    later = draw_pool(3, range(4, 6), STEPS).values
    other = draw_pool(4, range(4, 6), STEPS).values
    assert (several[4 * STEPS :] == later).all()
    assert not (later == other).all()


def test_the_series_of_the_card_are_drawn_today() -> None:
    values, measured, _ = draw_pool(0, range(20), STEPS)
    drawn = values.view(20, STEPS)
    np.testing.assert_allclose(drawn[[0, 3, 9, 19], [0, 50, 100, 299]], DRAWN, atol=1e-3)
    assert int(measured.sum()) == MEASURED
    np.testing.assert_allclose(drawn.mean(1), 0, atol=1e-4)


@pytest.mark.parametrize("steps", [7, 24])
def test_a_season_repeats_its_period(steps: int) -> None:
    random = np.random.default_rng(2)
    drawn = [processes.season(random, 20 * steps, float(steps)) for _ in range(30)]
    repeats = [np.corrcoef(one[steps:], one[:-steps])[0, 1] for one in drawn if np.ptp(one) > 0]
    assert np.median(repeats) > 0.95


def test_gaps_leave_most_windows_whole() -> None:
    masks = [prior.draw_gaps(np.random.default_rng(number), STEPS) for number in range(300)]
    whole = np.mean([mask.all() for mask in masks])
    assert 0.8 < whole < 0.97
