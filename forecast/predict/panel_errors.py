"""The size of the latest errors of each series of a panel, by which its intervals may follow them."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from forecast.evaluation.adaptive import SPAN, RowErrors
from forecast.predict.answer import is_after_training
from forecast.predict.chosen import TooShort
from forecast.predict.contexts import TrainedModel
from forecast.predict.input import ids_of
from forecast.tables.series import Series, only

Errors = Callable[[Series, np.ndarray], tuple[Tensor, Tensor]]
"""Returns the residuals (S, h, C) of the forecasts of a panel from some rows (S,) on, and their spread (S, 1, C)."""


def recent_sizes(model: TrainedModel, errors_of: Errors, series: Series, stops: np.ndarray) -> Tensor | None:
    """Return the relative size of the latest errors before the rows `stops` (S,) of each series, (S, 1, C).

    None if the intervals of the run do not depend on the series. The errors are those of forecasts that begin one to
    six horizons before the stops, after training. More of them changed the interval score by at most 0.2 % on four
    panels.

    Raises
    ------
    TooShort
        If a series has fewer than a horizon of rows with such errors.
    """
    form, horizon = model.forms.adaptive, model.horizon
    if form is None:
        return None
    count = len(stops)
    errors = RowErrors(form.typical.repeat(1, count))  # a series after the other, as if they were columns
    for ago in range(SPAN, 0, -1):
        places = _ready(model, series, stops - ago * horizon)
        if not len(places):
            continue
        some = only(series, places)
        origins = (stops - ago * horizon - ids_of(series).offsets[:-1])[places] + ids_of(some).offsets[:-1]
        found, own = errors_of(some, origins)
        residuals = torch.full((count, horizon, len(model.targets)), torch.nan)
        spread = torch.ones(count, 1, len(model.targets))
        residuals[places], spread[places] = found, own
        row = torch.tensor([(SPAN - ago) * horizon])
        errors.add(row, *(part.transpose(0, 1).flatten(1)[None] for part in (residuals, spread)))
    size, known = errors.before(torch.tensor([SPAN * horizon]))
    _refuse_few(model, series, ~known.reshape(count, -1).all(1).numpy())
    return size.reshape(count, 1, -1)


def _ready(model: TrainedModel, series: Series, origins: np.ndarray) -> np.ndarray:
    """Return the places of the series that can be forecast from the rows `origins` (S,), after training.

    As in training, a forecast does not begin in a gap whose fill depends on the value after it.
    """
    inside = origins - ids_of(series).offsets[:-1] >= model.least_context
    rows = origins.clip(min=1)
    ready = inside & is_after_training(model, series)[rows]
    measured = series.observed_of(model.channels)
    if model.policies.reads_past_gaps and measured is not None:
        ready &= np.asarray(measured)[rows - 1].all(1)
    return np.flatnonzero(ready)


def _refuse_few(model: TrainedModel, series: Series, few: np.ndarray) -> None:
    if few.any():
        first, cause = ids_of(series).shown(int(np.argmax(few))), f"have fewer than {model.horizon} rows with earlier"
        cause += f" forecasts, after the training rows and their first {model.least_context} rows"
        count, cure = f"{int(few.sum()):,} of {len(few):,} series", "give more rows, or leave out adaptive"
        raise TooShort(f"adaptive: {count}, the first {first}, {cause}: {cure}", few, f"{cause} (adaptive)")
