"""Limits of targets that a user knows: `data.bounds`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forecast.common.errors import InputError
from forecast.common.text import is_plain
from forecast.tables.flaws import Flaw

Bound = tuple[float | None, float | None]
"""Lower and upper limit, None for none."""

FREE: Bound = (None, None)

_SHAPE = "give two numbers, the lower first, or null for none, such as data.bounds=[0,null]"


@dataclass(frozen=True)
class Bounds:
    """Limits of all targets, or of each by its name."""

    of_all: Bound = FREE
    by_name: Mapping[str, Bound] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any) -> "Bounds":
        """Return the bounds of an option: two numbers for all targets, or two for each name; None: none."""
        if value is None:
            return NO_BOUNDS
        if isinstance(value, Mapping):
            return cls(by_name={str(name).strip(): _bound(pair, f".{name}") for name, pair in value.items()})
        return cls(_bound(value, ""))

    def fact(self) -> Any:
        """Return the bounds as the plain value of the option; None without any."""
        if self.by_name:
            return {name: list(bound) for name, bound in self.by_name.items()}
        return None if self.of_all == FREE else list(self.of_all)

    def of_target(self, name: str) -> Bound:
        """Return the limits of a target."""
        return self.by_name.get(name, self.of_all)

    def check_names(self, targets: Sequence[str]) -> None:
        """Raise InputError for bounds of a column that is no target."""
        if absent := [name for name in self.by_name if name not in targets]:
            raise InputError(
                f"data.bounds.{absent[0]}: is not a target, only {', '.join(targets[:12])}: correct data.bounds"
            )

    def flaws(
        self, values: np.ndarray, columns: Sequence[str], targets: Sequence[str], rows: np.ndarray, source: str
    ) -> list[Flaw]:
        """Return a flaw for each target with values outside of its limits, with the first such row.

        `values` (N, C) are those of the columns, NaN in empty cells, and `rows` (N,) the row numbers of a spreadsheet.
        """
        flaws = []
        for name in targets:
            lower, upper = self.of_target(name)
            low, high = (-math.inf if lower is None else lower), (math.inf if upper is None else upper)
            column = values[:, list(columns).index(name)]
            outside = (column < low) | (column > high)
            if outside.any():
                place, count = int(np.argmax(outside)), int(outside.sum())
                where = f", column {name!r}, row {rows[place]}"
                limits = ", ".join("null" if math.isinf(limit) else f"{limit:g}" for limit in (low, high))
                problem = f"{column[place]:g} is outside of data.bounds [{limits}] ({count:,} such values)"
                flaws.append(Flaw(source, where, problem, "correct it in the file, or set data.bounds to other limits"))
        return flaws


NO_BOUNDS = Bounds()
"""No limits."""


def _bound(pair: Any, key: str) -> Bound:
    """Return the limits of an option; raise InputError if it has others."""
    name = f"data.bounds{key}" if is_plain(key) else "data.bounds"
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise InputError(f"{name}={str(pair)[:40]}: {_SHAPE}")
    for limit in pair:
        is_number = isinstance(limit, int | float) and not isinstance(limit, bool) and math.isfinite(limit)
        if limit is not None and not is_number:
            raise InputError(f"{name}: {str(limit)[:40]!r} is not a number: {_SHAPE}")
    low, high = pair
    if low is not None and high is not None and low >= high:
        raise InputError(f"{name}=[{low:g}, {high:g}]: the lower limit is not below the upper one: {_SHAPE}")
    return low, high
