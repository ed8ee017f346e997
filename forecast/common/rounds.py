"""What several rounds of measurements tell of two mechanisms."""

from collections.abc import Sequence

LEAST_ROUNDS = 3
"""Rounds that tell two mechanisms apart: of two that are alike, in one case of ten. As many are made if not told."""


def always_less(ones: Sequence[float], others: Sequence[float]) -> bool:
    """Tell whether every round of the one lies below every round of the other; of too few rounds that says nothing."""
    return min(len(ones), len(others)) >= LEAST_ROUNDS and max(ones) < min(others)
