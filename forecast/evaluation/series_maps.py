"""A linear map of each series, for tables whose series follow different laws."""

import torch

from forecast.data.windows import Windows
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.ridge import FIT_OPERATIONS, LinearMap, Ridge, fit_and_score
from forecast.evaluation.significance import block_means, surely_below_zero
from forecast.model.linear_path import extended

NAME = "a ridge of each series"

DIVISORS = (1, 2, 4, 8)
"""The look-back of a series' ridge is that of the shared ridge, divided by one of these."""

FEWEST = 3
"""Fewest blocks of windows for taking a series' own ridge."""

CONFIDENCE = 0.9
"""Confidence that a series' own ridge is better than the shared one, from the means of blocks of windows.

Without it, the ridges of two transformers (ETTh1 and ETTh2 at horizon 168) were 4 % better on seven weeks of validation
and 1 % worse on the three months after it.
"""


def fit_series(train: Windows, validation: Windows, shared: Ridge) -> LinearMap:
    """Return a map of each series: one fitted on this series alone, or `shared` unless that is surely worse.

    The ridge of a series has a look-back and a penalty of its own, the best on `validation`. It must be better than
    `shared` there at `CONFIDENCE`.

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
        return LinearMap(weight, NAME)
    none = weight.new_zeros(1, train.layout.num_features(train.horizon), train.horizon)
    return LinearMap(weight, NAME, torch.cat([none if known is None else known for known in inputs]), train.layout)


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
    errors = [torch.from_numpy(evaluate(one, validation, 512).mse) for one in (own, common)]
    blocks = block_means(errors[0] - errors[1], validation.overlap, FEWEST, lengthen=False)
    return surely_below_zero(blocks, CONFIDENCE, FEWEST) is True
