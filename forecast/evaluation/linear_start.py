"""The start of the model's linear path: a naive forecast, unless ridge or smoothing is significantly better.

With little evidence it is a combination of all of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from forecast.common.text import counted
from forecast.data.windows import Windows
from forecast.evaluation.combination import Members
from forecast.evaluation.evaluate import evaluate, in_parts
from forecast.evaluation.metrics import ErrorSums
from forecast.evaluation.ridge import FIT_OPERATIONS, LinearMap, Ridge, fit_and_score, refit
from forecast.evaluation.significance import block_means, surely_below_zero
from forecast.evaluation.smoothing import fit_smoothing
from forecast.model.linear_path import extended

MEAN, LAST, SEASON = "the window's mean", "the last value", "the seasonal naive forecast"
OWN = "a ridge of each series"

HALF_LIVES = (1, 2, 4)
"""Half-lives, in steps, of the candidates of exponential smoothing."""

ENOUGH = 16
"""Horizons that a validation split must span to be used alone.

With 8, the ridge was chosen for 7 of 60 random walks with 12 horizons of validation; with 16, for 1. On ETTh2 at 336,
with 8.6 horizons, it was not chosen although its validation error is 12 % lower.
"""

PARTS = 3
"""Consecutive parts of the training windows. The other parts fit the maps that forecast a part."""

MOST_SCORED = 1_000_000
"""Most training windows that are scored by cross-validation."""

FEWEST = 3
"""Fewest blocks of windows for choosing the ridge. Fewer than for trained weights (`forecast.evaluation.significance`):
here a single map is compared with the start, not the best of many states, and it cannot adapt to validation.
"""

DIVISORS = (1, 2, 4, 8)
"""The look-back of a series' ridge is that of the shared ridge, divided by one of these."""

SERIES_CONFIDENCE = 0.9
"""Confidence that a series' own ridge is better than the shared one, from the means of blocks of windows.

Without it, the ridges of two transformers (ETTh1 and ETTh2 at horizon 168) were 4 % better on seven weeks of validation
and 1 % worse on the three months after it.
"""


class Start(NamedTuple):
    """The start of the linear path.

    `held_out` are the combinations without each block of validation; empty if the start is none. `cross_fitted` are the
    starts that the other parts of the training windows fit, one for each part; empty unless validation is short.
    `refits` are the ridges that they fit.
    """

    map: LinearMap
    held_out: tuple[LinearMap, ...] = ()
    cross_fitted: tuple[LinearMap, ...] = ()
    refits: tuple[LinearMap, ...] = ()


@dataclass(frozen=True)
class _Trial:
    """Windows to score, the windows that fit maps for them, and fitted maps: the ridge, and perhaps one of each series.

    The two share no target.
    """

    windows: Windows
    fitted_on: Windows
    fitted: list[LinearMap]


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
    scored on `validation`. If that is shorter than `ENOUGH` horizons, the windows of `train` count too, scored by
    cross-validation: on a short split, above all of a random walk, a map may fit by chance. If no challenger is
    significantly better then, the start is a combination of naive forecasts, ridge and exponential smoothing, unless
    one of them is significantly better on validation.

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
        Whether a map of each series is a challenger: `fit_series`.
    """

    def trial(windows: Windows, fitted_on: Windows, shared: Ridge) -> _Trial:
        own = each_series and train.num_targets > 1
        return _Trial(windows, fitted_on, [shared, *([fit_series(fitted_on, validation, shared)] if own else [])])

    span = int(validation.steps[-1] - validation.steps[0]) + validation.horizon
    is_short = span < ENOUGH * validation.horizon
    parts = cross_validation(train, ridge.every) if is_short else []
    trials = [trial(validation, train, ridge), *(trial(part, rest, refit(rest, ridge)) for part, rest in parts)]
    naive = naive_maps(ridge.look_back, train.horizon, period)
    fixed = [*half_life_maps(ridge.look_back, train.horizon), *naive]
    starts = _starts([[*each.fitted, *fixed] for each in trials])
    errors = [window_errors([*each.fitted, *fixed], each.windows, batch_size) for each in trials]
    scores = torch.cat(errors, 1).nanmean(1).tolist()
    first = len(starts) - len(naive)
    best, challenger = (min(places, key=scores.__getitem__) for places in (range(first, len(starts)), range(first)))
    is_better = scores[challenger] < scores[best]
    if confidence is None:
        return starts[challenger if is_better else best]
    gains = [mse[challenger] - mse[best] for mse in errors]
    if is_better and _surely_negative(gains, [each.windows for each in trials], confidence):
        return starts[challenger]
    if not is_short:
        return starts[best]
    members = [[*each.fitted, fit_smoothing(each.fitted_on, ridge.look_back, period), *naive] for each in trials]
    scored = [(maps, each.windows) for maps, each in zip(members, trials, strict=True)]
    pool = Members.of(members[0], validation, scored[1:])
    combined = pool.combined()
    mse = window_errors([combined, *members[0]], validation, batch_size)
    alone = int(mse[1:].nanmean(1).argmin())
    if _surely_negative([mse[1 + alone] - mse[0]], [validation], confidence):
        return _starts(members)[alone]
    return Start(combined, pool.held_out(), pool.cross_fitted_mixtures(), starts[0].refits)


def cross_validation(train: Windows, every: int) -> list[tuple[Windows, Windows]]:
    """Return each part of the training windows, with the other windows that share no target with it.

    One of every `every` neighbouring windows is used, `MOST_SCORED` at most. The list is empty if no other windows are
    left for some part.
    """
    thinned = train.thinned(max(every, -(-len(train) // MOST_SCORED)))
    steps, pairs = thinned.steps, []
    for places in torch.arange(len(thinned)).tensor_split(PARTS):
        if not len(places):
            return []
        first, last = steps[places[0]], steps[places[-1]]
        apart = (steps <= first - train.horizon) | (steps >= last + train.horizon)
        if not apart.any():
            return []
        part, rest = (thinned.starts[chosen.to(thinned.starts.device)] for chosen in (places, apart))
        pairs.append((replace(train, starts=part), replace(train, starts=rest)))
    return pairs


def _starts(maps: Sequence[Sequence[LinearMap]]) -> list[Start]:
    """Return a start for each place in the lists; the first list was fitted on all windows, the others cross-fitted.

    Each list begins with the ridge.
    """
    found = [(first, tuple(others)) for first, *others in zip(*maps, strict=True)]
    return [Start(first, (), others, found[0][1]) for first, others in found]


def fit_series(train: Windows, validation: Windows, shared: Ridge) -> LinearMap:
    """Return a map of each series: one fitted on this series alone, or `shared` unless that is surely worse.

    The ridge of a series has a look-back and a penalty of its own, the best on `validation`. It must be better than
    `shared` there at `SERIES_CONFIDENCE`.

    Parameters
    ----------
    train, validation
        Windows of all series.
    shared
        Ridge fitted on all series of `train`.

    Returns
    -------
    LinearMap
        Weights (C, look_back, h), at the look-back of `shared`.
    """
    maps = []
    for place in range(train.num_targets):
        part, scored = train.of_series(place), validation.of_series(place)
        known = None if shared.known is None else shared.known[place : place + 1]
        common = LinearMap(shared.weight, shared.name, known, shared.layout)
        own = _best_look_back(part, scored, shared.look_back, FIT_OPERATIONS / train.num_targets)
        maps.append(own if own is not None and _is_better(own, common, scored) else common)
    weight = torch.stack([extended(one.weight, shared.look_back) for one in maps])
    inputs = [one.known for one in maps]
    if all(known is None for known in inputs):
        return LinearMap(weight, OWN)
    none = weight.new_zeros(1, train.layout.num_features(train.horizon), train.horizon)
    return LinearMap(weight, OWN, torch.cat([none if known is None else known for known in inputs]), train.layout)


def _best_look_back(train: Windows, validation: Windows, longest: int, operations: float) -> Ridge | None:
    """Return the best ridge of one series on `validation`, None if no look-back is long enough."""
    lengths = [longest // divisor for divisor in DIVISORS]
    fits = [
        fit_and_score(train.newest(length), validation.newest(length), operations)
        for length in lengths
        if length >= max(2, train.layout.look_back or 0)
    ]
    return min(fits, key=lambda fit: fit[1])[0] if fits else None


def _is_better(own: LinearMap, common: LinearMap, validation: Windows) -> bool:
    """Return whether the MSE of `own` is surely below that of `common`."""
    own_errors, errors = (torch.from_numpy(evaluate(one, validation, 512).mse) for one in (own, common))
    return _surely_negative([own_errors - errors], [validation], SERIES_CONFIDENCE)


def _surely_negative(differences: Sequence[Tensor], windows: Sequence[Windows], confidence: float) -> bool:
    """Return whether the mean difference of each window's errors (W,), in several splits, is surely below 0."""
    means = [
        block_means(difference, split.overlap, FEWEST, lengthen=False)
        for difference, split in zip(differences, windows, strict=True)
    ]
    return surely_below_zero(torch.cat(means), confidence, FEWEST) is True


@torch.inference_mode()
def window_errors(maps: Sequence[LinearMap], windows: Windows, batch_size: int) -> Tensor:
    """Return each window's MSE of the maps, shape (maps, windows), NaN without a target. Windows are cut once."""
    sums = ErrorSums.zeros(windows.horizon, windows.num_targets, windows.device)
    found = [torch.empty(len(maps), 0, dtype=torch.float64)]
    for batch in windows.batches(batch_size):
        rows = [
            torch.cat([sums.update(y, part.future, part.future_observed)[0] for part, y in in_parts(batch, one(batch))])
            for one in maps
        ]
        found.append(torch.stack(rows).cpu())
    return torch.cat(found, 1)
