"""Points of a line that have no neighbour: a line alone would not show them."""

from collections.abc import Sequence

import numpy as np


def lone_points(values: np.ndarray | Sequence[float]) -> np.ndarray:
    """Give which of the values (n,) are finite between two that are not, booleans (n,); the ends count as such."""
    finite = np.pad(np.isfinite(np.asarray(values, dtype=float)), 1)
    alone: np.ndarray = finite[1:-1] & ~finite[:-2] & ~finite[2:]
    return alone
