"""The sentences that say at which look-backs leaving the reference pays, by what was measured there."""

from collections.abc import Iterator, Sequence

from forecast.report.comparisons import BETTER, NOT_TESTED, ONE_FORECAST, Comparison, Comparisons
from forecast.report.costs import COSTS, INFERENCE, MEMORY, TRAINING, clearly_cheaper, times_cheaper
from forecast.report.crossings import crossing_of
from forecast.report.headline import pairs_of, timed_pairs
from forecast.report.sections import REFERENCE, Section
from forecast.report.text import listed, named, shown


def leaving(section: Section, comparisons: Comparisons) -> Iterator[str]:
    """Yield them where training was timed at two look-backs at least; the control is no mechanism to leave for."""
    pairs = timed_pairs(comparisons)
    look_backs = sorted({pair.setting.look_back for pair in pairs})
    if len(look_backs) < 2:
        return
    faster = [pair for pair in pairs if clearly_cheaper(TRAINING, pair.setting, pair.against)]
    where = {pair.setting.look_back for pair in faster}
    if quiet := [pair for pair in pairs_of(comparisons) if pair.setting.look_back in {*look_backs} - where]:
        told = listed([f"{each:,}" for each in look_backs if each not in where])
        aside = " (the control aside)" if section.control else ""
        yield f"At look-back {told} no mechanism{aside} trains clearly faster than `{REFERENCE}`{_reason(quiet)}."
    if faster:
        words = [_arm_words(section, arm, pairs, faster) for arm in dict.fromkeys(pair.setting.arm for pair in faster)]
        yield f"Clearly faster to train than `{REFERENCE}`: {'; '.join(words)}."


def _reason(pairs: Sequence[Comparison]) -> str:
    """Say what else speaks for leaving where nothing trains faster: that nothing does only of what was measured."""
    reasons = {
        "errs less": [pair for pair in pairs if pair.verdict == BETTER],
        "forecasts clearly faster": [pair for pair in pairs if clearly_cheaper(INFERENCE, pair.setting, pair.against)],
        "takes clearly less memory": [pair for pair in pairs if clearly_cheaper(MEMORY, pair.setting, pair.against)],
    }
    if told := [f"{named(pair.setting)} {does}" for does, those in reasons.items() for pair in those]:
        return f", though {listed(told)}"
    if any(map(_is_unknown, pairs)):
        return ", and not everything could be compared"
    return (
        ", forecasts clearly faster, takes clearly less memory or is shown to err less: there is no reason to leave "
        f"`{REFERENCE}`"
    )


def _is_unknown(pair: Comparison) -> bool:
    """Say whether a cost or the errors of a pair could not be compared."""
    untested = pair.verdict == NOT_TESTED and pair.why != ONE_FORECAST
    return untested or any(times_cheaper(cost, pair.setting, pair.against) is None for cost in COSTS)


def _arm_words(section: Section, arm: str, pairs: Sequence[Comparison], faster: Sequence[Comparison]) -> str:
    """Say at which look-backs an arm is faster, and where between two of them it begins to be."""
    timed, at = (
        sorted(pair.setting.look_back for pair in those if pair.setting.arm == arm) for those in (pairs, faster)
    )
    told = f"`{arm}` at look-back {listed([f'{each:,}' for each in at])}"
    if at == timed:
        return told if len(at) == 1 else f"{told}, wherever it was timed"
    if at[-1] != timed[-1]:
        return told
    crossing = crossing_of(section, arm, TRAINING) if section.reference else None
    before = max((each for each in timed if each < at[0]), default=None)
    if crossing is None or before is None or not before < crossing < at[0]:
        return told
    return f"{told} (its time falls below that of `{section.reference}` near {shown(crossing)}, interpolated)"
