"""The declared cost of a mechanism."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

_EXPONENTS: dict[float, str] = {1: "", 2: "²", 3: "³"}


@dataclass(frozen=True)
class Cost:
    """Cost of one head: L^length (log L)^logarithms E^width, length L, width E.

    `other` names a factor that depends on neither, such as the rank r. `str(Cost(length=2, width=1))` is "O(L² E)".
    """

    length: float = 0
    width: float = 0
    logarithms: int = 0
    other: str = ""

    def __str__(self) -> str:
        growing = " ".join([*_power("L", self.length), *["log L"] * self.logarithms])
        constant = " ".join(filter(None, [self.other, *_power("E", self.width)]))
        separator = " · " if self.logarithms and constant else " "
        return f"O({separator.join(filter(None, [growing, constant])) or 1})"

    def between(self, shorter: int, longer: int) -> float:
        """Return the ratio of the cost at length `longer` to the cost at length `shorter`."""
        ratio: float = (longer / shorter) ** self.length
        return ratio * (math.log(max(longer, 2)) / math.log(max(shorter, 2))) ** self.logarithms

    def with_output(self) -> "Cost":
        """Return the memory cost including the output, whose length is L."""
        return Cost(length=1) if self.length < 1 else self


class Head(NamedTuple):
    """Sizes of one head: number of queries L and of keys S, width E of a query and V of a value."""

    queries: int
    keys: int
    width: int
    value_width: int
    causal: bool = False


Costs = Cost | Mapping[str, Cost]
"""One cost, or one per case. A case is "causal", the value of an argument, or "" for all others."""


def is_costs(declared: object) -> bool:
    """Return whether `declared` is of type `Costs` and not empty."""
    costs = list(declared.values()) if isinstance(declared, Mapping) else [declared]
    return bool(costs) and all(isinstance(cost, Cost) for cost in costs)


def cost_text(declared: Costs) -> str:
    """Format costs for tables: "O(L)", "O(L) fused, O(L²) explicit" or "O(E²), causal O(L E)"."""
    if isinstance(declared, Cost):
        return str(declared)
    words = [word for word in declared if word]
    if "" not in declared:
        return ", ".join(f"{declared[word]} {word}" for word in words)
    return ", ".join([str(declared[""]), *(f"{word} {declared[word]}" for word in words)])


def cost_of(declared: Costs, words: Collection[str]) -> Cost | None:
    """Return the cost of the case that `words` describe; None if it is not declared."""
    if isinstance(declared, Cost):
        return declared
    return next((cost for word, cost in declared.items() if word and word in words), declared.get(""))


def _power(letter: str, exponent: float) -> list[str]:
    return [letter + _EXPONENTS.get(exponent, f"^{exponent:g}")] if exponent else []
