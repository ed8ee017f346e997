"""Gradient-boosted trees on lags, rolling means, calendar and known columns: a baseline of a result, on request."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from forecast.data.calendar import seasonal_period
from forecast.data.windows import Batch, Windows

if TYPE_CHECKING:
    from forecast.data.datamodule import ForecastData

ROWS = 100_000
"""Largest number of training rows: a row is one step of one target of a window."""

WINDOWS = 5_000
"""Largest number of training windows that the rows are drawn from."""

TREES, MORE = 200, 50
"""Largest number of trees of a model, and the number that is added before the time is checked."""

SECONDS = 120.0
"""Processor time after which no trees are added, over all quantiles; elapsed time would depend on other programs."""

PREDICTIONS = 2**22
"""Largest number of rows that are forecast in a split; a split with more is scored on fewer windows."""

COVARIATES = 8
"""Largest number of past covariates that are read."""

WEEK = 7
"""Seasons of the longer rolling mean, and of the longer lag."""


@dataclass(frozen=True)
class Trees:
    """A model of all steps, targets and series: the step is a feature. One regressor for each quantile, or one.

    The trees forecast the difference of a target from its mean over the last season of the look-back. They read the
    look-back and the known inputs of a window, as the model does.

    References
    ----------
    Ke et al., "LightGBM: A highly efficient gradient boosting decision tree", NeurIPS (2017), of which scikit-learn's
    `HistGradientBoostingRegressor` is a version.
    """

    regressors: tuple[Any, ...]
    period: int
    rows: int
    seconds: float

    def __call__(self, batch: Batch) -> Tensor:
        """Return the forecast (B, h, C_out), or its quantiles (B, h, C_out, K)."""
        shape = batch.future.shape
        table, base = features(batch, np.indices(shape).reshape(3, -1), self.period)
        found = np.stack([regressor.predict(table) for regressor in self.regressors], -1)
        found = np.sort(found + base[:, None], -1).reshape(*shape, -1)
        forecast = torch.from_numpy(found).to(batch.future)
        return forecast if len(self.regressors) > 1 else forecast[..., 0]

    @property
    def facts(self) -> dict[str, float]:
        """The size of the fit: training rows, trees of all quantiles, and seconds of processor time."""
        trees = sum(regressor.n_iter_ for regressor in self.regressors)
        return {"rows": self.rows, "trees": trees, "seconds": self.seconds}


def fit_trees(data: ForecastData, levels: Sequence[float] = ()) -> Trees:
    """Fit trees on the training windows: for the squared error, or for each of the quantiles `levels`.

    The validation windows choose the number of trees. At most `ROWS` rows are drawn, always the same.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    started, period = time.process_time(), seasonal_period(data.source.series.frequency)
    train, validation = (
        _drawn(data.parts[part], rows, period) for part, rows in (("train", ROWS), ("validation", ROWS // 5))
    )
    regressors = []
    for place, level in enumerate(levels or [None]):
        loss = {"loss": "squared_error"} if level is None else {"loss": "quantile", "quantile": level}
        regressor = HistGradientBoostingRegressor(
            **loss, early_stopping=True, n_iter_no_change=20, warm_start=True, random_state=0
        )
        limit = SECONDS * (place + 1) / max(1, len(levels))
        for trees in range(MORE, TREES + 1, MORE):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                regressor.set_params(max_iter=trees).fit(*train, X_val=validation[0], y_val=validation[1])
            if regressor.n_iter_ < trees or time.process_time() - started > limit:
                break
        regressors.append(regressor)
    return Trees(tuple(regressors), period, len(train[0]), time.process_time() - started)


def _drawn(windows: Windows, most: int, period: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the features and differences of at most `most` measured targets of windows, spread evenly over time."""
    shape = windows.horizon, windows.num_targets
    windows = windows.thinned(-(-len(windows) // min(WINDOWS, most)))
    each = max(1, min(shape[0] * shape[1], most // len(windows)))
    random, tables, wanted = np.random.default_rng(0), [], []
    for batch in windows.batches(256):
        count = len(batch.future)
        cells = np.concatenate([random.choice(shape[0] * shape[1], each, replace=False) for _ in range(count)])
        places = np.stack([np.repeat(np.arange(count), each), *np.unravel_index(cells, shape)])
        if batch.future_observed is not None:
            places = places[:, batch.future_observed.cpu().numpy()[tuple(places)]]
        table, base = features(batch, places, period)
        tables.append(table)
        wanted.append(batch.future.cpu().numpy()[tuple(places)] - base)
    return np.concatenate(tables), np.concatenate(wanted)


def features(batch: Batch, places: np.ndarray, period: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the features (R, M) of the places (3, R) of targets (window, step, target), and the base (R,).

    The base is the mean of the target over the last season. Levels are read relative to it. Lags are at the same
    phase of the season, or of `WEEK` seasons, as the target; one before the look-back repeats the newest of them.
    """
    window, step, target = places
    past, known, ahead = (part.cpu().numpy() for part in (batch.past, batch.past_known, batch.future_known))
    length, outputs = past.shape[1], batch.future.shape[2]
    means = [past[:, -min(length, size) :].mean(1) for size in (period, WEEK * period, length)]  # (B, C_in) each
    base = means[0][window, target]
    aligned = period * (step // period + 1) - step  # rows back from the origin, at least 1

    def lag(back: np.ndarray, values: np.ndarray, column: np.ndarray | int) -> np.ndarray:
        inside = np.where(back <= length, back, aligned)
        return np.asarray(values[window, (length - inside).clip(min=0), column])

    week = WEEK * period * (step // (WEEK * period) + 1) - step
    backs = [aligned, aligned + period, aligned + 2 * period, week, *(np.full_like(step, back) for back in (1, 2, 3))]
    columns = [lag(back, past, target) - base for back in backs]
    columns += [mean[window, target] - base for mean in means[1:]]
    columns += [base, past.std(1)[window, target], step, target]
    if batch.series is not None:
        columns.append(batch.series.cpu().numpy()[window])
    columns += list(ahead[window, step].T)
    columns += [lag(aligned, known, column) for column in range(known.shape[2])]
    for column in range(outputs, min(past.shape[2], outputs + COVARIATES)):
        columns += [past[window, -1, column], means[0][window, column]]
    return np.stack(columns, 1).astype(np.float32), base
