"""Scores of a trained model on a table that it has not seen, beside the simple forecasts of the same windows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.data.calendar import season_name, seasonal_period
from forecast.evaluation.metrics import skill
from forecast.predict.answer import point_forecasts
from forecast.predict.contexts import TrainedModel
from forecast.predict.forecast import Question
from forecast.predict.history import time_of
from forecast.predict.input import ids_of
from forecast.tables.series import Series, only

AT_ONCE = 256
"""Windows that are forecast together."""

Forecasts = Callable[[np.ndarray], np.ndarray]
"""Maps first rows (B,) of horizons to a forecast (B, h, C), original units."""


def origins_of(model: TrainedModel, series: Series, start: Any = None) -> np.ndarray:
    """Return the rows at which a forecast of `series` begins whose whole horizon is in it, rising.

    The first is at the time `start` or later. As in training, none begins in a gap whose fill depends on the value
    after it.
    """
    length, horizon = model.context_length, model.horizon
    origins = np.arange(length, len(series.frame) - horizon + 1)
    if start is not None:
        index = pd.DatetimeIndex(series.frame.index)
        origins = origins[origins >= index.searchsorted(time_of(start, index, "start"))]
    measured = series.observed_of(model.channels)
    if model.policies.reads_past_gaps and measured is not None:
        origins = origins[np.asarray(measured)[origins - 1].all(1)]
    if not len(origins):
        after = "" if start is None else f" before the rows from {start} on"
        raise InputError(
            f"the frame has {len(series.frame):,} rows: a score needs a look-back of {length:,}{after} and a horizon "
            f"of {horizon:,}, {length + horizon:,} rows: give more rows"
        )
    return np.asarray(origins)


def network_forecasts(model: TrainedModel, series: Series) -> Forecasts:
    """Return the point forecasts of a model within a checked series."""

    def forecast(origins: np.ndarray) -> np.ndarray:
        return point_forecasts(model, model.earlier(series, origins)).double().numpy()

    return forecast


def score_table(forecasts: Forecasts, model: TrainedModel, series: Series, origins: np.ndarray) -> pd.DataFrame:
    """Return the scores of a model, the seasonal naive forecast and the last value; see `Forecaster.score`."""
    values, period = series.frame[model.targets].to_numpy(np.float64), seasonal_period(model.frequency)
    step = np.arange(model.horizon)
    rows: dict[str, Forecasts] = {"model": forecasts, "last value": lambda first: values[first - 1][:, None]}
    if 1 < period <= model.context_length:
        name = f"seasonal naive ({season_name(period, model.frequency)})"
        rows[name] = lambda first: values[first[:, None] + step % period - period]
    observed = series.observed_of(model.targets)
    scale = np.asarray(model.target_scale)
    sums = {name: np.zeros(4) for name in rows}
    for part in np.array_split(origins, -(-len(origins) // (model.batch or AT_ONCE))):
        places = part[:, None] + step
        seen = None if observed is None else np.asarray(observed)[places]
        for name, made in rows.items():
            sums[name] += error_sums(made(part) - values[places], seen, scale)
    return table_of(sums)


def panel_scores(
    model: TrainedModel,
    series: Series,
    forecast_from: Callable[[Series, np.ndarray, Question], Any],
    scale: np.ndarray,
) -> pd.DataFrame:
    """Return the scores of a model of many series on horizons that do not overlap, counted back from each end.

    `forecast_from` returns the `PanelForecast` from one row of each series on. `scale` (S, 1, C) are the standard
    deviations of the targets.
    """
    ids, horizon = ids_of(series), model.horizon
    values, observed = series.frame[model.targets].to_numpy(np.float64), series.observed_of(model.targets)
    sums = {name: np.zeros(4) for name in ("model", "naive")}
    for back in range(horizon, 1 + int(ids.lengths.max()) - model.least_context, horizon):
        enough = np.flatnonzero(ids.lengths >= model.least_context + back)
        part = only(series, enough)
        found = forecast_from(part, ids_of(part).offsets[1:] - back, Question(beyond_training=True))
        places = ids.offsets[1:][enough, None] - back + np.arange(horizon)
        seen = None if observed is None else np.asarray(observed)[places]
        for name, made in (("model", found.values), ("naive", found.naive)):
            sums[name] += error_sums(made - values[places], seen, scale[enough])
    if not sums["model"][0]:
        raise InputError(
            f"the frame has at most {ids.lengths.max():,} rows of a series: a score needs {model.least_context:,} and "
            f"a horizon of {horizon:,}: give more rows"
        )
    period = seasonal_period(model.frequency)
    naive = f"seasonal naive ({season_name(period, model.frequency)})" if period > 1 else "last value"
    return table_of({"model": sums["model"], naive: sums["naive"]})


def error_sums(error: np.ndarray, seen: np.ndarray | None, scale: np.ndarray) -> np.ndarray:
    """Return the number of targets that were `seen`, and the sums of their errors (B, h, C), as `table_of` takes them.

    These are squared and absolute errors of z-scores, and absolute errors in original units.
    """
    error = error if seen is None else np.where(seen, error, 0.0)
    count = error.size if seen is None else seen.sum()
    return np.array([count, np.square(error / scale).sum(), np.abs(error / scale).sum(), np.abs(error).sum()])


def table_of(sums: dict[str, np.ndarray]) -> pd.DataFrame:
    """Return the scores of rows from the number of targets, and the sums of their errors."""
    scores = {
        name: {"mse": squared / count, "mae": absolute / count, "mae_original": original / count}
        for name, (count, squared, absolute, original) in sums.items()
    }
    naive = next((row["mse"] for name, row in scores.items() if name.startswith("seasonal naive")), None)
    for row in scores.values():
        row["skill"] = float("nan") if naive is None else skill(row["mse"], naive)
    return pd.DataFrame.from_dict(scores, orient="index").rename_axis("forecast")
