"""Comparison of the exported file with the run, on the same windows."""

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
from forecast.data.series import Series
from forecast.data.settings import SYNTHETIC, DataSettings
from forecast.data.sources import lies_within, load_source
from forecast.model.original_units import Context, stack
from forecast.predict.forecaster import Forecaster, Model
from forecast.runs.resume import read_config
from forecast.runs.run import RESULT, Run

BOUND = 1e-4
"""Largest difference that a written file may have."""

_PIECE = 8


@torch.inference_mode()
def largest_difference(model: Model, exported: Model, windows: Context, scale: Tensor, batch: int | None) -> float:
    """Return the largest |exported - model| / `scale` over all steps, series and windows; NaN if any is NaN.

    Both models map the parts of `windows` to (B, h, C_out), original units. `scale` (C_out,) is the standard deviation
    of each target's training part. `batch` is the number of windows that `exported` takes; None: one is tried, then
    several.
    """
    differences = []
    for chosen in pieces(len(windows.past), batch):
        piece = windows.rows(chosen)
        differences.append(((exported(*piece) - model(*piece)).abs() / scale).max())
    return float(torch.stack(differences).max())


def pieces(count: int, batch: int | None) -> Iterator[slice]:
    """Yield the windows to compute together: `batch` of them, or one and then up to eight."""
    yield slice(0, batch or 1)
    for start in range(batch or 1, count, batch or _PIECE):
        yield slice(start, start + (batch or _PIECE))


SEED, RANDOM_WINDOWS, MOST_RANDOM = 0, 256, 2**15

FIRST, EARLY, LAST = datetime(2024, 1, 1), datetime(1700, 1, 1), datetime(2261, 1, 1)
"""First date of random rows, that for long steps, and the last possible date."""


def series_of(run: Run, forecaster: Forecaster, source: Path | None) -> tuple[Series, str]:
    """Return rows for the run's forecaster, and their origin as text.

    They come from the file `source`, else from the run's training data: the simulation, or the file if it lies in the
    data folder or in the run folder. Without either they are random.
    """
    if source is not None:
        return forecaster.read(source), str(source)
    try:
        path = read_json(run.path / RESULT)["data"]["path"]
        if path is not None and lies_within(Path(path), run.path):
            return forecaster.read(path), path
        data = DataSettings.parse(read_config(run.path)["data"])
        if data.source == SYNTHETIC:
            return load_source(data).series, "the simulation"
    except (OSError, LookupError, TypeError, ValueError):
        path = None
    why = f"{run.path} names no data that can be read here"
    if path is not None:
        why = f"the file of {run.path} is in neither data/ nor FORECAST_DATA_DIR: name it with --input to compare on it"
    return random_series(forecaster), f"random rows ({why})"


def random_series(forecaster: Forecaster) -> Series:
    """Return seeded normal rows with training's mean and deviation, a tenth of them filled where a run masks."""
    if (length := forecaster.context_length + forecaster.horizon) > MOST_RANDOM:
        raise InputError(f"windows of {length:,} steps are not compared on random rows: give rows with --input")
    dates = _dates(forecaster)
    rows = len(dates)
    generator = np.random.default_rng(SEED)
    shape = (rows, len(forecaster.columns))
    values = forecaster.scaler.mean + forecaster.scaler.scale * generator.standard_normal(shape)
    observed = generator.random(shape) > 0.1 if forecaster.policies.masks_past else None
    return Series(pd.DataFrame(values, dates, forecaster.columns), forecaster.frequency, observed=observed)


def _dates(forecaster: Forecaster) -> pd.DatetimeIndex:
    """Return the dates of the random rows: for long steps from an early date, within 64-bit time."""
    first = FIRST
    one, two = future_index(pd.Timestamp(first), forecaster.frequency, 2).to_pydatetime()
    step = two - one
    if step >= timedelta(days=7):
        first = EARLY
    most = int((LAST - first) / step) - forecaster.horizon - 1  # the first is up to a step later
    rows = min(forecaster.context_length + RANDOM_WINDOWS - 1, most)
    while True:
        try:
            return future_index(pd.Timestamp(first), forecaster.frequency, rows)
        except InputError:  # before version 3, pandas counts no 293 years in weeks
            if rows <= forecaster.context_length:
                raise
            rows = max(forecaster.context_length, rows // 2)


def windows_of(series: Series, forecaster: Forecaster, count: int) -> Context:
    """Return at most `count` windows, evenly spread, the one of the last rows included."""
    stops = np.unique(np.linspace(len(series.frame), forecaster.context_length, count).astype(int))
    return stack([forecaster.context(series, int(stop))[0] for stop in stops])
