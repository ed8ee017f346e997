"""Scores of intervals, against independent packages."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.evaluation.interval_scores import LEVELS, QUANTILES, IntervalSums
from forecast.evaluation.intervals import Calibration, interval_levels
from forecast.evaluation.metrics import seasonal_error

rules = pytest.importorskip("scoringrules")
losses = pytest.importorskip("utilsforecast.losses")

WINDOWS, HORIZON, SERIES, PERIOD = 120, 4, 3, 5
SCALE = np.array([2.0, 0.5, 10.0])


@pytest.fixture(scope="module", params=["gaps", "no gaps"])
def scored(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the sums of random forecasts, and the quantiles and targets behind them."""
    generator = torch.Generator().manual_seed(0)
    residuals = torch.randn(200, HORIZON, SERIES, 1, generator=generator)
    spread = torch.rand(WINDOWS, 1, SERIES, generator=generator) + 0.5
    calibration = Calibration.fit(residuals, torch.ones(200, 1, SERIES))
    forecast, future = torch.randn(2, WINDOWS, HORIZON, SERIES, generator=generator).double()
    gaps = request.param == "gaps"
    observed = torch.rand(WINDOWS, HORIZON, SERIES, generator=generator) > (0.1 if gaps else -1)
    sums = IntervalSums.zeros(calibration)
    for part in torch.arange(WINDOWS).split(50):
        sums.update(forecast[part], spread[part].double(), future[part], observed[part] if gaps else None)
    levels = sorted({*QUANTILES, *(end for percent in LEVELS for end in interval_levels(percent))})
    quantiles = calibration.quantiles(forecast, spread.double(), levels).numpy()
    train = np.random.default_rng(1).normal(size=(60, SERIES)).cumsum(0)
    season = seasonal_error(train, PERIOD)
    level = np.where(observed, np.abs(future.numpy() * SCALE), 0).sum(0) / observed.numpy().sum(0)
    return {
        "sums": sums,
        "scores": sums.scores(SCALE, season, level),
        "quantiles": {name: quantiles[..., place] for place, name in enumerate(levels)},
        "future": future.numpy(),
        "observed": observed.numpy(),
        "train": train,
        "units": (SCALE, season, level),
    }


def quantile(scored: dict[str, Any], level: float) -> np.ndarray:
    (found,) = [values for name, values in scored["quantiles"].items() if abs(name - level) < 1e-9]
    return np.asarray(found)


def test_crps_and_pinball_equal_those_of_scoringrules(scored: dict[str, Any]) -> None:
    seen = scored["observed"]
    stacked = np.stack([quantile(scored, level) for level in QUANTILES], -1)
    crps = rules.crps_quantile(scored["future"], stacked, np.array(QUANTILES))
    assert scored["scores"]["crps"] == pytest.approx(crps[seen].mean(), rel=1e-6)
    pinball = [rules.quantile_score(scored["future"], quantile(scored, level), level) for level in QUANTILES]
    assert scored["scores"]["pinball"] == pytest.approx(np.mean(pinball, 0)[seen].mean(), rel=1e-6)


@pytest.mark.parametrize("percent", LEVELS)
def test_the_winkler_score_equals_that_of_scoringrules(scored: dict[str, Any], percent: int) -> None:
    low, high = (quantile(scored, level) for level in interval_levels(percent))
    expected = rules.interval_score(scored["future"], low, high, 1 - percent / 100)
    assert scored["scores"][f"winkler_{percent}"] == pytest.approx(expected[scored["observed"]].mean(), rel=1e-6)
    width = (high - low)[scored["observed"]].mean()
    assert scored["scores"][f"width_{percent}"] == pytest.approx(width, rel=1e-6)


@pytest.fixture(scope="module")
def table(scored: dict[str, Any]) -> pd.DataFrame:
    """Return the targets and quantiles in original units as utilsforecast reads them, without the missing ones."""
    parts = []
    for series in range(SERIES):
        seen = scored["observed"][..., series]
        columns = {f"q{level:g}": quantile(scored, level)[..., series][seen] * SCALE[series] for level in QUANTILES}
        for percent in LEVELS:
            for side, level in zip(("lo", "hi"), interval_levels(percent), strict=True):
                columns[f"m-{side}-{percent}"] = quantile(scored, level)[..., series][seen] * SCALE[series]
        target = scored["future"][..., series][seen] * SCALE[series]
        parts.append(pd.DataFrame({"unique_id": series, "ds": np.arange(len(target)), "y": target, **columns}))
    return pd.concat(parts, ignore_index=True)


def test_the_scaled_quantile_loss_equals_that_of_utilsforecast(scored: dict[str, Any], table: pd.DataFrame) -> None:
    train = pd.concat(
        pd.DataFrame({"unique_id": series, "ds": np.arange(60), "y": scored["train"][:, series]})
        for series in range(SERIES)
    )
    models = {"m": [f"q{level:g}" for level in QUANTILES]}
    rows = losses.scaled_mqloss(table, models, np.array(QUANTILES), PERIOD, train)
    assert scored["scores"]["sql"] == pytest.approx(2 * rows["m"].mean(), rel=1e-5)


def test_the_weighted_quantile_loss_is_that_of_all_values_together(scored: dict[str, Any], table: pd.DataFrame) -> None:
    models = {"m": [f"q{level:g}" for level in QUANTILES]}
    loss = losses.mqloss(table.assign(unique_id=0), models, np.array(QUANTILES))["m"][0]
    assert scored["scores"]["wql"] == pytest.approx(2 * loss / table["y"].abs().mean(), rel=1e-5)


@pytest.mark.parametrize("percent", LEVELS)
def test_coverage_equals_that_of_utilsforecast(scored: dict[str, Any], table: pd.DataFrame, percent: int) -> None:
    series = scored["sums"].by_series(*scored["units"])
    expected = losses.coverage(table, ["m"], percent)["m"]
    assert [row[f"coverage_{percent}"] for row in series] == pytest.approx(list(expected))
    whole = losses.coverage(table.assign(unique_id=0), ["m"], percent)["m"][0]
    assert scored["scores"][f"coverage_{percent}"] == pytest.approx(whole)


def test_steps_and_series_are_parts_of_the_whole(scored: dict[str, Any]) -> None:
    count = scored["observed"].sum((0, 2))
    steps = scored["sums"].by_step(*scored["units"])
    for name in ("pinball", "coverage_80", "winkler_95"):
        mean = np.average([step[name] for step in steps], weights=count)
        assert scored["scores"][name] == pytest.approx(mean)
    series = scored["sums"].by_series(*scored["units"])
    assert scored["scores"]["sql"] == pytest.approx(np.mean([row["sql"] for row in series]))
    assert [row["width_80_original"] / row["width_80"] for row in series] == pytest.approx(list(SCALE))


def test_the_reliability_counts_targets_at_or_below_each_quantile(scored: dict[str, Any]) -> None:
    reliability = scored["sums"].reliability()
    assert list(reliability) == ["0.025", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "0.975"]
    below = (scored["future"] <= quantile(scored, 0.7))[scored["observed"]].mean()
    assert reliability["0.7"] == pytest.approx(below)


def test_a_series_that_repeats_itself_is_left_out_of_the_scaled_quantile_loss(scored: dict[str, Any]) -> None:
    scale, season, level = scored["units"]
    without = scored["sums"].scores(scale, np.where(np.arange(SERIES) == 1, np.nan, season), level)
    rows = scored["sums"].by_series(*scored["units"])
    assert without["sql"] == pytest.approx((rows[0]["sql"] + rows[2]["sql"]) / 2)


def test_too_few_windows_give_no_score_but_no_error() -> None:
    sums = IntervalSums.zeros(Calibration.fit(torch.ones(5, 1, 1, 1), torch.ones(5, 1, 1)))
    sums.update(torch.zeros(2, 1, 1), torch.ones(2, 1, 1), torch.ones(2, 1, 1))
    scores = sums.scores(np.ones(1), np.ones(1), np.ones((1, 1)))
    assert scores["coverage_80"] == 1
    assert scores["coverage_95"] is None


def test_a_target_on_either_end_of_an_interval_is_inside() -> None:
    sums = IntervalSums.zeros(Calibration.fit(torch.ones(50, 1, 1, 1), torch.ones(50, 1, 1)))
    future = torch.tensor([-1.5, -1.0, 0.0, 1.0, 1.5, 0.0]).reshape(6, 1, 1)
    observed = torch.tensor([True] * 5 + [False]).reshape(6, 1, 1)
    sums.update(torch.zeros(6, 1, 1), torch.ones(6, 1, 1), future, observed)
    scores = sums.scores(np.ones(1), np.ones(1), np.ones((1, 1)))
    assert scores["coverage_80"] == 3 / 5
    assert scores["winkler_80"] == pytest.approx(2 + (0.5 + 0.5) / 5 * 2 / 0.2)
    assert [sums.reliability()[level] for level in ("0.1", "0.5", "0.9")] == [2 / 5, 3 / 5, 4 / 5]
