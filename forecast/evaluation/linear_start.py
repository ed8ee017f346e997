"""The start of the model's linear path: a naive forecast, unless ridge or smoothing is significantly better.

With little evidence it is a combination of all of them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from forecast.common.text import counted
from forecast.data.windows import Batch, Windows
from forecast.evaluation.combination import Members
from forecast.evaluation.evaluate import evaluate, spread_of
from forecast.evaluation.ridge import LinearMap, Ridge, fit_ridge, refit
from forecast.evaluation.series_maps import fit_series
from forecast.evaluation.significance import block_means, surely_below_zero
from forecast.evaluation.smoothing import fit_smoothing

MEAN, LAST, SEASON = "the window's mean", "the last value", "the seasonal naive forecast"

HALF_LIVES = (1, 2, 4)
"""Half-lives, in steps, of the candidates of exponential smoothing."""

ENOUGH = 16
"""Horizons that a validation split must span to be used alone.

With 8, the ridge was chosen for 7 of 60 random walks with 12 horizons of validation; with 16, for 1. On ETTh2 at 336,
with 8.6 horizons, it was not chosen although its validation error is 12 % lower.
"""

EARLY = 0.6
"""Fraction of the training windows that a map is fitted on; the rest score it."""

FEWEST = 3
"""Fewest blocks of windows for choosing the ridge. Fewer than for trained weights (`forecast.evaluation.significance`):
here a single map is compared with the start, not the best of many states, and it cannot adapt to validation.
"""


class Start(NamedTuple):
    """The start of the linear path.

    `held_out` are the combinations without each block of validation; empty if the start is none. `earlier` is the start
    fitted on early training windows, if validation is short.
    """

    map: LinearMap
    held_out: tuple[LinearMap, ...] = ()
    earlier: LinearMap | None = None


@dataclass(frozen=True)
class Earlier:
    """Maps fitted on early training windows, which forecast the late ones like new windows.

    `starts` (W,) are the first rows of the late windows, `offsets` those of the quantiles of `start`.
    """

    start: LinearMap
    ridge: LinearMap
    starts: Tensor
    offsets: Tensor | None = None

    def to(self, device: torch.device | str) -> "Earlier":
        """Return the maps on another device."""
        offsets = None if self.offsets is None else self.offsets.to(device)
        return Earlier(self.start.to(device), self.ridge.to(device), self.starts.to(device), offsets)

    def quantiles(self, batch: Batch) -> Tensor:
        """Return the forecast of `start` (B, h, C), or its quantiles (B, h, C, K) if it has offsets."""
        forecast = self.start(batch)
        if self.offsets is None:
            return forecast
        return forecast[..., None] + spread_of(batch)[..., None] * self.offsets.to(forecast)


@dataclass(frozen=True)
class LinearMaps:
    """The linear maps of a run: the ridge baseline (row *linear* of every result), and the start of the linear path.

    `start` is None if the model has no linear path that starts from a map. `offsets` (h, C, K) are the quantiles of its
    training residuals, relative to the spread of each window; None for a point forecast. `held_out` are the starts that
    were chosen without each block of validation windows, if validation chose the weights of a combination. `earlier` is
    there if validation is short.
    """

    baseline: Ridge
    start: LinearMap | None
    offsets: Tensor | None = None
    held_out: tuple[LinearMap, ...] = ()
    earlier: Earlier | None = None

    def to(self, device: torch.device | str) -> "LinearMaps":
        """Return the maps on another device."""
        start = None if self.start is None else self.start.to(device)
        offsets = None if self.offsets is None else self.offsets.to(device)
        held_out = tuple(one.to(device) for one in self.held_out)
        earlier = None if self.earlier is None else self.earlier.to(device)
        return LinearMaps(self.baseline.to(device), start, offsets, held_out, earlier)


@dataclass(frozen=True)
class _Trial:
    """Windows to score, and maps fitted on windows that share no target with them.

    `fitted` are the ridge and, if each series may have a map, those maps.
    """

    windows: Windows
    fitted: list[LinearMap]


def fit_maps(
    train: Windows,
    validation: Windows,
    *,
    starts: bool,
    period: int,
    confidence: float | None,
    batch_size: int,
    quantiles: Sequence[float] = (),
    each_series: bool = False,
    done: Callable[[], None] = lambda: None,
) -> LinearMaps:
    """Fit the baseline and, if a linear path `starts` from a map, choose that map (`choose_start`).

    `quantiles` are the levels whose offsets are fitted too. `each_series` adds a map of each series to the candidates.
    `done` is called after each penalty of a baseline with known inputs.
    """
    ridge = fit_ridge(train, validation, done)
    if not starts:
        return LinearMaps(ridge, None)
    chosen = choose_start(
        ridge,
        train,
        validation,
        period=period,
        confidence=confidence,
        batch_size=batch_size,
        each_series=each_series,
    )
    offsets = fit_offsets(chosen.map, train, quantiles, batch_size) if quantiles else None
    earlier = None
    if chosen.earlier is not None:
        early, late = split_in_time(train, ridge.every)
        own = fit_offsets(chosen.earlier, early, quantiles, batch_size) if quantiles else None
        earlier = Earlier(chosen.earlier, refit(early, ridge), late.starts, own)
    return LinearMaps(ridge, chosen.map, offsets, chosen.held_out, earlier)


MAX_WINDOWS = 2000
"""Maximum number of training windows for the offsets of quantiles."""


def fit_offsets(linear_map: LinearMap, train: Windows, levels: Sequence[float], batch_size: int) -> Tensor:
    """Return the quantiles (h, C, K) of a map's residuals on training windows, relative to the spread of each window.

    A step and series without a measured target gets the offset 0.
    """
    scored = evaluate(linear_map, train.thinned(math.ceil(len(train) / MAX_WINDOWS)), batch_size, keep_residuals=True)
    assert scored.residuals is not None
    assert scored.spread is not None
    scaled = torch.from_numpy(scored.residuals[..., 0] / scored.spread)  # (W, h, C)
    offsets = scaled.nanquantile(torch.tensor(levels, dtype=scaled.dtype), dim=0)  # sorts once for all levels
    return offsets.movedim(0, -1).nan_to_num()


def naive_maps(look_back: int, horizon: int, period: int) -> list[LinearMap]:
    """Return the naive forecasts as maps (look_back, horizon), the seasonal one if the look-back spans a season."""
    mean = torch.zeros(look_back, horizon)
    last = mean.clone()
    last[-1] = 1
    maps = [LinearMap(mean, MEAN), LinearMap(last, LAST)]
    if 1 < period <= look_back:
        step, season = torch.arange(horizon), mean.clone()
        season[look_back - period + step % period, step] = 1
        maps.append(LinearMap(season, SEASON))
    return maps


def half_life_maps(look_back: int, horizon: int) -> list[LinearMap]:
    """Return simple exponential smoothing as maps (look_back, horizon), if the look-back spans four half-lives.

    Source: Hyndman and Athanasopoulos, "Forecasting: Principles and Practice", 2021, section 8.1.
    """
    age = torch.arange(look_back - 1, -1, -1, dtype=torch.float32)
    weights = {life: torch.softmax(-math.log(2) / life * age, 0) for life in HALF_LIVES if 4 * life <= look_back}
    return [
        LinearMap(weight[:, None].repeat(1, horizon), f"exponential smoothing, half-life {counted(life, 'step')}")
        for life, weight in weights.items()
    ]


def choose_start(
    ridge: Ridge,
    train: Windows,
    validation: Windows,
    *,
    period: int,
    confidence: float | None,
    batch_size: int = 256,
    each_series: bool = False,
) -> Start:
    """Return the start of the linear path: the best naive forecast, or a challenger if that is significantly better.

    The challengers are `ridge`, simple exponential smoothing and, with `each_series`, a map of each series. All are
    scored on `validation`. If that is shorter than `ENOUGH` horizons, the last windows of `train` are added and score
    maps fitted on earlier targets: on a short split, above all of a random walk, a map may fit by chance. If no
    challenger is significantly better then, the start is a combination of naive forecasts, ridge and exponential
    smoothing, unless one of them is significantly better on validation.

    Parameters
    ----------
    ridge
        Fitted on `train`.
    period
        Steps in a season; 1 for none.
    confidence
        Confidence level, 0.5 to 1, that the challenger is better, from the means of blocks of windows. Its score must
        be better too. Neighbouring blocks share targets, so the error rate is slightly too high: 12 of 100 at 0.9, for
        moving averages as long as the overlap. With None, a better score is enough, and nothing is combined.
    batch_size
        Windows per batch.
    each_series
        Whether a map of each series is a challenger (`forecast.evaluation.series_maps`).
    """

    def fitted(windows: Windows, shared: Ridge) -> list[LinearMap]:
        own = each_series and train.num_targets > 1
        return [shared, *([fit_series(windows, validation, shared)] if own else [])]

    trials = [_Trial(validation, fitted(train, ridge))]
    span = int(validation.starts[-1] - validation.starts[0]) + validation.horizon
    is_short = span < ENOUGH * validation.horizon
    early, late = split_in_time(train, ridge.every)
    if is_short and len(early):
        trials.append(_Trial(late, fitted(early, refit(early, ridge))))
    naive, smoothing = (
        naive_maps(ridge.look_back, train.horizon, period),
        half_life_maps(ridge.look_back, train.horizon),
    )
    starts = [Start(one) for one in (*trials[0].fitted, *smoothing, *naive)]
    if len(trials) > 1:
        earlier = [*trials[1].fitted, *smoothing, *naive]
        starts = [Start(start.map, (), one) for start, one in zip(starts, earlier, strict=True)]
    errors = [_errors(trial, [*smoothing, *naive], batch_size) for trial in trials]
    scores = torch.cat(errors, 1).nanmean(1).tolist()
    first = len(starts) - len(naive)
    best, challenger = (min(places, key=scores.__getitem__) for places in (range(first, len(starts)), range(first)))
    is_better = scores[challenger] < scores[best]
    if confidence is None:
        return starts[challenger if is_better else best]
    if is_better:
        gains = [mse[challenger] - mse[best] for mse in errors]
        if _surely_negative(gains, [trial.windows for trial in trials], confidence):
            return starts[challenger]
    if not is_short:
        return starts[best]

    def members(windows: Windows, trial: _Trial) -> list[LinearMap]:
        return [*trial.fitted, fit_smoothing(windows, ridge.look_back, period), *naive]

    own = members(train, trials[0])
    split = len(early) > 0
    before = members(early, trials[1]) if split else own
    pool = Members.of(own, before, late if split else train, validation, split=split)
    combined = pool.combined()
    mse = _errors(_Trial(validation, []), [combined, *own], batch_size)
    alone = int(mse[1:].nanmean(1).argmin())
    if _surely_negative([mse[1 + alone] - mse[0]], [validation], confidence):
        return Start(own[alone], (), before[alone] if split else None)
    return Start(combined, pool.held_out(), pool.without_late() if split else None)


def _surely_negative(differences: Sequence[Tensor], windows: Sequence[Windows], confidence: float) -> bool:
    """Return whether the mean difference of each window's errors (W,), in several splits, is surely below 0."""
    means = [
        block_means(difference, split.overlap, FEWEST, lengthen=False)
        for difference, split in zip(differences, windows, strict=True)
    ]
    return surely_below_zero(torch.cat(means), confidence, FEWEST) is True


def _errors(trial: _Trial, others: list[LinearMap], batch_size: int) -> Tensor:
    """Return each window's MSE of the fitted maps and the `others`, shape (maps, windows), NaN without a target."""
    scores = [evaluate(linear_map, trial.windows, batch_size).mse for linear_map in (*trial.fitted, *others)]
    return torch.stack([torch.from_numpy(mse) for mse in scores])


def split_in_time(train: Windows, every: int) -> tuple[Windows, Windows]:
    """Split one of every `every` neighbouring training windows into an early and a late set that share no target."""
    thinned, first = train.thinned(every), int(train.starts[int(EARLY * len(train))])
    masks = (thinned.starts <= first - train.horizon, thinned.starts >= first)
    early, late = (replace(thinned, starts=thinned.starts[mask]) for mask in masks)
    return early, late
