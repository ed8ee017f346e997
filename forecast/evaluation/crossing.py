"""Power laws of measured costs: the exponent of one cost, and the length at which two costs cross."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import linear_regression

LEAST_POINTS = 3
"""Fewest lengths of a fit: two points always fit a line."""


@dataclass(frozen=True)
class Exponent:
    """The slope of log cost on log length over measured lengths, and those lengths."""

    value: float
    lengths: tuple[int, ...]


def slope(lengths: Sequence[int], costs: Sequence[float]) -> float:
    """Return the least-squares slope of log cost on log length."""
    return linear_regression([math.log(x) for x in lengths], [math.log(y) for y in costs]).slope


def exponent(costs: Mapping[int, float], shortest: int) -> Exponent | None:
    """Return the exponent of `costs` over the lengths from `shortest` on; None with fewer than three lengths."""
    lengths = tuple(sorted(length for length, cost in costs.items() if length >= shortest and cost > 0))
    if len(lengths) < LEAST_POINTS:
        return None
    return Exponent(slope(lengths, [costs[length] for length in lengths]), lengths)


def crossing(costs: Mapping[int, float], reference: Mapping[int, float]) -> float | None:
    """Return the length from which `costs` stays below `reference`, up to the longest length measured for both.

    Log cost is interpolated linearly over log length. Return None if it is not below at the longest length, and the
    shortest length if it is below at every length.
    """
    lengths = sorted(set(costs) & set(reference))
    gap = {length: math.log(costs[length]) - math.log(reference[length]) for length in lengths}
    if not lengths or gap[lengths[-1]] >= 0:
        return None
    above = [length for length in lengths if gap[length] >= 0]
    if not above:
        return float(lengths[0])
    before = above[-1]
    after = lengths[lengths.index(before) + 1]
    share = gap[before] / (gap[before] - gap[after])
    return math.exp(math.log(before) + share * (math.log(after) - math.log(before)))


def crossing_text(costs: Mapping[int, float], reference: Mapping[int, float]) -> str:
    """Return the crossing as text for a table."""
    common = sorted(set(costs) & set(reference))
    if not common:
        return "not measured"
    length = crossing(costs, reference)
    if length is None:
        return f"not up to {common[-1]:,}"
    if length == common[0]:
        return f"{common[0]:,} or below"
    return f"{length:,.0f}"
