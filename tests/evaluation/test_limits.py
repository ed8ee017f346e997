"""Limits of a series: no forecast crosses them, and an interval reaches a pile of values on one."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from forecast.data.windows import Batch
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.holdout import split_residuals
from forecast.evaluation.limits import Limits, closed_states
from tests.support.examples import make_windows

RANDOM = np.random.default_rng(0)
COUNTS = RANDOM.poisson(0.3, 500).astype(float)
PERCENT = np.clip(90 + 10 * RANDOM.standard_normal(500), 0, 100)


@pytest.mark.parametrize(
    ("values", "lower", "upper"),
    [
        (COUNTS, 0, np.inf),
        (PERCENT, 0, 100),
        (PERCENT / 100, 0, 1),
        (np.minimum(PERCENT, 99.9), 0, np.inf),
        (np.where(PERCENT < 99.9, PERCENT, 99.0) + (np.arange(500) == 7) * (100 - PERCENT), 0, np.inf),
        ((COUNTS > 0).astype(float), 0, np.inf),
        (COUNTS - 0.1, -np.inf, np.inf),
        (np.zeros(500), -np.inf, np.inf),
        (np.full(500, np.nan), -np.inf, np.inf),
    ],
    ids=["counts", "percentages", "fractions", "never 100", "once 100", "0 and 1", "negative", "zeros", "no value"],
)
def test_limits_are_those_that_training_never_crosses(values: np.ndarray, lower: float, upper: float) -> None:
    found = Limits.fit(values[:, None], 24)
    assert (float(found.lower), float(found.upper)) == (lower, upper)
    again = Limits.from_dict(found.to_dict(), 1)
    assert (again.lower, again.upper, again.period) == (found.lower, found.upper, 24)


def test_filled_values_are_no_limit() -> None:
    values = np.where(np.arange(100) < 50, 0.0, -1.0)[:, None]
    assert float(Limits.fit(values, 7, values == 0).lower) == -np.inf  # all measured values are 0
    values[0] = 2
    assert float(Limits.fit(values, 7, values >= 0).lower) == 0


def test_scaled_limits_equal_the_scaled_values_on_them() -> None:
    mean, scale = np.array([PERCENT.mean()]), np.array([PERCENT.std()])
    found = Limits.fit(PERCENT[:, None], 24).scaled(mean, scale)
    past = torch.from_numpy(((PERCENT[:, None] - mean) / scale).astype(np.float32))
    assert int((past == found.upper).sum()) == int((PERCENT == 100).sum())


@pytest.mark.parametrize(
    "change", [{"lower": [0, 0]}, {"upper": [-1]}, {"period": 0}, {"period": 2.0}, {"upper": ["x"]}]
)
def test_limits_that_do_not_fit_the_targets_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"limits|float"):
        Limits.from_dict({**limits().to_dict(), **change}, 1)


def limits() -> Limits:
    return Limits(torch.tensor([0.0]).double(), torch.tensor([torch.inf]).double(), 4)


def test_a_forecast_is_clipped_unless_the_look_back_crosses_the_limit() -> None:
    past = torch.ones(2, 8, 1)
    past[1, 3] = -1
    forecast = torch.tensor([-5.0, 2.0]).view(1, 2, 1).expand(2, 2, 1)
    assert limits().at(past, None, 2).clip(forecast)[..., 0].tolist() == [[0, 2], [-5, 2]]
    quantiles = forecast[..., None].expand(2, 2, 1, 3)
    assert float(limits().at(past, None, 2).clip(quantiles)[0].min()) == 0
    seen = past >= 0  # a filled value is no evidence against the limit
    assert float(limits().at(past, seen, 2).clip(forecast).min()) == 0


def test_a_lower_end_is_on_the_limit_where_its_share_of_values_is() -> None:
    """At the first phase of a season of four steps, every fifth value is 0; at the others, none."""
    past = torch.ones(1, 40, 1)
    past[0, :20:4] = torch.tensor([0.0, 1.0, 1.0, 1.0, 0.0])[:, None]
    own = limits().at(past, None, 6)
    assert own.share_lower[0, :, 0].tolist() == pytest.approx([0.2, 0, 0, 0, 0.2, 0])
    quantile = torch.full((1, 6, 1), 0.3)
    assert own.end(quantile, 0.2)[0, :, 0].tolist() == pytest.approx([0, 0.3, 0.3, 0.3, 0, 0.3])
    assert own.end(quantile, 0.3)[0, 0, 0] == pytest.approx(0.3)
    assert own.end(quantile, 0.9)[0, 0, 0] == pytest.approx(0.3)
    short = limits().at(past[:, :20], None, 6)  # too few seasons: all values count
    assert short.share_lower[0, :, 0].tolist() == pytest.approx([0.1] * 6)


def test_a_limit_further_than_a_spread_from_the_forecast_is_not_reached() -> None:
    own = limits().at(torch.zeros(1, 40, 1), None, 2)
    near = own.near(torch.tensor([0.9, 1.1]).view(1, 2, 1), torch.ones(1, 1, 1))
    assert near.share_lower[0, :, 0].tolist() == [1, 0]
    assert near.end(torch.full((1, 2, 1), 0.3), 0.1)[0, :, 0].tolist() == pytest.approx([0, 0.3])


def test_intervals_of_intermittent_demand_cover_their_zeros_and_their_level() -> None:
    """Nine of ten values are 0, and forecasts lie a little above or below 0 by chance."""
    random = torch.Generator().manual_seed(0)
    demand = (torch.rand(3000, 1, generator=random) < 0.1) * torch.randint(1, 9, (3000, 1), generator=random)
    noise = 0.1 * torch.randn(3000, generator=random)
    made = make_windows(3000, context_length=40, num_targets=1, num_covariates=0)
    windows = replace(made, values=demand.float())

    def forecaster(batch: Batch) -> torch.Tensor:
        return noise[batch.origin][:, None, None].expand_as(batch.future)

    found = {}
    for name, own in (("without", None), ("with", Limits(torch.zeros(1), torch.full((1,), torch.inf), 1))):
        evaluation = evaluate(forecaster, windows, 256, keep_residuals=True, limits=own)
        calibration = split_residuals(evaluation, windows, selected=False).calibration(())
        sums = evaluate(forecaster, windows, 256, calibration=calibration, limits=own).intervals
        found[name] = float(sums.inside[0].sum() / sums.count.sum())
    assert found["without"] < 0.85
    assert 0.89 <= found["with"] <= 0.95


def test_a_step_that_is_known_to_be_closed_is_zero() -> None:
    known = np.tile([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]], (30, 1)).astype(np.float32)
    values = np.where(known[:, :1] == 0, 0.0, 5.0)
    assert closed_states(known, values, None, 0) == ((0, 0.0),)  # the second input is 0 on days of both kinds
    assert closed_states(known, values, None, 1) == ()
    assert closed_states(known[:57], values[:57], None, 0) == ()  # too few rows
    values[3] = 0.5
    assert closed_states(known, values, None, 0) == ()
    own = replace(limits(), closed=((0, 0.0),))
    future = torch.tensor([[[0.0, 1.0], [1.0, 1.0]]])
    found = own.at(torch.ones(1, 4, 1), None, 2, future_known=future)
    assert found.clip(torch.full((1, 2, 1), 7.0))[..., 0].tolist() == [[0.0, 7.0]]
    assert found.end(torch.full((1, 2, 1), 9.0), 0.9)[0, 0, 0] == 0
    assert own.open().at(torch.ones(1, 4, 1), None, 2, future_known=future).closed is None
    assert Limits.from_dict(own.to_dict(), 1).closed == own.closed


def test_limits_that_a_user_knows_replace_those_of_training() -> None:
    found = Limits.fit(np.stack([PERCENT, PERCENT - 200], 1), 24)
    known = found.within([(-5.0, None), (None, 0.5)])
    assert known.lower.tolist() == [-5.0, -np.inf]
    assert known.upper.tolist() == [found.upper.tolist()[0], 0.5]
    assert found.within([(None, None), (None, None)]).to_dict() == found.to_dict()
