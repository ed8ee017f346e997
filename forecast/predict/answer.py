"""The answer of a trained model to a question: forecast, intervals, naive forecast, warnings."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.common.finite import check_forecast
from forecast.data.calendar import season_name, seasonal_period
from forecast.data.training_range import CLEAR, MARGIN, TrainingRange
from forecast.evaluation.adaptive import SPAN, RowErrors, stretched
from forecast.evaluation.intervals import middle
from forecast.evaluation.limits import WindowLimits
from forecast.model.normalization import window_spread
from forecast.model.original_units import Context, stack
from forecast.predict.contexts import TrainedModel
from forecast.predict.explanation import Explained
from forecast.predict.exported import Exported
from forecast.predict.forecast import Forecast, Question
from forecast.predict.input import ids_of
from forecast.tables.series import Series

MAX_PAST = 96
"""Largest number of earlier forecasts that scale an interval: neighbours share most of their targets."""

MAX_CELLS = 2048
"""Largest number of earlier forecasts times targets, so that a wide table takes no longer."""


def answers(forecaster: TrainedModel, several: Sequence[Series], question: Question) -> list[Forecast]:
    """Return the forecast of the steps after each checked series, with the intervals of a question.

    The model is called once for all of them, unless it was exported for one window. All or none have filled values.
    """
    forecaster.check_question(question)
    pairs = [forecaster.context(series, beyond_training=question.beyond_training) for series in several]
    with torch.inference_mode():
        outputs = forecaster.outputs(stack([context for context, _ in pairs]))
    return [
        _answer(forecaster, series, context, dates, output[None], question)
        for series, (context, dates), output in zip(several, pairs, outputs, strict=True)
    ]


def _answer(
    forecaster: TrainedModel,
    series: Series,
    context: Context,
    dates: pd.DatetimeIndex,
    output: Tensor,
    question: Question,
) -> Forecast:
    """Return the forecast after a series from the model's `output` (1, h, C_out) or (1, h, C_out, K)."""
    limits = limits_of(forecaster, context)
    output = limits.clip(output)
    values, targets = middle(output)[0].numpy(), forecaster.targets
    if question.is_plain:
        check_forecast(values, dates, targets)
        return Forecast(pd.DataFrame(values, index=dates, columns=targets))
    found, form, past = _quantiles(forecaster, series, context, output, question)
    limits = limits.near(middle(output), _spread(forecaster, context))
    ends = [limits.end(*pair) for pair in zip(found.unbind(-1), question.quantiles, strict=True)]
    quantiles = torch.stack(ends, -1)[0].numpy()
    if question.quantile is not None:
        values = quantiles[..., -1]
    frames = []
    for part in (values, *np.moveaxis(quantiles, -1, 0)):
        check_forecast(part, dates, targets)
        frames.append(pd.DataFrame(part, index=dates, columns=targets))
    intervals = {level: (frames[1 + 2 * place], frames[2 + 2 * place]) for place, level in enumerate(question.levels)}
    return Forecast(frames[0], intervals, past, (form,))


def explained(forecaster: TrainedModel, series: Series) -> Explained:
    """Return the point forecast of the steps after a checked series, to be explained."""
    context, dates = forecaster.context(series)
    limits = limits_of(forecaster, context)

    def forward(windows: Context) -> Tensor:
        return limits.clip(middle(forecaster.outputs(windows)))

    return Explained(forecaster.contract, context, dates, forward)


def _quantiles(
    forecaster: TrainedModel, series: Series, context: Context, output: Tensor, question: Question
) -> tuple[Tensor, str, tuple[int, ...]]:
    """Return the quantiles of a question (1, h, C, Q), the name of their form, and the number of earlier forecasts."""
    spread, forms = _spread(forecaster, context), forecaster.forms
    found = _scale(forecaster, series, context, question)
    if isinstance(found, str):
        if question.adaptive and found not in NOT_FOR_THE_MODEL:
            raise InputError(f"adaptive: {found}: give more rows, or leave out adaptive")
        return forms.plain.quantiles(output, spread, question.quantiles), f"plain form: {found}", ()
    assert forms.adaptive is not None
    scale, forecasts = found
    scaled = stretched(output, scale), spread * scale
    return forms.adaptive.calibration.quantiles(*scaled, question.quantiles), "", (forecasts,)


EXPORTED = "an exported model has no past errors"
USELESS = "past errors of this series do not predict the next ones"
TOO_FEW = "the adaptive form has too few held-out windows for these levels"
NOT_FOR_THE_MODEL = (EXPORTED, USELESS, TOO_FEW)
"""Reasons for plain intervals that more rows do not change."""


def _scale(forecaster: TrainedModel, series: Series, context: Context, question: Question) -> tuple[Tensor, int] | str:
    """Return the scale (1, 1, C_out) of adaptive intervals and its number of forecasts, or why they are plain."""
    adaptive, horizon = forecaster.forms.adaptive, forecaster.horizon
    if adaptive is None:
        return USELESS
    if isinstance(forecaster.model, Exported):
        return EXPORTED
    if not all(adaptive.calibration.supports(level) for level in question.quantiles):
        return TOO_FEW
    origins = _earlier_origins(forecaster, series)
    end = len(series.frame)
    errors = RowErrors(adaptive.typical)
    if len(origins):
        windows = forecaster.earlier(series, origins, context.future_known)
        residuals = _residuals(forecaster, series, origins, point_forecasts(forecaster, windows))
        errors.add(torch.from_numpy(origins), residuals, _spread(forecaster, windows))
    size, known = errors.before(torch.tensor([end]))
    if not bool(known.all()):
        return f"the input has fewer than {horizon} rows with earlier forecasts, after training and one look-back"
    return adaptive.scale(size), len(origins)


def _residuals(forecaster: TrainedModel, series: Series, origins: np.ndarray, forecast: Tensor) -> Tensor:
    """Return truth minus forecast (B, h, C_out), original units; NaN after the last row or where not measured."""
    rows, end = origins[:, None] + np.arange(forecaster.horizon), len(series.frame)
    truth = series.frame[forecaster.targets].to_numpy(np.float64)
    measured = series.observed_of(forecaster.targets)
    if measured is not None:
        truth = np.where(measured, truth, np.nan)
    known = np.where((rows < end)[..., None], truth[rows.clip(max=end - 1)], np.nan)
    return torch.from_numpy(known) - forecast


@torch.inference_mode()
def point_forecasts(forecaster: TrainedModel, windows: Context) -> Tensor:
    """Return the point forecasts of windows within their limits, shape (B, h, C_out), original units."""
    return limits_of(forecaster, windows).clip(middle(forecaster.model(*windows)))


def limits_of(forecaster: TrainedModel, context: Context) -> WindowLimits:
    """Return the limits of the forecasts of windows, original units."""
    count = len(forecaster.targets)
    observed = None if context.past_observed is None else context.past_observed[..., :count]
    return forecaster.facts.limits.at(
        context.past[..., :count], observed, forecaster.horizon, future_known=context.future_known
    )


def _spread(forecaster: TrainedModel, context: Context) -> Tensor:
    """Return the spread (B, 1, C_out) of each window's targets, original units."""
    count = len(forecaster.targets)
    scaled = (
        context.past[..., :count] - torch.tensor(forecaster.contract.scaler.mean[:count])
    ) / forecaster.target_scale
    observed = None if context.past_observed is None else context.past_observed[..., :count]
    return window_spread(scaled.to(torch.float32), observed).double() * forecaster.target_scale


def _earlier_origins(forecaster: TrainedModel, series: Series) -> np.ndarray:
    """Return the rows of the input at which earlier forecasts begin, evenly spaced, rising.

    They lie after the training rows, whose errors are smaller. As in training, a forecast does not begin in a gap whose
    fill depends on the value after it.
    """
    end, length = len(series.frame), forecaster.context_length
    reach = (SPAN + 1) * forecaster.horizon
    most = max(1, min(MAX_PAST, MAX_CELLS // len(forecaster.targets)))
    step = min(forecaster.horizon, -(-reach // most))
    origins: np.ndarray = np.arange(end - step, max(length, end - reach) - 1, -step)[::-1]
    origins = origins[is_after_training(forecaster, series)[origins]]
    measured = series.observed_of(forecaster.channels)
    if forecaster.policies.reads_past_gaps and measured is not None:
        return np.asarray(origins[np.asarray(measured)[origins - 1].all(1)])
    return origins


def is_after_training(forecaster: TrainedModel, series: Series) -> np.ndarray:
    """Return which rows (N,) are later than the last training row; none if their times cannot be compared with it."""
    index = pd.DatetimeIndex(series.frame.index)
    clock = forecaster.contract.clock
    last = pd.DatetimeIndex([forecaster.facts.calibration.get("last_training_row", index[-1])])
    own, trained = clock.comparable(index), clock.comparable(last)
    if (own.tz is None) != (trained.tz is None):
        return np.zeros(len(index), bool)
    return np.asarray(own > trained[0])


def warnings_of(forecaster: TrainedModel, series: Series) -> list[str]:
    """Return warnings about look-back and horizon of a checked series and about the model, in words."""
    limits = forecaster.facts.training_range.of([*forecaster.channels, *forecaster.known_range.columns])
    past = _look_back_warnings(forecaster, series, limits)
    return [*forecaster.facts.warnings(), *past, *_horizon_warnings(forecaster, series)]


def known_warnings(forecaster: TrainedModel, series: Series) -> list[str]:
    """Return warnings about known numbers of look-back and horizon that are clearly outside the range of training."""
    past = _look_back_warnings(forecaster, series, forecaster.known_range, CLEAR)
    return [*past, *_horizon_warnings(forecaster, series, CLEAR)]


def _look_back_warnings(
    forecaster: TrainedModel, series: Series, limits: TrainingRange, margin: float = MARGIN
) -> list[str]:
    """Return warnings about the columns of `limits` in the look-back of a checked series."""
    names, rows = list(limits.columns), slice(max(0, len(series.frame) - forecaster.context_length), None)
    context, measured = series.frame[names].iloc[rows].to_numpy(np.float64), series.observed_of(names)
    seen = None if measured is None else np.asarray(measured)[rows]
    return limits.warnings(context, seen, margin) if names else []


def _horizon_warnings(forecaster: TrainedModel, series: Series, margin: float = MARGIN) -> list[str]:
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


def seasonal_naive(series: Series, stops: np.ndarray, targets: list[str], period: int, horizon: int) -> np.ndarray:
    """Return the seasonal naive forecast from the rows `stops` (S,) on, (S, h, C): the newest value at the same phase.

    It is the last value where a series is shorter than a season.
    """
    values = series.frame[targets].to_numpy(np.float64)
    step = np.arange(horizon)
    rows = stops[:, None] + step % period - period
    rows = np.where(rows < ids_of(series).offsets[:-1][:, None], stops[:, None] - 1, rows)
    return values[rows]


def naive_name(series: Series, frequency: str) -> str:
    """Return the name of the naive forecast after a series, with its season."""
    period = _period(series, frequency)
    return "last value" if period == 1 else f"seasonal naive ({season_name(period, frequency)})"


def _period(series: Series, frequency: str) -> int:
    """Return the season in steps; 1 if the series is shorter."""
    period = seasonal_period(frequency)
    return period if period <= len(series.frame) else 1
