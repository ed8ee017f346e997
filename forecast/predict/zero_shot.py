"""A forecast without training: the pretrained network on a table that it has not seen."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch

from forecast.common.errors import InputError
from forecast.common.finite import check_forecast
from forecast.common.text import counted
from forecast.data.calendar import future_index, seasonal_period
from forecast.data.lengths import Lengths, choose_lengths
from forecast.data.scaler import Scaler
from forecast.data.split import split_rows
from forecast.evaluation.intervals import Calibration
from forecast.evaluation.limits import Limits
from forecast.overview.understanding import Understanding, understand, words_of
from forecast.predict.answer import seasonal_naive
from forecast.predict.forecast import Forecast, PanelForecast, Question
from forecast.pretrained.mixture import EVERY, Mixture, Table, choose
from forecast.pretrained.weights import Pretrained, open_pretrained
from forecast.tables.files import Upload
from forecast.tables.formats.frames import as_frame
from forecast.tables.series import Series

LONGER = 7
"""A season may also be this many of the usual ones: a week of days."""

FEWEST_ROWS = 3
"""Fewest rows of a table, or of a series of a long one."""

MOST_STEPS = 10_000
"""Largest horizon."""

DEFAULT_SPLIT = {"train": 0.7, "validation": 0.1, "test": 0.2}


@dataclass(frozen=True)
class ZeroShot:
    """A forecast without training.

    Attributes
    ----------
    series
        The table, as it was read.
    forecast
        The steps after it, or after each series of a long table.
    mixture
        What the forecast consists of.
    horizon
        Number of steps.
    pretrained
        The network and its card.
    """

    series: Series
    forecast: Forecast | PanelForecast
    mixture: Mixture = field(repr=False)
    horizon: int
    pretrained: Pretrained = field(repr=False)
    decimals: dict[str, int] = field(repr=False)

    def table(self) -> pd.DataFrame:
        """Return the forecast as `predict` of a trained model does; ids and times of a long table are columns."""
        if isinstance(self.forecast, PanelForecast):
            return self.forecast.table(self.decimals, naive=False)
        return self.forecast.wide()

    @property
    def words(self) -> str:
        """What the forecast consists of, in a line."""
        if not self.mixture.origins:
            return "pretrained network alone: the table is too short to compare it with other forecasts"
        return f"{self.mixture.words}, chosen on {counted(self.mixture.origins, 'earlier forecast')} of this table"


def zero_shot(
    frame: Any,
    horizon: int | None = None,
    *,
    levels: Sequence[float] = (),
    quantile: float | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Forecast the steps after a table without a training on it.

    Parameters
    ----------
    frame
        Table with a column of times, as for `fit`: each column of numbers is forecast from its own past. A long table
        needs `id_columns`, such as `id_columns=["store"]`.
    horizon
        Number of steps; None: follows from the table, as in a training.
    levels, quantile
        As in `Forecaster.predict`; levels up to 95.
    options
        Options of the `data` group, such as `missing="ffill"`.

    Returns
    -------
    pandas.DataFrame
        As `Forecaster.predict` of a trained model returns it, original units. `attrs["notes"]` says what was found in
        the table, and what the forecast consists of.

    Raises
    ------
    InputError
        If the table cannot be read without a decision, has no column of numbers, or has too few rows.
    """
    seen = understand(Upload("the table", as_frame(frame).reset_index(drop=True)), words_of(options))
    found = forecast_without_training(seen, horizon, Question(tuple(levels), quantile))
    table = found.table()
    table.attrs = {"notes": [*found.series.notes, found.words]}
    return table


def forecast_without_training(seen: Understanding, horizon: int | None, question: Question) -> ZeroShot:
    """Return the forecast after a table that was read; raise InputError if it is too short or has no numbers."""
    series, pretrained = seen.series, open_pretrained()
    targets, horizon = targets_of(series), horizon_of(series, horizon)
    values, names = _columns(series, targets)
    if len(values) < FEWEST_ROWS:
        raise InputError(f"the table has {counted(len(values), 'row')}: a forecast needs at least {FEWEST_ROWS}")
    quantiles, mixture = forecast_columns(values, series.frequency, horizon, question)
    mean, scale = _scale(values)
    decimals = Scaler(mean, scale, names).decimals(names)
    assembled, places = _assembled(series, targets, horizon, quantiles, question, decimals)
    return ZeroShot(series, assembled, mixture, horizon, pretrained, places)


def forecast_columns(
    values: np.ndarray,
    frequency: str,
    horizon: int,
    question: Question,
    pretrained: Pretrained | None = None,
    *,
    mixes: bool = True,
) -> tuple[np.ndarray, Mixture]:
    """Return the forecast of the steps after columns (N, C), NaN where not measured, and what it consists of.

    The forecast has the shape (h, C, 1 + Q): the value that the question asks for, then its quantiles. If nothing
    `mixes`, it is that of the network alone.
    """
    pretrained = open_pretrained() if pretrained is None else pretrained
    mean, scale = _scale(values)
    observed = torch.from_numpy(np.isfinite(values))
    scaled = torch.from_numpy(np.nan_to_num((values - mean) / scale)).to(torch.float32)
    table = Table(scaled, observed, _periods(frequency, len(values)))
    calibration = Calibration.unchanged(pretrained.network.levels, horizon, values.shape[1])
    calibration.check_intervals(question.levels)
    calibration.check(question.quantiles)
    length = pretrained.architecture.sizes.context_length
    with torch.inference_mode():
        alone = Mixture.of_network(pretrained.network, horizon, length)
        mixture = choose(pretrained.network, table, horizon, length) if mixes else alone
        found = mixture.quantiles(*table.windows([len(values)], EVERY * length)).double()
    found = found * torch.from_numpy(scale)[:, None] + torch.from_numpy(mean)[:, None]
    limits = Limits.fit(values, seasonal_period(frequency), np.isfinite(values))
    found = found.clamp(limits.lower[:, None], limits.upper[:, None])
    wanted = [0.5 if question.quantile is None else question.quantile, *question.quantiles]
    spread = torch.ones(1, 1, values.shape[1], dtype=torch.float64)
    return calibration.quantiles(found, spread, wanted)[0].numpy(), mixture


def targets_of(series: Series) -> list[str]:
    """Return the columns to forecast; raise InputError if none has numbers."""
    targets = [str(name) for name in series.frame.columns if name not in series.labels]
    if not targets:
        raise InputError("the table has no column of numbers to forecast: name one with data.targets")
    return targets


def horizon_of(series: Series, horizon: int | None) -> int:
    """Return a number of steps, that of a training if there is none; raise InputError if it is out of range.

    A table that is too short for a training has one step.
    """
    if horizon is None:
        with suppress(InputError):
            split = split_rows(series.num_steps, **DEFAULT_SPLIT, unit=series.unit)
            horizon = choose_lengths(Lengths(), series.frequency, split).horizon
        return horizon or 1
    if not 1 <= horizon <= MOST_STEPS:
        raise InputError(f"horizon {horizon}: must be at least 1 and at most {MOST_STEPS:,}")
    return horizon


def _periods(frequency: str, rows: int) -> tuple[int, ...]:
    """Return the seasons of the naive forecasts, in steps; 1 is the last value."""
    usual = seasonal_period(frequency)
    return tuple(period for period in dict.fromkeys((1, usual, LONGER * usual)) if period == 1 or 2 * period <= rows)


def _columns(series: Series, targets: list[str]) -> tuple[np.ndarray, list[str]]:
    """Return the values (N, C), NaN where not measured, of each column of each series; all end with the last row."""
    measured = series.measured[targets].to_numpy(np.float64)
    if series.ids is None:
        return measured, targets
    ids = series.ids
    longest = int(ids.lengths.max())
    values = np.full((longest, len(ids), len(targets)), np.nan)
    for place, (first, stop) in enumerate(zip(ids.offsets[:-1], ids.offsets[1:], strict=True)):
        values[longest - (stop - first) :, place] = measured[first:stop]
    return values.reshape(longest, -1), [f"{place} {name}" for place in range(len(ids)) for name in targets]


def _scale(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of each column (C,); 1 for a deviation of 0, and 0 for a mean of nothing."""
    seen = np.isfinite(values)
    count = np.maximum(seen.sum(0), 1)
    mean = np.where(seen, values, 0).sum(0) / count
    deviation = np.sqrt((np.where(seen, values - mean, 0) ** 2).sum(0) / count)
    return mean, np.where(deviation > 1e-12 * np.abs(mean), deviation, 1.0)


def _assembled(
    series: Series,
    targets: list[str],
    horizon: int,
    quantiles: np.ndarray,
    question: Question,
    decimals: dict[str, int],
) -> tuple[Forecast | PanelForecast, dict[str, int]]:
    """Return the forecast of values (h, C, 1 + Q), and the decimals of each target."""
    if series.ids is None:
        dates = future_index(pd.DatetimeIndex(series.frame.index), series.frequency, horizon)
        dates = dates.rename(str(series.frame.index.name))
        frames = [pd.DataFrame(part, index=dates, columns=targets) for part in np.moveaxis(quantiles, -1, 0)]
        for frame in frames:
            check_forecast(frame.to_numpy(), dates, targets)
        ends = {level: (frames[1 + 2 * k], frames[2 + 2 * k]) for k, level in enumerate(question.levels)}
        return Forecast(frames[0], ends), decimals
    ids = series.ids
    several = quantiles.reshape(horizon, len(ids), len(targets), -1).transpose(3, 1, 0, 2)  # (1 + Q, S, h, C)
    index = pd.DatetimeIndex(series.frame.index)
    ends_of = [index[first:stop] for first, stop in zip(ids.offsets[:-1], ids.offsets[1:], strict=True)]
    dates_of = [future_index(own, series.frequency, horizon) for own in ends_of]
    naive = seasonal_naive(series, ids.offsets[1:], targets, seasonal_period(series.frequency), horizon)
    found = PanelForecast(
        ids,
        dates_of,
        several[0],
        naive,
        targets,
        str(index.name),
        {level: (several[1 + 2 * k], several[2 + 2 * k]) for k, level in enumerate(question.levels)},
    )
    fewest = {name: min(decimals[f"{place} {name}"] for place in range(len(ids))) for name in targets}
    return found, fewest
