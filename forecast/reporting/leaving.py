"""The sentence that says from which look-back on leaving the reference pays."""

from collections.abc import Iterator

from forecast.reporting.comparisons import BETTER, Comparisons
from forecast.reporting.costs import TRAINING
from forecast.reporting.crossings import costs_by_look_back, crossing_of
from forecast.reporting.sections import Section
from forecast.reporting.text import listed, named, shown


def leaving(section: Section, comparisons: Comparisons) -> Iterator[str]:
    """Yield it where training was timed at two look-backs at least; the control is no mechanism to leave for."""
    reference = section.reference
    if reference is None:
        return
    measured = costs_by_look_back(section, reference, TRAINING)
    crossings = {
        arm: crossing_of(section, arm, TRAINING)
        for arm in section.arms
        if arm not in (reference, section.control)
        and len(set(costs_by_look_back(section, arm, TRAINING)) & set(measured)) > 1
    }
    if not crossings:
        return
    shortest, longest = min(measured), max(measured)
    earliest = min((value for value in crossings.values() if value is not None), default=None)
    if earliest is None:
        yield f"Up to look-back {longest:,} no mechanism trains faster than `{reference}`."
    elif earliest <= shortest:
        always = [f"`{arm}`" for arm, value in crossings.items() if value == shortest]
        told = f"{listed(always)} {'trains' if len(always) == 1 else 'train'}"
        yield f"From look-back {shortest:,} to {longest:,} {told} faster than `{reference}` throughout."
    else:
        yield (
            f"Below look-back {shown(earliest)} (interpolated) no mechanism trains faster"
            f"{_reason(section, comparisons, earliest)}."
        )


def _reason(section: Section, comparisons: Comparisons, earliest: float) -> str:
    """Say whether anything errs less than the reference at the look-backs below `earliest`."""
    better = [
        named(each.setting)
        for each in comparisons.reference.values()
        if each.verdict == BETTER and each.setting.look_back < earliest and each.against.arm == section.reference
    ]
    if better:
        return f", though {listed(better)} {'errs' if len(better) == 1 else 'err'} less"
    return f" and none is shown to err less: there is no reason to leave `{section.reference}`"
