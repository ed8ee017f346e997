"""Which settings no other one betters in error and in cost at once."""

from collections.abc import Mapping
from typing import TypeVar

from forecast.report.comparisons import error
from forecast.report.costs import Cost, comparable
from forecast.report.sections import Section

Key = TypeVar("Key")


def non_dominated(points: Mapping[Key, tuple[float, float]]) -> list[Key]:
    """Give the points of which no other is at least as low in both numbers and lower in one, by rising first."""
    kept = [
        key
        for key, (first, second) in points.items()
        if not any(one <= first and two <= second and (one, two) != (first, second) for one, two in points.values())
    ]
    return sorted(kept, key=lambda key: points[key])


def front(section: Section, cost: Cost) -> list[tuple[str, int]]:
    """Give the keys of the settings that are not dominated in a cost and the test MSE, the cheapest first."""
    costs = comparable(section, cost)
    errors = {setting.key: error(setting) for setting in section.settings}
    return non_dominated({key: (value, errors[key]) for key, value in costs.items()})
