"""The baselines of a result: mean of training, last value, seasonal naive, ridge regression, and those on request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from forecast.data.calendar import seasonal_period
from forecast.data.windows import Batch, Windows
from forecast.evaluation.evaluate import Forecaster
from forecast.evaluation.ridge import Ridge
from forecast.evaluation.statistical import FORECASTS, MODELS, check_statistical, fit_statistical
from forecast.evaluation.trees import PREDICTIONS, fit_trees

if TYPE_CHECKING:
    from forecast.data.datamodule import ForecastData


def last_value(batch: Batch) -> Tensor:
    """Forecast the last target value of the context for every step, shape (B, h, C_out)."""
    return batch.past[:, -1:, : batch.future.shape[2]].expand_as(batch.future)


def training_mean(batch: Batch) -> Tensor:
    """Forecast the mean of the training split, the z-score 0, for every step, shape (B, h, C_out)."""
    return torch.zeros_like(batch.future)


@dataclass(frozen=True)
class SeasonalNaive:
    """The seasonal naive forecast: the newest value before the origin at the same phase of a season of `period` steps.

    It reads the table of `windows` before each origin, possibly before the context, and never after the origin. Before
    the first row of its series in a panel, it is the last value.
    """

    windows: Windows
    period: int

    @classmethod
    def of(cls, data: ForecastData, ridge: Ridge | None = None) -> SeasonalNaive | None:
        """Return the forecast of the test windows; None if the training split is shorter than a season."""
        period = seasonal_period(data.source.series.frequency)
        return cls(data.parts["test"], period) if period <= len(data.split.train) else None

    def __call__(self, batch: Batch) -> Tensor:
        """Return the forecast (B, h, C_out)."""
        step = torch.arange(self.windows.horizon, device=batch.origin.device)
        back = step % self.period - self.period  # in the season that ends at the origin
        rows = batch.origin[:, None] + back  # (B, h)
        if self.windows.panel is not None:
            first = self.windows.panel.first.to(rows.device)[batch.series]
            rows = torch.where(rows < first[:, None], batch.origin[:, None] - 1, rows)
        return self.windows.values_at(rows)[..., : self.windows.num_targets]


@dataclass(frozen=True)
class Named:
    """The `title` of a baseline in a table, and its name in a `sentence`."""

    title: str
    sentence: str


@dataclass(frozen=True)
class Baseline(Named):
    """A baseline of every result; `make` returns None where it does not apply."""

    make: Callable[[ForecastData, Ridge], Forecaster | None]


BASELINES = {
    "training_mean": Baseline("mean of training", "the mean of training", lambda data, ridge: training_mean),
    "last_value": Baseline("last value", "the last value", lambda data, ridge: last_value),
    "seasonal_naive": Baseline("seasonal naive", "the seasonal naive forecast", SeasonalNaive.of),
    "linear": Baseline("linear (ridge)", "ridge regression", lambda data, ridge: ridge),
}
"""Baselines by their name in a result, in the order of the table; a result of an earlier version lacks the first."""


@dataclass(frozen=True)
class Requested(Named):
    """A baseline on request.

    `make` takes the levels of a model of quantiles. `most` is the largest number of windows of a split that it
    forecasts, and `check` raises InputError for data that it cannot forecast.
    """

    make: Callable[[ForecastData, Sequence[float]], Forecaster]
    most: Callable[[Windows], int]
    check: Callable[[ForecastData], None] = lambda data: None


def _statistical(name: str, title: str) -> Requested:
    return Requested(
        title,
        title,
        lambda data, levels: fit_statistical(name, data),
        lambda windows: max(1, FORECASTS // windows.num_targets),
        partial(check_statistical, name),
    )


REQUESTED = {
    "trees": Requested(
        "gradient-boosted trees",
        "the model of gradient-boosted trees",
        fit_trees,
        lambda windows: max(1, PREDICTIONS // (windows.horizon * windows.num_targets)),
    ),
    **{
        name: _statistical(name, title)
        for name, title in zip(MODELS, ("exponential smoothing", "theta", "ARIMA"), strict=True)
    },
}
"""Baselines of `evaluation.baselines`, by their name in a result; no forecast of a saved run reads them."""

EVERY: dict[str, Named] = {**BASELINES, **REQUESTED}
"""All baselines, in the order of the table."""
