"""Compare an exported file with its run on the same windows."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.common.files import read_json
from forecast.data.calendar import future_index
from forecast.data.settings import FILE, DataSettings
from forecast.data.sources import lies_within, load_source
from forecast.evaluation.intervals import middle
from forecast.model.original_units import Context, stack
from forecast.predict.contexts import Model
from forecast.predict.forecaster import Forecaster
from forecast.predict.input import ids_of
from forecast.predict.panel import PanelForecaster
from forecast.runs.resume import read_config
from forecast.runs.run import RESULT, Run
from forecast.tables.series import Series, only

BOUND = 1e-4
"""Largest accepted difference, in standard deviations of the training split."""

_CHUNK = 8


@torch.inference_mode()
def largest_difference(model: Model, exported: Model, windows: Context, scale: Tensor, batch: int | None) -> float:
    """Return the largest |exported - model| / `scale` over all steps, series and windows; NaN if any is NaN.

    Both models map the fields of `windows` to (B, h, C_out). `scale` (C_out,) is the standard deviation of each target
    on the training split, in the unit of the forecasts; of z-scores it is 1. `batch` is the batch size of `exported`;
    None: try 1, then more.
    """
    differences = []
    for rows in slices(len(windows.past), batch):
        chunk = windows.rows(rows)
        differences.append(difference_of(exported(*chunk), model(*chunk), scale))
    return float(torch.stack(differences).max())


def difference_of(forecast: Tensor, reference: Tensor, scale: Tensor) -> Tensor:
    """Return the largest |forecast - reference| / `scale`, of all quantiles if both have them, else of their medians.

    A forecast is (B, h, C_out) or, as quantiles, (B, h, C_out, K).
    """
    if forecast.dim() != reference.dim():
        forecast, reference = middle(forecast), middle(reference)
    return ((forecast - reference).abs() / (scale if reference.dim() == 3 else scale[:, None])).max()


def slices(count: int, batch: int | None) -> Iterator[slice]:
    """Yield slices of `count` windows: of size `batch`, or if it is None one of size 1 and then of up to 8."""
    yield slice(0, batch or 1)
    for start in range(batch or 1, count, batch or _CHUNK):
        yield slice(start, start + (batch or _CHUNK))


SEED, RANDOM_WINDOWS, MOST_RANDOM = 0, 256, 2**15

FIRST, EARLY, LAST = datetime(2024, 1, 1), datetime(1700, 1, 1), datetime(2261, 1, 1)
"""First date of random rows, first date for long steps, and latest possible date."""


def compared(
    run: Run, forecaster: Forecaster | PanelForecaster, source: Path | None, count: int
) -> tuple[Context, Tensor, str]:
    """Return at most `count` windows to compare on, the unit of each target (C_out,), and their origin as text."""
    series, origin = series_of(run, forecaster, source)
    if isinstance(forecaster, PanelForecaster):
        return windows_of_panel(series, forecaster, count), torch.ones(len(forecaster.targets)), origin
    return windows_of(series, forecaster, count), forecaster.target_scale, origin


def series_of(run: Run, forecaster: Forecaster | PanelForecaster, source: Path | None) -> tuple[Series, str]:
    """Return a series or a panel to compare on, and its origin as text.

    It is read from the file `source`, or from the data of the run: the simulation, or its file if that is in a data
    folder or in the run folder. Otherwise a series is random, and a panel refused.
    """
    read = (forecaster.dropping_short if isinstance(forecaster, PanelForecaster) else forecaster).read
    if source is not None:
        series = read(source)
        left_out = () if series.ids is None else series.ids.left_out
        return series, f"{source}{''.join(f' ({line})' for line in left_out)}"
    try:
        path = read_json(run.path / RESULT)["data"]["path"]
        if path is not None and lies_within(Path(path), run.path):
            return read(path), path
        data = DataSettings.parse(read_config(run.path)["data"])
        if data.source != FILE:
            return load_source(data).series, "the simulation"
    except (OSError, LookupError, TypeError, ValueError):
        path = None
    reason = f"{run.path} names no readable data: use --input to compare on a table"
    if path is not None:
        reason = f"the file of {run.path} is not in data/ or FORECAST_DATA_DIR: use --input to compare on it"
    if isinstance(forecaster, PanelForecaster):
        raise InputError(f"no rows of many series to compare on: {reason}")
    return random_series(forecaster), f"random rows, since {reason}"


def random_series(forecaster: Forecaster) -> Series:
    """Return seeded normal rows with the mean and scale of training; 10 % are unobserved if the run masks gaps."""
    if (length := forecaster.context_length + forecaster.horizon) > MOST_RANDOM:
        raise InputError(f"windows of {length:,} steps are too long for random rows: give rows with --input")
    dates = _dates(forecaster)
    rows = len(dates)
    generator, contract = np.random.default_rng(SEED), forecaster.contract
    shape = (rows, len(forecaster.channels))
    values = contract.scaler.mean + contract.scaler.scale * generator.standard_normal(shape)
    observed = generator.random(shape) > 0.1 if contract.policies.masks_past else None
    frame = pd.DataFrame(values, contract.clock.localized(dates), forecaster.channels)
    encoder = contract.encoder
    numbers = encoder.mean + np.asarray(encoder.scale) * generator.standard_normal((rows, len(encoder.numbers)))
    frame[encoder.numbers] = numbers
    labels = {name: tuple(seen) for name, seen in (encoder.categories | encoder.past_categories).items()}
    for name, seen in labels.items():
        frame[name] = generator.integers(0, len(seen), rows).astype(np.float64)
    if observed is not None:
        observed = np.pad(observed, ((0, 0), (0, frame.shape[1] - shape[1])), constant_values=True)
    return Series(frame, forecaster.frequency, observed=observed, labels=labels)


def _dates(forecaster: Forecaster) -> pd.DatetimeIndex:
    """Return the dates of random rows; long steps start early, to stay within 64-bit time."""
    first = FIRST
    one, two = future_index(pd.Timestamp(first), forecaster.frequency, 2).to_pydatetime()
    step = two - one
    if step >= timedelta(days=7):
        first = EARLY
    limit = int((LAST - first) / step) - forecaster.horizon - 1  # the first date may be one step later
    ahead = forecaster.horizon if forecaster.contract.known else 0
    rows = min(forecaster.context_length + ahead + RANDOM_WINDOWS - 1, limit)
    while True:
        try:
            return future_index(pd.Timestamp(first), forecaster.frequency, rows)
        except InputError:  # pandas before version 3 fails for 293 years of weeks
            if rows <= forecaster.context_length:
                raise
            rows = max(forecaster.context_length, rows // 2)


def windows_of(series: Series, forecaster: Forecaster, count: int) -> Context:
    """Return at most `count` evenly spaced windows, including the last whose known covariates are in the series."""
    last = len(series.frame) - (forecaster.horizon if forecaster.contract.known else 0)
    if last < forecaster.context_length:
        raise InputError(
            f"a comparison needs {forecaster.context_length} rows and {forecaster.horizon} more with known covariates, "
            f"there are {len(series.frame)}: give more rows with --input"
        )
    stops = np.unique(np.linspace(last, forecaster.context_length, count).astype(int))
    return stack([forecaster.context(series, int(stop))[0] for stop in stops])


def windows_of_panel(series: Series, forecaster: PanelForecaster, count: int) -> Context:
    """Return at most `count` windows of evenly spaced series, z-scores: the first of each, and the last."""
    ids, known = ids_of(series), forecaster.horizon if forecaster.contract.known else 0
    last = ids.lengths - known
    enough = np.flatnonzero(last >= forecaster.least_context)
    if not len(enough):
        raise InputError(
            f"a comparison needs a series of {forecaster.least_context + known} rows, the longest has "
            f"{ids.lengths.max()}: give more rows with --input"
        )
    places = enough[np.unique(np.linspace(0, len(enough) - 1, count // 2).astype(int))]
    some = only(series, places)
    rows = np.full(len(places), forecaster.least_context), last[places]
    return stack([forecaster.windows_at(some, ids_of(some).offsets[:-1] + each) for each in rows])
