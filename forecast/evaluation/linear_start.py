"""The start of the model's linear path: a naive forecast, unless a fitted linear map is significantly better."""

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
"""Horizons that a validation part must hold to suffice on its own."""

EARLY = 0.6
"""Share of the training windows on which a map is fitted; the rest score it."""

FEWEST = 3
"""Fewest blocks of windows for taking the ridge. Fewer than for trained weights (`forecast.evaluation.significance`):
one map is compared with the start here, not the best of many states, and it cannot follow the validation part.
"""


@dataclass(frozen=True)
class LinearMaps:
    """The linear maps of a run: ridge as the baseline (row *linear* of every result), and the linear path's start.

    `start` is None if nothing starts from a map.
    """

    baseline: Ridge
    start: LinearMap | None

    def to(self, device: torch.device | str) -> "LinearMaps":
        """Return the maps on another device."""
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
        """Number of consecutive windows that share targets with the first of them."""
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
    """Fit the baseline and, if a linear path `starts` from a map, choose that (`choose_start`)."""
    ridge = fit_ridge(train, validation)
    if not starts:
        return LinearMaps(ridge, None)
    start = choose_start(
        ridge, train, validation, period=period, confidence=confidence, stride=stride, batch_size=batch_size
    )
    return LinearMaps(ridge, start)


def naive_maps(look_back: int, horizon: int, period: int) -> list[LinearMap]:
    """Return the naive forecasts as maps (look_back, horizon), the seasonal one if the look-back holds a season."""
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
    """Return the best naive forecast, or `ridge` where that is significantly better: the start of the linear path.

    All are scored on `validation`. In a part shorter than `ENOUGH` horizons, above all on a random walk, a map may fit
    by chance. There the last windows of `train` are added, which score a map fitted on those whose targets come before.

    Parameters
    ----------
    ridge
        Fitted on `train`.
    period
        Steps in a season; 1: there is none.
    confidence
        Confidence level, 0.5 to 1, that the ridge is better, by means of blocks of windows; its score must be better
        too. Neighbouring blocks share targets, so it is claimed slightly too often: 14 of 100 times at 0.9, for
        moving averages as long as the overlap. None: a better score is enough.
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
    """Return the trial on the last training windows, none if there are no windows before them."""
    early, late = in_turn(train, ridge.every)
    return [_Trial(late, refit(early, ridge), ridge.every)] if len(early) else []


def in_turn(train: Windows, every: int) -> tuple[Windows, Windows]:
    """Return the first and the last of every n-th window, without those in between that share targets."""
    thinned, first = train.every(every), int(train.starts[int(EARLY * len(train))])
    masks = (thinned.starts <= first - train.horizon, thinned.starts >= first)
    early, late = (replace(thinned, starts=thinned.starts[mask]) for mask in masks)
    return early, late
