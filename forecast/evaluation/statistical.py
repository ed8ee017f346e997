"""Exponential smoothing, theta and ARIMA of the package `statsforecast`: baselines of a result, on request."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.data.calendar import seasonal_period
from forecast.data.windows import Batch

if TYPE_CHECKING:
    from forecast.data.datamodule import ForecastData

MODELS = {"ets": "AutoETS", "theta": "AutoTheta", "arima": "AutoARIMA"}
"""Baselines, and their models of `statsforecast`."""

ROWS = 512
"""Largest number of training rows of a series, its last, that choose and fit a model; at least two seasons count."""

SERIES = 20
"""Largest number of series: each has a model of its own, whose choice takes seconds."""

FORECASTS = 200
"""Largest number of forecasts in a split; a split with more is scored on fewer windows."""

_LIMITS: dict[str, dict[str, Any]] = {"arima": {"approximation": True, "nmodels": 12, "max_P": 1, "max_Q": 1}}
"""Arguments that bound the search for a model."""


@dataclass(frozen=True)
class Statistical:
    """A model for each series and target, fitted once on training rows, and continued on the look-back of a window.

    `models` are by series and target, and `first` (S,) is the row that the fit of each series begins with: a look-back
    is cut to begin at the same phase of the season, since a model has its first seasonal state from there. The theta
    method finds the season in each look-back itself, and its `period` is 1. `mean` and `scale` (S, C_out) turn z-scores
    into original units.
    """

    models: dict[tuple[int, int], Any]
    first: np.ndarray
    period: int
    mean: np.ndarray
    scale: np.ndarray

    def __call__(self, batch: Batch) -> Tensor:
        """Return the forecast (B, h, C_out)."""
        windows, horizon, targets = batch.future.shape
        series = np.zeros(windows, np.int64) if batch.series is None else batch.series.cpu().numpy()
        mean, scale = self.mean[series][:, None], self.scale[series][:, None]
        past = batch.past[..., :targets].double().cpu().numpy() * scale + mean
        length = past.shape[1]
        begin = (self.first[series] - batch.origin.cpu().numpy() + length) % self.period
        found = np.empty((windows, horizon, targets))
        for window, target in np.ndindex(windows, targets):
            model = self.models[int(series[window]), target]
            own = past[window, min(begin[window], length - 1) :, target]
            with warnings.catch_warnings():  # of a search that has ended, and of a constant look-back
                warnings.simplefilter("ignore")
                found[window, :, target] = model.forward(y=own, h=horizon)["mean"]
        return torch.from_numpy((found - mean) / scale).to(batch.future)


def fit_statistical(name: str, data: ForecastData) -> Statistical:
    """Choose and fit a model of each series on its last training rows; raise InputError without the package."""
    check_statistical(name, data)
    from statsforecast import models

    source, rows = data.source.series, data.train_rows
    values = source.frame[data.source.targets].to_numpy(np.float64)[rows]
    series = np.zeros(len(values), np.int64) if source.ids is None else np.asarray(source.ids.of_rows)[rows]
    period, targets = seasonal_period(source.frequency), len(data.source.targets)
    numbers, fitted = np.arange(len(source.frame))[rows], {}
    kept = [np.flatnonzero(series == place)[-max(ROWS, 2 * period) :] for place in range(series.max() + 1)]
    for place, target in np.ndindex(len(kept), targets):
        own = values[kept[place], target]
        model = getattr(models, MODELS[name])(season_length=period, **_LIMITS.get(name, {}))
        with warnings.catch_warnings():  # of candidates that do not converge
            warnings.simplefilter("ignore")
            fitted[place, target] = model.fit(y=own)
    mean, scale = (np.atleast_2d(part)[:, :targets] for part in (data.scaler.mean, data.scaler.scale))
    first = numbers[[each[0] for each in kept]]
    return Statistical(fitted, first, 1 if name == "theta" else period, mean, scale)


def check_statistical(name: str, data: ForecastData) -> None:
    """Raise InputError if the package is not installed, or the table has too many series."""
    from importlib.util import find_spec

    if find_spec("statsforecast") is None:
        raise InputError(
            f"evaluation.baselines={name}: needs the package statsforecast: pip install -e '.[baselines]', which "
            "takes pandas 2, or leave it out"
        )
    ids = data.source.series.ids
    count = len(data.source.targets) * (1 if ids is None else len(ids))
    if count > SERIES:
        raise InputError(
            f"evaluation.baselines={name}: fits a model of each of {count:,} series, at most {SERIES} are allowed: use "
            "evaluation.baselines=[trees]"
        )
