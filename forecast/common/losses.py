"""Names of the losses and levels of the quantiles, checked before torch is imported."""

from collections.abc import Sequence
from itertools import pairwise

from forecast.common.errors import InputError

QUANTILE = "quantile"
"""Name of the loss of a model of quantiles."""

LOSSES = ("mse", "mae", "huber", QUANTILE)
"""Names of all losses."""

MOST_LEVELS = 99
"""Largest number of quantile levels."""

SAME = 1e-9
"""Tolerance of two equal levels."""


def check_loss(name: str) -> None:
    """Raise InputError if there is no such loss."""
    if name not in LOSSES:
        raise InputError(f"loss={name}: choose {', '.join(LOSSES[:-1])} or {LOSSES[-1]}")


def same_levels(levels: Sequence[float], others: Sequence[float]) -> bool:
    """Return whether two lists of levels are equal, up to rounding."""
    return len(levels) == len(others) and all(
        abs(one - other) <= SAME for one, other in zip(levels, others, strict=True)
    )


def levels_error(levels: Sequence[float]) -> str | None:
    """Return why `levels` cannot be quantile levels; None if they rise, lie in (0, 1) and are symmetric about 0.5."""
    if not 3 <= len(levels) <= MOST_LEVELS:
        return f"must be from 3 to {MOST_LEVELS} levels"
    if not all(0 < level < 1 for level in levels):
        return "must be above 0 and below 1"
    if any(second - first <= SAME for first, second in pairwise(levels)):
        return "must rise"
    if any(abs(low + high - 1) > SAME for low, high in zip(levels, reversed(levels), strict=True)):
        return "must be symmetric about 0.5: with q also 1 - q"
    return None if len(levels) % 2 else "must contain 0.5, the point forecast"
