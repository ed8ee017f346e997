"""Lines in pictures, and the points of them that have no neighbour: a line alone would not show them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D


def lone_points(values: np.ndarray | Sequence[float]) -> np.ndarray:
    """Return which of the values (n,) are finite between two that are not, booleans (n,); the ends count as such."""
    finite = np.pad(np.isfinite(np.asarray(values, dtype=float)), 1)
    alone: np.ndarray = finite[1:-1] & ~finite[:-2] & ~finite[2:]
    return alone


def draw_line(panel: Axes, places: Any, values: np.ndarray, **style: Any) -> list[Line2D]:
    """Draw a line, and points where it has but one; `places` are n numbers or times."""
    alone = lone_points(values)
    return panel.plot(places, values, marker="." if alone.any() else "", markevery=alone, **style)
