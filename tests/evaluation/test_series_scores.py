"""Scores of a panel, against a plain computation in float64 from one row per target."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.evaluation.interval_scores import QUANTILES
from forecast.evaluation.metrics import Units
from forecast.evaluation.series_scores import SeriesSums

WINDOWS, HORIZON, TARGETS, SERIES = 40, 5, 2, 4


def case(*, gaps: bool) -> tuple[Units, dict[str, Any]]:
    """Return units, and the arguments of `SeriesSums.update`; series 3 has no window."""
    random = np.random.default_rng(0)
    mean, scale = random.normal(5, 3, (SERIES, TARGETS)), random.uniform(0.5, 20, (SERIES, TARGETS))
    units = Units(mean=mean, scale=scale, seasonal_error=random.uniform(0.5, 4, (SERIES, TARGETS)))
    units.seasonal_error[1, 0] = np.nan
    units.seasonal_error[2, 1] = 0.0
    series = torch.from_numpy(random.integers(0, SERIES - 1, WINDOWS))
    shape = (WINDOWS, HORIZON, TARGETS)
    future, point = (torch.from_numpy(random.normal(size=shape)).float() for _ in range(2))
    future[0, 0] = torch.from_numpy(-mean[series[0]] / scale[series[0]]).float()  # a target of 0
    quantiles = [point + level - 0.5 for level in QUANTILES]
    observed = torch.from_numpy(random.random(shape) < 0.8) if gaps else None
    if observed is not None:
        future = torch.where(observed, future, torch.inf)
    return units, {"series": series, "point": point, "future": future, "observed": observed, "quantiles": quantiles}


def rows_of(units: Units, series: Any, point: Any, future: Any, observed: Any, quantiles: Any) -> pd.DataFrame:
    """Return one row per observed target, in original units."""
    count = WINDOWS * HORIZON * TARGETS
    place = np.repeat(series.numpy(), HORIZON * TARGETS)
    target = np.tile(np.arange(TARGETS), WINDOWS * HORIZON)
    scale, mean = units.scale[place, target], units.mean[place, target]

    def original(values: torch.Tensor) -> np.ndarray:
        return np.asarray(values.double().numpy().reshape(count) * scale + mean)

    table = pd.DataFrame({"series": place, "target": target, "y": original(future), "f": original(point)})
    table.loc[table["y"].abs() < 1e-5, "y"] = 0.0
    table["pinball"] = np.mean(
        [2 * np.maximum(q * (table["y"] - v), (q - 1) * (table["y"] - v)) for q, v in
         ((q, original(values)) for q, values in zip(QUANTILES, quantiles, strict=True))], axis=0
    )  # fmt: skip
    table["unit"] = units.seasonal_error[place, target]
    return table if observed is None else table[observed.numpy().reshape(count)]


@pytest.mark.parametrize("gaps", [False, True])
def test_pooled_scores_equal_a_plain_computation(gaps: bool) -> None:
    units, batch = case(gaps=gaps)
    sums, table = SeriesSums.zeros(units), rows_of(units, **batch)
    for part in torch.arange(WINDOWS).split(7):
        chosen = {name: None if value is None else value[part] for name, value in batch.items() if name != "quantiles"}
        sums.update(**chosen, quantiles=[values[part] for values in batch["quantiles"]])
    error, size = table["f"] - table["y"], table["y"].abs()
    own = table.assign(error=error.abs()).groupby(["series", "target"])[["error", "pinball", "unit"]].mean()
    own = own[own["unit"] > 0]
    nonzero = size > 0
    expected = {
        "mse": (error**2).mean(),
        "mae": error.abs().mean(),
        "rmse": (error**2).mean() ** 0.5,
        "smape": (200 * error.abs() / (size + table["f"].abs())).mean(),
        "wape": 100 * error.abs().sum() / size.sum(),
        "mase": (own["error"] / own["unit"]).mean(),
        "rmspe": 100 * ((error / table["y"])[nonzero] ** 2).mean() ** 0.5,
        "sql": (own["pinball"] / own["unit"]).mean(),
        "wql": table["pinball"].sum() / size.sum(),
    }
    assert sums.pooled() == pytest.approx(expected, rel=1e-6)
    assert gaps or not nonzero.all()
    by_series = pd.DataFrame(sums.by_series())
    assert by_series["targets"].tolist() == table.groupby("series").size().reindex(range(SERIES), fill_value=0).tolist()
    assert by_series["rmse"][0] == pytest.approx((error[table["series"] == 0] ** 2).mean() ** 0.5, rel=1e-6)
    assert by_series.loc[3, ["mase", "sql", "wape", "rmse"]].isna().all()
    first, last = (batch["quantiles"][place] for place in (0, -1))
    inside = ((first <= batch["future"]) & (batch["future"] <= last)).numpy().ravel()[table.index]
    covered = table.assign(inside=inside).groupby("series")["inside"].mean()
    np.testing.assert_allclose(by_series["coverage_80"][:3], covered, rtol=1e-6)
    scaled = (error / units.scale[table["series"], table["target"]]) ** 2
    np.testing.assert_allclose(sums.scaled_mse()[:3], scaled.groupby(table["series"]).mean(), rtol=1e-6)


def test_a_panel_without_quantiles_has_no_quantile_scores() -> None:
    units, batch = case(gaps=False)
    sums = SeriesSums.zeros(units)
    sums.update(**{**batch, "quantiles": None})
    pooled = sums.pooled()
    assert np.isnan(pooled["sql"])
    assert np.isnan(pooled["wql"])
    assert np.isfinite(pooled["mase"])
