"""From which look-back a mechanism costs less than the reference."""

from forecast.evaluation.crossing import crossing, crossing_text
from forecast.report.costs import Cost, clearly_cheaper, comparable
from forecast.report.sections import Section


def costs_by_look_back(section: Section, arm: str, cost: Cost) -> dict[int, float]:
    """Give an arm's cost at each look-back, rising, where it may be compared."""
    return {look_back: value for (name, look_back), value in sorted(comparable(section, cost).items()) if name == arm}


def crossing_of(section: Section, arm: str, cost: Cost) -> float | None:
    """Give the look-back from which `arm` stays cheaper than the reference, None where it is not at the longest.

    Between two look-backs that were measured it lies on the straight lines of log cost on log look-back; the
    shortest one means that or below.
    """
    own, reference = _pair(section, arm, cost)
    return crossing(own, reference)


def crossing_words(section: Section, arm: str, cost: Cost) -> str:
    """Give the crossing as a table says it; none where it is not clearly cheaper at the longest look-back of both."""
    own, reference = _pair(section, arm, cost)
    told = crossing_text(own, reference)
    if crossing(own, reference) is None:
        return told
    longest = max(set(own) & set(reference))
    setting, against = section.at(arm, longest), section.at(section.reference, longest)
    assert setting is not None
    assert against is not None
    return told if clearly_cheaper(cost, setting, against) else f"not clearly up to {longest:,}"


def _pair(section: Section, arm: str, cost: Cost) -> tuple[dict[int, float], dict[int, float]]:
    reference = section.reference
    assert reference is not None
    return costs_by_look_back(section, arm, cost), costs_by_look_back(section, reference, cost)
