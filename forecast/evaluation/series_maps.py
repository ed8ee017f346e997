"""A linear map of each series, for tables whose series follow different laws."""

import torch
from torch import Tensor

from forecast.data.windows import Windows
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.ridge import FIT_OPERATIONS, LinearMap, Ridge, fit_and_score

NAME = "a ridge of each series"

DIVISORS = (1, 2, 4, 8)
"""The look-back of a series' ridge is that of the shared ridge, divided by one of these."""


def fit_series(train: Windows, validation: Windows, shared: Ridge) -> LinearMap:
    """Return the best map of each series on `validation`: the `shared` ridge, or one fitted on this series alone.

    The ridge of a series has a look-back and a penalty of its own, both chosen on `validation`.

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
    operations = FIT_OPERATIONS / train.num_targets
    maps = []
    for place in range(train.num_targets):
        part, scored = train.of_series(place), validation.of_series(place)
        known = None if shared.known is None else shared.known[place : place + 1]
        best = LinearMap(shared.weight, shared.name, known, shared.layout)
        least = float(evaluate(best, scored, 512).sums.squared.sum())
        for divisor in DIVISORS:
            look_back = shared.look_back // divisor
            if look_back < max(2, train.layout.look_back or 0):
                break
            fitted, error = fit_and_score(part.newest(look_back), scored.newest(look_back), operations)
            if error < least:
                best, least = fitted, error
        maps.append(best)
    weight = torch.stack([extended(one.weight, shared.look_back) for one in maps])
    inputs = [one.known for one in maps]
    if all(known is None for known in inputs):
        return LinearMap(weight, NAME)
    none = weight.new_zeros(1, train.layout.num_features(train.horizon), train.horizon)
    return LinearMap(weight, NAME, torch.cat([none if known is None else known for known in inputs]), train.layout)


def extended(weight: Tensor, look_back: int) -> Tensor:
    """Return weights (look_back, h) that forecast the same as `weight` (newest steps, h), centered by another mean.

    `weight` belongs to a context that is centered by the mean of its own steps, the result to one of `look_back` steps.
    """
    newest = weight.shape[0]
    if newest == look_back:
        return weight
    longer = weight.new_zeros(look_back, weight.shape[1])
    longer[-newest:] = weight + (1 - weight.sum(0)) / newest
    return longer
