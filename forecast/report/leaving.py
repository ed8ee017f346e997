"""What leaving full attention saves and costs at each look-back, and the error of the controls there."""

from collections.abc import Collection, Iterator

from forecast.common.text import from_to
from forecast.report.comparisons import NOT_TESTED, Comparison, Comparisons
from forecast.report.costs import TRAINING, Cost, cheaper_range, clearly_cheaper, rounds_cheaper, times_cheaper
from forecast.report.groups import CONTROL, REFERENCE, Setting
from forecast.report.phrases import interval_words, listed, rounded, signed


def pairs_of(comparisons: Comparisons) -> list[Comparison]:
    """Return the comparisons of mechanisms with the reference, without the control."""
    return [pair for pair in comparisons.reference.values() if pair.setting.mechanism not in (REFERENCE, CONTROL)]


def timed_pairs(comparisons: Comparisons) -> list[Comparison]:
    """Return the comparisons with the reference that have training times, without the control."""
    return [pair for pair in pairs_of(comparisons) if times_cheaper(TRAINING, pair.setting, pair.against) is not None]


def no_mechanism(comparisons: Comparisons, look_backs: Collection[int]) -> str:
    """Return "no mechanism", or "no timed mechanism" if the time of one cannot be compared at these look-backs."""
    pairs = [pair for pair in pairs_of(comparisons) if pair.setting.look_back in look_backs]
    timed = all(times_cheaper(TRAINING, pair.setting, pair.against) is not None for pair in pairs)
    return "no mechanism" if timed else "no timed mechanism"


def reference_words(comparisons: Comparisons, pair: Comparison) -> str:
    """Return the reference of a sentence on all mechanisms at the look-back of a pair: each has its own, or all one."""
    at = [other for other in pairs_of(comparisons) if other.setting.look_back == pair.setting.look_back]
    alike = len({other.against.arm for other in at}) == 1
    return f"`{pair.against.arm}`" if alike else f"the `{REFERENCE}` with the same other options"


def main_pair(comparisons: Comparisons, look_back: int | None = None) -> Comparison | None:
    """Return the comparison that decides at a look-back, by default the longest one; None without training times.

    Among clearly faster mechanisms, it is the fastest that has no larger error, else the fastest. If none is clearly
    faster, it is the fastest.
    """
    pairs = timed_pairs(comparisons)
    look_back = max((pair.setting.look_back for pair in pairs), default=None) if look_back is None else look_back
    pairs = [pair for pair in pairs if pair.setting.look_back == look_back]
    if faster := [pair for pair in pairs if clearly_cheaper(TRAINING, pair.setting, pair.against)]:
        return min(faster, key=lambda pair: (pair.seems_worse, pair.verdict == NOT_TESTED, -_times_faster(pair)))
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


def look_backs_of(comparisons: Comparisons) -> list[int]:
    """Return the look-backs with a comparison with the reference."""
    return sorted({pair.setting.look_back for pair in comparisons.reference.values()})


def told_controls(comparisons: Comparisons, look_back: int) -> list[Comparison]:
    """Return the tested comparisons of the controls with the reference that have a sentence at a look-back.

    A single control at the only look-back has none: whether self-attention helps is a sentence of its own.
    """
    pairs = comparisons.reference.values()
    at = [pair for pair in pairs if (pair.setting.mechanism, pair.setting.look_back) == (CONTROL, look_back)]
    tested = [pair for pair in at if pair.verdict != NOT_TESTED]
    return tested if len(tested) > 1 or len(look_backs_of(comparisons)) > 1 else []


def at_each_look_back(comparisons: Comparisons) -> Iterator[str]:
    """Yield what leaving the reference saves and costs at each of several look-backs, and the error of each control."""
    look_backs = look_backs_of(comparisons)
    for look_back in look_backs:
        if len(look_backs) > 1:
            yield from _saved(comparisons, look_back)
        by_reference: dict[str, list[Comparison]] = {}
        for pair in told_controls(comparisons, look_back):
            by_reference.setdefault(pair.against.arm, []).append(pair)
        for arm, pairs in by_reference.items():
            found = [f"`{pair.setting.arm}` {_difference(pair)}" for pair in pairs]
            name = "the control" if len(pairs) == 1 else "the controls"
            yield f"At look-back {look_back:,}, {name} against `{arm}`: {listed(found)}."


def _saved(comparisons: Comparisons, look_back: int) -> Iterator[str]:
    """Yield the training time that the main mechanism saves and its difference in error."""
    pair = main_pair(comparisons, look_back)
    if pair is None or pair.is_of_linear_paths:
        return
    own, against = pair.setting, pair.against
    where = f"At look-back {look_back:,},"
    if clearly_cheaper(TRAINING, own, against):
        times, ends = times_words(TRAINING, own, against)
        yield f"{where} `{own.arm}` trains {times} times faster than `{against.arm}`{ends} with {_difference(pair)}."
    else:
        times, _ = times_words(TRAINING, against, own)
        takes = f"`{own.arm}` takes {times} times as long, with {_difference(pair)}"
        none = no_mechanism(comparisons, [look_back])
        yield f"{where} {none} trains clearly faster than {reference_words(comparisons, pair)}: {takes}."


def _difference(pair: Comparison) -> str:
    """Return the difference in error with its interval."""
    if pair.interval is None:
        return f"{signed(pair.per_cent)} % error, not tested"
    return f"{signed(pair.per_cent)} % error ({interval_words(pair)})"
