"""The validation errors of one series by hour of day, or by the part of the calendar that its step allows."""

from dataclasses import dataclass

import numpy as np

from forecast.data.calendar import CalendarPart, calendar_part
from forecast.data.datamodule import ForecastData
from forecast.evaluation.evaluate import Evaluation, residual_step


@dataclass(frozen=True)
class PartErrors:
    """Mean absolute error and mean of truth minus forecast, (P,), original units; NaN where nothing was scored."""

    series: str
    part: CalendarPart
    mae: np.ndarray
    bias: np.ndarray


def errors_by_part(evaluation: Evaluation, data: ForecastData) -> PartErrors | None:
    """Return the errors of the first target by the time that was forecast, over all windows with residuals.

    None for steps of a year and longer.
    """
    part = calendar_part(data.source.series.frequency)
    if part is None:
        return None
    assert evaluation.residuals is not None
    residuals = evaluation.residuals[..., 0]  # (W', h), z-scores
    origin = evaluation.origin[:: residual_step(len(evaluation.origin), *evaluation.residuals.shape[1:])]
    numbers = np.asarray(part.numbers(data.index))
    size = len(part.labels)
    absolute, signed, count = np.zeros(size), np.zeros(size), np.zeros(size)
    for step, column in enumerate(residuals.T):
        seen = np.isfinite(column)
        at, values = numbers[origin[seen] + step], column[seen].astype(np.float64)
        absolute += np.bincount(at, np.abs(values), size)
        signed += np.bincount(at, values, size)
        count += np.bincount(at, minlength=size)
    scale = data.target_scale[0] / np.where(count > 0, count, np.nan)
    return PartErrors(data.source.targets[0], part, absolute * scale, signed * scale)
