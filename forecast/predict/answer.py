"""The answer of a trained model to a question: forecast, intervals, naive forecast, warnings."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.common.finite import check_forecast
from forecast.data.calendar import season_name, seasonal_period
from forecast.data.series import Series
from forecast.data.training_range import CLEAR, MARGIN, TrainingRange
from forecast.evaluation.adaptive import adapted_shift, nested
from forecast.evaluation.intervals import middle
from forecast.model.normalization import window_spread
from forecast.model.original_units import Context, stack
from forecast.predict.input import why_few_rows
from forecast.predict.intervals import Forecast, Question

if TYPE_CHECKING:
    from forecast.predict.forecaster import Forecaster

MAX_PAST = 500
"""Largest number of earlier forecasts that adapt an interval."""

CHUNK = 64
"""Earlier forecasts computed at once."""


def answer(forecaster: "Forecaster", series: Series, question: Question) -> Forecast:
    """Return the forecast of the steps after a checked series, with the intervals of a question."""
    forecaster.check_question(question)
    context, dates = forecaster.context(series, beyond_training=question.beyond_training)
    with torch.inference_mode():
        output = forecaster.model(*context)
    values, targets = middle(output)[0].numpy(), forecaster.targets
    if question.is_plain:
        check_forecast(values, dates, targets)
        return Forecast(pd.DataFrame(values, index=dates, columns=targets))
    shift, past = _adapted(forecaster, series, question) if question.adaptive else (None, ())
    spread = _spread(forecaster, context)
    quantiles = forecaster.calibration.quantiles(output, spread, question.quantiles, shift)[0]  # (h, C, Q)
    if question.adaptive:
        ends = 2 * len(question.levels)
        quantiles = torch.cat([nested(quantiles[..., :ends], question.levels), quantiles[..., ends:]], -1)
    if question.quantile is not None:
        values = quantiles[..., -1].numpy()
    frames = []
    for part in (values, *np.moveaxis(quantiles.numpy(), -1, 0)):
        check_forecast(part, dates, targets)
        frames.append(pd.DataFrame(part, index=dates, columns=targets))
    intervals = {level: (frames[1 + 2 * place], frames[2 + 2 * place]) for place, level in enumerate(question.levels)}
    return Forecast(frames[0], intervals, past)


def _spread(forecaster: "Forecaster", context: Context) -> Tensor:
    """Return the spread (B, 1, C_out) of each window's targets, original units."""
    count = len(forecaster.targets)
    scaled = (context.past[..., :count] - torch.tensor(forecaster.scaler.mean[:count])) / forecaster.target_scale
    observed = None if context.past_observed is None else context.past_observed[..., :count]
    return window_spread(scaled.to(torch.float32), observed).double() * forecaster.target_scale


def _adapted(forecaster: "Forecaster", series: Series, question: Question) -> tuple[Tensor, tuple[int]]:
    """Return the shift of adaptive intervals, (h, C, Q), and the number of earlier forecasts that gave it.

    Earlier forecasts start within the input, and all their targets lie before its end.
    """
    end, horizon = len(series.frame), forecaster.horizon
    origins = _earlier_origins(forecaster, series)[-MAX_PAST:]
    windows = stack([forecaster.context(series, origin)[0] for origin in origins])
    with torch.inference_mode():
        outputs = [forecaster.model(*windows.rows(rows)) for rows in _chunks(forecaster, len(origins))]
    rows = np.array(origins)[:, None] + np.arange(horizon)
    measured = series.observed_of(forecaster.targets)
    shift = adapted_shift(
        forecaster.calibration,
        torch.cat(outputs),
        _spread(forecaster, windows),
        torch.from_numpy(series.frame[forecaster.targets].to_numpy(np.float64)[rows]),
        None if measured is None else torch.from_numpy(np.asarray(measured)[rows]),
        torch.tensor(origins),
        end,
        question.levels,
    )
    if question.quantile is not None:  # a single quantile is not adapted
        shift = torch.cat([shift, torch.zeros_like(shift[..., :1])], -1)
    return shift, (len(origins),)


def _earlier_origins(forecaster: "Forecaster", series: Series) -> list[int]:
    """Return the rows of the input at which an earlier forecast can be scored; raise InputError if there is none.

    As in training, a forecast does not begin in a gap whose fill depends on the value after it.
    """
    end, horizon, length = len(series.frame), forecaster.horizon, forecaster.context_length
    origins = np.arange(length, end - horizon + 1)
    if not len(origins):
        raise InputError(
            f"adaptive: needs {length + horizon} rows, the look-back and one horizon, to score an "
            f"earlier forecast; the input has {end}{why_few_rows(series)}: give more rows"
        )
    measured = series.observed_of(forecaster.channels)
    if forecaster.policies.reads_past_gaps and measured is not None:
        origins = origins[measured[origins - 1].all(1)]
        if not len(origins):
            raise InputError(
                "adaptive: each earlier forecast would begin in a gap, whose fill depends on the value after it: "
                "give more rows, or leave out adaptive"
            )
    rows: list[int] = origins.tolist()
    return rows


def _chunks(forecaster: "Forecaster", count: int) -> list[slice]:
    """Return slices of `count` windows, of the batch size that the model accepts."""
    size = CHUNK if forecaster.batch is None else forecaster.batch
    return [slice(start, start + size) for start in range(0, count, size)]


def warnings_of(forecaster: "Forecaster", series: Series) -> list[str]:
    """Return warnings about look-back and horizon of a checked series and about the model, in words."""
    facts = forecaster.facts
    if facts is None:
        return []
    warnings = facts.warnings() if forecaster.attention is None else []  # its errors are of the attention of training
    if facts.training_range is not None:
        limits = facts.training_range.of([*forecaster.channels, *forecaster.known_range.columns])
        warnings += _look_back_warnings(forecaster, series, limits)
    return [*warnings, *_horizon_warnings(forecaster, series)]


def known_warnings(forecaster: "Forecaster", series: Series) -> list[str]:
    """Return warnings about known numbers of look-back and horizon that are clearly outside the range of training."""
    past = _look_back_warnings(forecaster, series, forecaster.known_range, CLEAR)
    return [*past, *_horizon_warnings(forecaster, series, CLEAR)]


def _look_back_warnings(
    forecaster: "Forecaster", series: Series, limits: TrainingRange, margin: float = MARGIN
) -> list[str]:
    """Return warnings about the columns of `limits` in the look-back of a checked series."""
    names, rows = list(limits.columns), slice(max(0, len(series.frame) - forecaster.context_length), None)
    context, measured = series.frame[names].iloc[rows].to_numpy(np.float64), series.observed_of(names)
    seen = None if measured is None else np.asarray(measured)[rows]
    return limits.warnings(context, seen, margin) if names else []


def _horizon_warnings(forecaster: "Forecaster", series: Series, margin: float = MARGIN) -> list[str]:
    """Return warnings about the known numbers of the horizon."""
    limits = forecaster.known_range
    if not limits.columns:
        return []
    ahead = forecaster.known_ahead(series)[list(limits.columns)].to_numpy(np.float64)
    return limits.horizon_warnings(ahead, margin)


def naive_forecast(series: Series, targets: list[str], frequency: str, dates: pd.DatetimeIndex) -> pd.DataFrame:
    """Return the seasonal naive forecast of the `dates` after a series: the newest value at the same phase.

    It is the last value if the series is shorter than a season.
    """
    values, step = series.frame[targets].to_numpy(np.float64), np.arange(len(dates))
    period = _period(series, frequency)
    return pd.DataFrame(values[len(values) + step % period - period], index=dates, columns=targets)


def naive_name(series: Series, frequency: str) -> str:
    """Return the name of the naive forecast after a series, with its season."""
    period = _period(series, frequency)
    return "last value" if period == 1 else f"seasonal naive ({season_name(period, frequency)})"


def _period(series: Series, frequency: str) -> int:
    """Return the season in steps; 1 if the series is shorter."""
    period = seasonal_period(frequency)
    return period if period <= len(series.frame) else 1
