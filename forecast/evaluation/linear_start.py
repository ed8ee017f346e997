"""Where the model's linear path starts: a naive forecast, unless a linear map fitted to the data surely beats it."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from forecast.data.windows import Windows
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.ridge import LinearMap, Ridge, fit_ridge, refit
from forecast.evaluation.significance import block_means, surely_below_zero

MEAN, LAST, SEASON = "the window's mean", "the last value", "the last season"

ENOUGH = 8
"""Horizons in a row that a validation part has to hold to be enough by itself."""

EARLY = 0.6
"""Part of the training windows on which a map is fitted that the rest of them score."""

FEWEST = 3
"""Blocks of windows below which the ridge is not taken. Fewer than for trained weights
(`forecast.evaluation.significance`): there the best of many states is held against the start, here one map, and it has
no means of following the validation part."""


@dataclass(frozen=True)
class LinearMaps:
    """The linear maps of a run.

    Parameters
    ----------
    baseline
        Ridge regression: the row *linear* of every result.
    start
        Where the model's linear path starts; None if nothing starts from a map.
    """

    baseline: Ridge
    start: LinearMap | None

    def to(self, device: torch.device | str) -> "LinearMaps":
        """Return the same maps on another device."""
        start = None if self.start is None else self.start.to(device)
        return LinearMaps(self.baseline.to(device), start)


@dataclass(frozen=True)
class _Trial:
    """Windows to score on, `every` rows apart, and the ridge fitted on windows that share no target with them."""

    windows: Windows
    ridge: Ridge
    every: int

    @property
    def overlap(self) -> int:
        """Windows in a row that share targets with the first of them."""
        return math.ceil(self.windows.horizon / self.every)


def fit_maps(
    train: Windows,
    validation: Windows,
    *,
    starts: bool,
    period: int,
    confidence: float | None,
    stride: int,
    batch_size: int,
) -> LinearMaps:
    """Fit the baseline, and where a linear path `starts` from a map, choose that (`choose_start`)."""
    ridge = fit_ridge(train, validation)
    if not starts:
        return LinearMaps(ridge, None)
    start = choose_start(
        ridge, train, validation, period=period, confidence=confidence, stride=stride, batch_size=batch_size
    )
    return LinearMaps(ridge, start)


def naive_maps(look_back: int, horizon: int, period: int) -> list[LinearMap]:
    """Return the naive forecasts as maps (look_back, horizon), a season's where the look-back holds one."""
    mean = torch.zeros(look_back, horizon)
    last = mean.clone()
    last[-1] = 1
    maps = [LinearMap(mean, MEAN), LinearMap(last, LAST)]
    if 1 < period <= look_back:
        step, season = torch.arange(horizon), mean.clone()
        season[look_back - period + step % period, step] = 1
        maps.append(LinearMap(season, SEASON))
    return maps


def choose_start(
    ridge: Ridge,
    train: Windows,
    validation: Windows,
    *,
    period: int,
    confidence: float | None,
    stride: int = 1,
    batch_size: int = 256,
) -> LinearMap:
    """Return the map that the linear path starts from: the best naive forecast, or `ridge` where that is surely better.

    All are scored on `validation`. In a part shorter than `ENOUGH` horizons something fits by chance, on a random
    walk above all: there the last windows of `train` are added, which score a map that is fitted on those whose
    targets come before.

    Parameters
    ----------
    ridge
        Fitted on `train`.
    train, validation
        Windows of the two parts.
    period
        Steps in a season; 1: there is none.
    confidence
        Between 0.5 and 1: how sure the ridge has to be the better one, beside having the better score. By the means
        of blocks of windows; neighbouring blocks share targets, so it is claimed somewhat too often (14 of 100 times
        at 0.9, of moving averages as long as the overlap). None: the better score will do.
    stride
        Rows from one window of `validation` to the next.
    batch_size
        Windows scored at a time.
    """
    trials = [_Trial(validation, ridge, stride)]
    if int(validation.starts[-1] - validation.starts[0]) + validation.horizon < ENOUGH * validation.horizon:
        trials += _within(train, ridge)
    naive = naive_maps(ridge.look_back, train.horizon, period)
    errors = [_errors(trial, naive, batch_size) for trial in trials]
    own, *others = torch.cat(errors, 1).nanmean(1).tolist()
    best = others.index(min(others))
    if not own < others[best]:
        return naive[best]
    if confidence is None:
        return ridge
    blocks = [block_means(error[0] - error[1 + best], each.overlap) for error, each in zip(errors, trials, strict=True)]
    return ridge if surely_below_zero(torch.cat(blocks), confidence, FEWEST) else naive[best]


def _errors(trial: _Trial, naive: list[LinearMap], batch_size: int) -> Tensor:
    """Return the windows' MSE of the ridge and of each naive map, shape (1 + maps, windows), NaN without a target."""
    scored = [evaluate(each, trial.windows, batch_size).mse for each in (trial.ridge, *naive)]
    return torch.stack([torch.from_numpy(mse) for mse in scored])


def _within(train: Windows, ridge: Ridge) -> list[_Trial]:
    """Return the trial of the last windows of the training part, none where there are no windows before them."""
    early, late = in_turn(train, ridge.every)
    return [_Trial(late, refit(early, ridge), ridge.every)] if len(early) else []


def in_turn(train: Windows, every: int) -> tuple[Windows, Windows]:
    """Return of every so manieth window the first ones and the last, without those in between that share targets."""
    thinned, first = train.every(every), int(train.starts[int(EARLY * len(train))])
    masks = (thinned.starts <= first - train.horizon, thinned.starts >= first)
    early, late = (replace(thinned, starts=thinned.starts[mask]) for mask in masks)
    return early, late
