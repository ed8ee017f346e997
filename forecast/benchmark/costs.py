"""What a declared cost says about growth with the length: `O(L log L · E)` as numbers."""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from forecast.evaluation.crossing import slope

_POWERS = {"": 1, "²": 2, "³": 3}
_LOGARITHM = re.compile(r"log [LS]")
_LENGTH = re.compile(r"[LS]([²³]?)")
# A product that can be read: lengths with a power, their logarithms, and what does not grow: numbers and letters,
# but for N and T, which others call lengths.
_PRODUCT = re.compile(r"\s*\d*(?:log [LS](?![²³])|(?:[A-MO-SU-Z]|[a-mo-su-z](?![a-z]))[²³]?|[\s·\u00d7])*")


@dataclass(frozen=True)
class Growth:
    """A cost that grows as L to a power times the logarithm of L to another."""

    power: int
    logarithms: int = 0

    def between(self, shorter: int, longer: int) -> float:
        """Return how many times the cost at `shorter` that at `longer` is."""
        ratio = (longer / shorter) ** self.power
        return ratio * (math.log(max(longer, 2)) / math.log(max(shorter, 2))) ** self.logarithms

    def exponent(self, lengths: Sequence[int]) -> float:
        """Return the exponent that a fit over `lengths` would find; about power + logarithms / ln L."""
        return slope(lengths, [self.between(lengths[0], length) for length in lengths])


def cost_of(declared: str, words: Collection[str]) -> str | None:
    """Return the cost in the one clause of a declaration that holds for a case, None where none does.

    Parameters
    ----------
    declared : str
        As a mechanism's `time_cost` or `memory_cost`: clauses such as `O(L) fused, O(L²) explicit`.
    words : collection of str
        What the case is ("causal", "explicit", …): a clause with words counts for cases that have them
        all, and before those without a word.
    """
    clauses = re.findall(r"([^,(]*)O\(([^)]*)\)([^,(]*)", declared)
    said = [(f"{before} {after}".split(), cost) for before, cost, after in clauses]
    fitting = [cost for asked, cost in said if asked and set(asked) <= set(words)]
    fitting += [cost for asked, cost in said if not asked]
    return fitting[0] if fitting else None


def growth_of(declared: str, words: Collection[str]) -> Growth | None:
    """Return how the declared cost of a case grows with the length, None where nobody can say.

    Arguments as in `cost_of`. Read are L and S, squared or cubed, and their logarithms, as in
    `O(L log L · E)`; another way of writing is not guessed at.
    """
    cost = cost_of(declared, words)
    return None if cost is None else _read(cost)


def memory_growth_of(declared: str, words: Collection[str]) -> Growth | None:
    """Return how memory above the inputs grows: as declared, and no slower than the output, which is L long."""
    growth = growth_of(declared, words)
    return Growth(1) if growth is not None and growth.power < 1 else growth


def _read(cost: str) -> Growth | None:
    terms = []
    for term in cost.split("+"):
        if not _PRODUCT.fullmatch(term):
            return None
        rest = _LOGARITHM.sub("", term)
        power = sum(_POWERS[exponent] for exponent in _LENGTH.findall(rest))
        terms.append((power, len(_LOGARITHM.findall(term))))
    return Growth(*max(terms))
