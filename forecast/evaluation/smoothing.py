"""Exponential smoothing with an additive season and a trend, as linear maps of the look-back."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from forecast.data.windows import Windows
from forecast.evaluation.ridge import LinearMap

NAME = "exponential smoothing"

MAX_WINDOWS = 400
"""Maximum number of windows that choose the rates."""

Double = torch.float64


@dataclass(frozen=True)
class Rates:
    """Rates of the error correction of level, trend and season, each in [0, 1].

    `damping` multiplies the trend at each step; 0: no trend.
    """

    level: float
    trend: float = 0.0
    damping: float = 0.0
    season: float = 0.0


TRENDS = ((0.0, 0.0), (0.1, 0.95), (0.05, 1.0))
"""Rates and dampings of the trend: none, damped, linear."""

RATES = [Rates(level, *trend, season) for level, trend, season in product((0.05, 0.2, 0.5, 0.9), TRENDS, (0, 0.1, 0.3))]
"""Candidates with a season."""

PLAIN = [rates for rates in RATES if not rates.season]
"""Candidates without a season."""


def fit_smoothing(train: Windows, look_back: int, period: int) -> LinearMap:
    """Return the candidate whose forecasts of all horizon steps have the smallest squared error on `train`.

    All series share the rates, and each counts the same: its errors are relative to those of its best candidate.

    Parameters
    ----------
    train
        Windows; at most `MAX_WINDOWS` of them are scored.
    look_back
        Steps that the map reads, at most the context length.
    period
        Steps in a season; 1 for none.

    Returns
    -------
    LinearMap
        Weights (look_back, h).
    """
    windows = train.thinned(math.ceil(len(train) / MAX_WINDOWS))
    maps = list(smoothing_maps(look_back, train.horizon, period))
    errors = torch.zeros(len(maps), train.num_targets, dtype=Double, device=windows.device)
    for batch in windows.batches(MAX_WINDOWS):
        for place, candidate in enumerate(maps):
            error = candidate(batch) - batch.future
            if batch.future_observed is not None:
                error = torch.where(batch.future_observed, error, 0)
            errors[place] += error.double().square().sum((0, 1))
    scored = errors[:, errors.min(0).values > 0]
    return maps[int((scored / scored.min(0).values).mean(1).argmin())] if scored.numel() else maps[0]


def smoothing_maps(look_back: int, horizon: int, period: int) -> Iterator[LinearMap]:
    """Yield the candidates as maps (look_back, horizon), those with a season only if the look-back spans one."""
    cases: list[tuple[Sequence[Rates], int]] = [(PLAIN, 1)]
    if 1 < period <= look_back:
        cases.append((RATES, period))
    for rates, season in cases:
        for weight in smoothing_weights(rates, look_back, horizon, season):
            yield LinearMap(weight.float(), NAME)


def smoothing_weights(rates: Sequence[Rates], look_back: int, horizon: int, period: int) -> Iterator[Tensor]:
    """Yield the weights (look_back, horizon) of the forecast with each of `rates`, float64.

    Level, trend and season are linear in the look-back, and so the recursion runs on rows of an identity matrix. It
    starts from a line through the look-back and from the mean deviation of each phase of a season of `period` steps.

    References
    ----------
    Hyndman and Athanasopoulos, "Forecasting: Principles and Practice", 2021, section 8.3; the error correction form is
    that of section 8.5.
    """
    columns = zip(*((each.level, each.trend, each.damping, each.season) for each in rates), strict=True)
    level_rate, trend_rate, damping, season_rate = (torch.tensor(column, dtype=Double)[:, None] for column in columns)
    unit = torch.eye(look_back, dtype=Double)
    half = max(1, look_back // 2 // period * period or look_back // 2)
    slope = (unit[-half:].mean(0) - unit[:half].mean(0)) / max(1, look_back - half)
    trend = slope * (damping > 0)  # (R, T): the weights of each state
    level = unit.mean(0) - trend * (look_back + 1) / 2
    season = torch.zeros(period, len(rates), look_back, dtype=Double)
    if period > 1:
        steps = torch.arange(1, look_back + 1, dtype=Double)
        deviation = unit - level[:, None] - trend[:, None] * steps[:, None]  # (R, T, T): of each step from the line
        season = torch.stack([deviation[:, phase::period].mean(1) for phase in range(period)])
        season -= season.mean(0)
    for step in range(look_back):
        expected = level + damping * trend
        error = unit[step] - expected - season[step % period]
        level, trend = expected + level_rate * error, damping * trend + level_rate * trend_rate * error
        season[step % period] += season_rate * error
    ahead = torch.arange(horizon)
    for place in range(len(rates)):
        growth = (damping[place] ** (ahead + 1)).cumsum(0)
        yield level[place, :, None] + trend[place, :, None] * growth + season[(look_back + ahead) % period, place].T
