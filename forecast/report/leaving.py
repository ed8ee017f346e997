"""The savings and the cost of leaving full attention at each look-back, and the worth of attention there."""

from collections.abc import Iterator

from forecast.common.text import from_to
from forecast.report.comparisons import NOT_TESTED, ONE_FORECAST, WORSE, Comparison, Comparisons
from forecast.report.costs import TRAINING, Cost, cheaper_range, clearly_cheaper, rounds_cheaper, times_cheaper
from forecast.report.phrases import interval_words, listed, rounded, signed
from forecast.report.sections import CONTROL, REFERENCE, Setting


def pairs_of(comparisons: Comparisons) -> list[Comparison]:
    """Return the comparisons of mechanisms with the reference, without the control."""
    return [pair for pair in comparisons.reference.values() if pair.setting.mechanism not in (REFERENCE, CONTROL)]


def timed_pairs(comparisons: Comparisons) -> list[Comparison]:
    """Return the comparisons with the reference that have training times, without the control."""
    return [pair for pair in pairs_of(comparisons) if times_cheaper(TRAINING, pair.setting, pair.against) is not None]


def main_pair(comparisons: Comparisons, look_back: int | None = None) -> Comparison | None:
    """Return the comparison that decides at a look-back, by default the longest one; None without training times.

    Among clearly faster mechanisms, it is the fastest that has no larger error, else the fastest. If none is clearly
    faster, it is the fastest.
    """
    pairs = timed_pairs(comparisons)
    look_back = max((pair.setting.look_back for pair in pairs), default=None) if look_back is None else look_back
    pairs = [pair for pair in pairs if pair.setting.look_back == look_back]
    if faster := [pair for pair in pairs if clearly_cheaper(TRAINING, pair.setting, pair.against)]:
        return min(faster, key=lambda pair: (pair.verdict == WORSE, pair.verdict == NOT_TESTED, -_times_faster(pair)))
    return max(pairs, key=_times_faster, default=None)


def _times_faster(pair: Comparison) -> float:
    return times_cheaper(TRAINING, pair.setting, pair.against) or float("nan")


def times_words(cost: Cost, setting: Setting, against: Setting) -> tuple[str, str]:
    """Return the cost ratio of `against` to `setting`, and its range over rounds or seeds in brackets, "" without."""
    ratio, ends = times_cheaper(cost, setting, against), cheaper_range(cost, setting, against)
    assert ratio is not None
    if ends is None:
        return rounded(ratio), ""
    rounds = len(rounds_cheaper(cost, setting, against))
    return rounded(ratio), f" ({from_to(ends, rounded)} over {f'{rounds} rounds' if rounds else 'the seeds'})"


def at_each_look_back(comparisons: Comparisons) -> Iterator[str]:
    """Yield what leaving the reference saves and costs, and what attention is worth, at each of several look-backs."""
    look_backs = sorted({pair.setting.look_back for pair in comparisons.reference.values()})
    if len(look_backs) < 2:
        return
    for look_back in look_backs:
        yield from _saved(comparisons, look_back)
        yield from _worth(comparisons, look_back)


def _saved(comparisons: Comparisons, look_back: int) -> Iterator[str]:
    """Yield the training time that the main mechanism saves and its difference in error."""
    pair = main_pair(comparisons, look_back)
    if pair is None or pair.why == ONE_FORECAST:
        return
    own, against = pair.setting, pair.against
    where = f"At look-back {look_back:,},"
    if clearly_cheaper(TRAINING, own, against):
        times, ends = times_words(TRAINING, own, against)
        yield f"{where} `{own.arm}` trains {times} times faster than `{against.arm}`{ends} with {_difference(pair)}."
    else:
        times, _ = times_words(TRAINING, against, own)
        takes = f"`{own.arm}` takes {times} times as long"
        yield f"{where} leaving `{against.arm}` saves no time: {takes}, with {_difference(pair)}."


def _worth(comparisons: Comparisons, look_back: int) -> Iterator[str]:
    """Yield the difference in error of each control from the reference."""
    pairs = [
        pair
        for pair in comparisons.reference.values()
        if pair.setting.look_back == look_back and pair.setting.mechanism == CONTROL and pair.interval is not None
    ]
    if pairs:
        found = [f"{_difference(pair)} with `{pair.setting.arm}`" for pair in pairs]
        yield f"At look-back {look_back:,}, without attention: {listed(found)}."


def _difference(pair: Comparison) -> str:
    """Return the difference in error with its interval."""
    if pair.interval is None:
        return f"{signed(pair.per_cent)} % error, not tested"
    return f"{signed(pair.per_cent)} % error ({interval_words(pair)})"
