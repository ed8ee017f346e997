"""Choose few of many combinations of parameters."""

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest


def covering(*axes: Iterable[Any], every: int) -> list[Any]:
    """Return the combinations of one value of each axis; mark all but each `every`-th as exhaustive.

    The places of the values in a combination without the mark have a sum that `every` divides. If `every` is the length
    of an axis, each combination of the other axes occurs exactly once.
    """
    cases = []
    for case in product(*map(enumerate, axes)):
        marks = pytest.mark.exhaustive if sum(place for place, _ in case) % every else ()
        cases.append(pytest.param(*(value for _, value in case), marks=marks))
    return cases
