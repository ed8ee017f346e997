"""Comparisons with the reference: the pair that decides, and the reasons to leave the reference."""

from collections.abc import Callable, Collection
from functools import partial

from forecast.common.tables import Table
from forecast.common.text import NONE, from_to
from forecast.report.comparisons import BETTER, NOT_TESTED, ONE_FORECAST, Comparison, Comparisons
from forecast.report.costs import COSTS, TRAINING, Cost, cheaper_range, clearly_cheaper, rounds_cheaper, times_cheaper
from forecast.report.groups import CONTROL, REFERENCE, Setting
from forecast.report.phrases import listed, rounded, signed


def pairs_of(comparisons: Comparisons) -> list[Comparison]:
    """Return the comparisons of mechanisms with the reference, without the control."""
    return [pair for pair in comparisons.reference.values() if pair.setting.mechanism not in (REFERENCE, CONTROL)]


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


def main_pair(comparisons: Comparisons) -> Comparison | None:
    """Return the comparison that decides at the longest look-back with training times; None without any.

    Among clearly faster mechanisms, it is the fastest that has no larger error, else the fastest. If none is clearly
    faster, it is the fastest.
    """
    pairs = pairs_of(comparisons)
    pairs = [pair for pair in pairs if times_cheaper(TRAINING, pair.setting, pair.against) is not None]
    longest = max((pair.setting.look_back for pair in pairs), default=None)
    pairs = [pair for pair in pairs if pair.setting.look_back == longest]
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


def measured_words(setting: Setting, ends: str = "") -> str:
    """Return in brackets the device and precision of a time, then the range `ends` of `times_words`."""
    result = setting.runs[0].result
    precision = {"32-true": "float32", "bf16-mixed": "bf16"}.get(result["precision"], result["precision"])
    return f" ({result['device']}, {precision}{f'; {ends[2:]}' if ends else ')'}"


REASONS: dict[str, Callable[[Comparison], bool]] = {
    "lower error": lambda pair: pair.verdict == BETTER,
    **{
        f"less {cost.title}": partial(lambda cost, pair: clearly_cheaper(cost, pair.setting, pair.against), cost)
        for cost in COSTS
    },
}
"""Reasons to take a setting instead of the reference, and when each holds."""

UNKNOWN = "not everything could be compared"


def reasons_table(comparisons: Comparisons) -> Table | None:
    """Return the table of what each setting saves against the reference at its look-back; None without a reference."""
    pairs = sorted(comparisons.reference.values(), key=lambda pair: pair.setting.look_back)
    headings = (
        *("look-back", "mechanism", "against", "MSE, % more"),
        *(f"{cost.title}, times less" for cost in COSTS),
        "reasons to take it",
    )
    cells = [
        [
            *(f"{pair.setting.look_back:,}", pair.setting.arm, pair.against.arm, signed(pair.per_cent)),
            *(_saved(cost, pair) for cost in COSTS),
            _reasons(pair),
        ]
        for pair in pairs
    ]
    notes = (
        "times less: below 1 it costs more; in brackets the range over rounds or seeds.",
        "A reason is clear: an interval without 0 for the error, and seeds or rounds that do not overlap for a cost.",
    )
    return Table(f"Reasons to leave `{REFERENCE}`", headings, cells, notes) if cells else None


def _saved(cost: Cost, pair: Comparison) -> str:
    if times_cheaper(cost, pair.setting, pair.against) is None:
        return NONE
    return "".join(times_words(cost, pair.setting, pair.against))


def _reasons(pair: Comparison) -> str:
    if reasons := [words for words, holds in REASONS.items() if holds(pair)]:
        return listed(reasons)
    untested = pair.verdict == NOT_TESTED and pair.why != ONE_FORECAST
    unmeasured = any(times_cheaper(cost, pair.setting, pair.against) is None for cost in COSTS)
    return UNKNOWN if untested or pair.is_undecided or unmeasured else "none"
