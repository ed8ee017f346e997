"""Adaptive conformal intervals: levels that follow the misses of earlier forecasts."""

from collections.abc import Sequence

import torch
from torch import Tensor

from forecast.evaluation.intervals import Calibration, interval_levels

RATE = 0.01
"""Change of a miscoverage after a miss, relative to 1. Gibbs and Candès use 0.005 for daily values; consecutive windows
share most of their targets, so their misses come in runs, and a larger rate would follow the runs."""


def adapted_shift(
    calibration: Calibration,
    forecast: Tensor,
    spread: Tensor,
    future: Tensor,
    observed: Tensor | None,
    origins: Tensor,
    at: int,
    percents: Sequence[float],
    rate: float = RATE,
) -> Tensor:
    """Return the shift of `Calibration.quantiles` for a forecast whose first target is row `at`.

    The miscoverage a of each step, series and interval starts at its nominal value. After each past window it becomes
    a + rate (nominal - miss), with miss 1 if the target was outside the interval of the current miscoverage, else 0. A
    past window counts only if all its targets lie before row `at`, so it began at least one horizon before.

    Parameters
    ----------
    calibration
        Calibration of the model.
    forecast, spread, future, observed
        Forecasts (W, h, C) or (W, h, C, K), spreads (W, 1, C), targets (W, h, C) of past windows in order of time, and
        False where a target was not measured (None: all were).
    origins
        Row of the first target of each window, (W,).
    percents
        Central intervals, in per cent.

    Returns
    -------
    Tensor
        Shape (h, C, 2 I): for each interval the shift of its lower and of its upper end.

    References
    ----------
    Gibbs and Candès, "Adaptive conformal inference under distribution shift", NeurIPS 2021, arXiv:2106.00170. Differs
    from the paper in: each horizon step has a miscoverage of its own, and its feedback is delayed by the horizon.
    """
    horizon = future.shape[1]
    usable = int((origins + horizon <= at).sum())
    nominal = torch.tensor([1 - percent / 100 for percent in percents], dtype=torch.float64)
    miscoverage = nominal.expand(*future.shape[1:], -1).clone()  # (h, C, I)
    levels = [level for percent in percents for level in interval_levels(percent)]
    for place in range(usable):
        ends = calibration.quantiles(
            forecast[place : place + 1], spread[place : place + 1], levels, _shift(miscoverage, nominal)
        )[0]
        target = future[place, ..., None]
        missed = (target < ends[..., 0::2]) | (target > ends[..., 1::2])
        change = rate * (nominal - missed.double())
        if observed is not None:
            change = torch.where(observed[place, ..., None], change, 0.0)
        miscoverage = (miscoverage + change).clamp(0, 1)
    return _shift(miscoverage, nominal)


def nested(ends: Tensor, percents: Sequence[float]) -> Tensor:
    """Return lower and upper ends (..., 2 I), extended so that each interval contains all narrower ones.

    Each interval follows its own misses, so that a narrower one can come to reach beyond a wider one.
    """
    narrow_first = torch.tensor(sorted(range(len(percents)), key=lambda place: percents[place]))
    lower, upper = ends[..., 0::2].clone(), ends[..., 1::2].clone()
    lower[..., narrow_first] = lower[..., narrow_first].cummin(-1).values
    upper[..., narrow_first] = upper[..., narrow_first].cummax(-1).values
    return torch.stack([lower, upper], -1).flatten(-2)


def _shift(miscoverage: Tensor, nominal: Tensor) -> Tensor:
    """Return the shift (h, C, 2 I) of lower and upper ends for a miscoverage (h, C, I)."""
    half = (miscoverage - nominal) / 2
    return torch.stack([half, -half], -1).flatten(-2)
