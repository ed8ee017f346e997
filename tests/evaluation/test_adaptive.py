"""Adaptive intervals: they follow misses, and learn only from truth that is at least one horizon old."""

import pytest
import torch

from forecast.evaluation.adaptive import RATE, adapted_shift, nested
from forecast.evaluation.intervals import Calibration, interval_levels

HORIZON, SERIES, PAST = 3, 2, 400


def calibration() -> Calibration:
    generator = torch.Generator().manual_seed(0)
    return Calibration.fit(torch.randn(500, HORIZON, SERIES, 1, generator=generator), torch.ones(500, 1, SERIES))


def shift(future: torch.Tensor, *, at: int = PAST + HORIZON, observed: torch.Tensor | None = None) -> torch.Tensor:
    """Return the shift for forecasts of 0 whose first targets are the rows 0, 1, 2 and so on."""
    zeros = torch.zeros(len(future), HORIZON, SERIES, dtype=torch.float64)
    spread = torch.ones(len(future), 1, SERIES, dtype=torch.float64)
    return adapted_shift(calibration(), zeros, spread, future, observed, torch.arange(len(future)), at, [80, 95])


def noise(scale: float = 1.0) -> torch.Tensor:
    return scale * torch.randn(PAST, HORIZON, SERIES, generator=torch.Generator().manual_seed(1)).double()


def test_the_miscoverage_follows_the_formula_of_gibbs_and_candes() -> None:
    future, scores = noise(1.5), calibration().scores[..., 0].double()
    expected = torch.full((HORIZON, SERIES), 0.2, dtype=torch.float64)
    for window in future:
        rank = ((501 * (1 - expected)) - 1e-9).ceil().long().clamp(1, 500)
        half = scores.gather(0, (rank - 1)[None])[0]
        missed = (window.abs() > half).double()
        expected = (expected + RATE * (0.2 - missed)).clamp(0, 1)
    found = shift(future)
    torch.testing.assert_close(found[..., 0], (expected - 0.2) / 2)
    torch.testing.assert_close(found[..., 1], -(expected - 0.2) / 2)


@pytest.mark.parametrize(("scale", "wider"), [(3.0, True), (0.2, False)])
def test_misses_widen_and_hits_narrow(scale: float, wider: bool) -> None:
    found = shift(noise(scale))
    plain, adapted = (
        calibration().quantiles(torch.zeros(1, HORIZON, SERIES), torch.ones(1, 1, SERIES), interval_levels(80), change)
        for change in (None, found[..., :2])
    )
    widths = [float((ends[..., 1] - ends[..., 0]).mean()) for ends in (plain, adapted)]
    assert (widths[1] > widths[0]) is wider


@pytest.mark.slow
def test_truth_younger_than_one_horizon_changes_nothing() -> None:
    future, poisoned = noise(), noise()
    at = PAST - 10
    known = at - HORIZON + 1  # windows whose last target lies before row `at`
    poisoned[known:] += 1e6
    assert torch.equal(shift(future, at=at), shift(poisoned, at=at))
    poisoned[known - 1] += 1e6
    assert not torch.equal(shift(future, at=at), shift(poisoned, at=at))


def test_missing_targets_change_nothing() -> None:
    future, poisoned = noise(), noise()
    observed = torch.ones(PAST, HORIZON, SERIES, dtype=torch.bool)
    observed[50:60, 1, 0] = False
    poisoned[50:60, 1, 0] = 1e6
    assert torch.equal(shift(future, observed=observed), shift(poisoned, observed=observed))


def test_no_past_leaves_the_levels() -> None:
    assert float(shift(noise(), at=HORIZON - 1).abs().max()) == 0


@pytest.mark.parametrize("percents", [(90, 95), (95, 90)])
def test_a_wider_interval_contains_a_narrower_one(percents: tuple[float, float]) -> None:
    """A miss outside the narrower interval alone moves only that one, in the end beyond the wider one."""
    scores = calibration().scores[..., 0].double()
    low, high = (scores.quantile(share, dim=0) for share in (0.9, 0.95))
    future = ((low + high) / 2).expand(PAST, HORIZON, SERIES)
    zeros, spread = torch.zeros_like(future), torch.ones(PAST, 1, SERIES, dtype=torch.float64)
    levels = [level for percent in percents for level in interval_levels(percent)]
    at = 20  # a row at which they cross
    found = adapted_shift(calibration(), zeros, spread, future, None, torch.arange(PAST), at, percents, rate=0.05)
    ends = calibration().quantiles(zeros[:1], spread[:1], levels, found)
    wide, narrow = (slice(2 * percents.index(percent), 2 * percents.index(percent) + 2) for percent in (95, 90))
    assert bool((ends[..., wide][..., 1] < ends[..., narrow][..., 1]).any())
    mended = nested(ends, percents)
    assert torch.equal(mended[..., narrow], ends[..., narrow])
    assert bool((mended[..., wide][..., 0] <= mended[..., narrow][..., 0]).all())
    assert bool((mended[..., wide][..., 1] >= mended[..., narrow][..., 1]).all())


def test_of_three_levels_each_contains_the_narrower_ones() -> None:
    ends = torch.tensor([[-2.0, 2.0, -1.0, 1.0, -3.0, 3.0], [-1.0, 2.0, -2.0, 1.0, -1.5, 4.0]])
    expected = torch.tensor([[-2.0, 2.0, -1.0, 1.0, -3.0, 3.0], [-2.0, 2.0, -2.0, 1.0, -2.0, 4.0]])
    assert torch.equal(nested(ends, [80, 50, 95]), expected)
