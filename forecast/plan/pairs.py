"""A plan held against real trainings: both made in turn, their ratios, and whether they rank alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Any

from forecast.common.errors import InputError
from forecast.common.timing import always_less
from forecast.plan.messages import Answer

WITHIN = 0.25
"""How far from 1 the median ratio of a plan may be."""

TIME, PEAK = "seconds", "peak_mib"


@dataclass(frozen=True)
class Pair:
    """A plan and the training beside it: the seconds of the training's steps and validations, and its peak."""

    foretold: Mapping[str, float]
    real: Mapping[str, float]

    @classmethod
    def of(cls, plan: Answer, run: Answer) -> "Pair":
        """Return the pair; the plan's time is that of as many steps as the training made.

        Raises
        ------
        InputError
            If the training did not come to its end.
        """
        if run.why:
            raise InputError(f"--check: a training ended without a result: {run.why}")
        assert plan.pace is not None
        assert plan.length is not None
        assert plan.peak_mib is not None
        assert run.steps is not None
        assert run.seconds is not None
        assert run.peak_mib is not None
        seconds = plan.pace.fit_seconds(plan.length, run.steps)
        return cls({TIME: seconds, PEAK: plan.peak_mib}, {TIME: run.seconds, PEAK: run.peak_mib})

    def ratio(self, what: str) -> float:
        """Return plan over training."""
        return self.foretold[what] / self.real[what]


def compare(pairs: Sequence[Pair], what: str) -> dict[str, Any]:
    """Return the ratios of a mechanism's pairs, their median, and whether it is near enough to 1."""
    ratios = [pair.ratio(what) for pair in pairs]
    foretold, reals = [pair.foretold[what] for pair in pairs], [pair.real[what] for pair in pairs]
    return {
        "foretold": median(foretold),
        "plans": foretold,
        "real": median(reals),
        "reals": reals,
        "ratios": ratios,
        "median": median(ratios),
        "within": abs(median(ratios) - 1) <= WITHIN,
    }


def rank(compared: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the mechanisms by rising medians, as foretold and as they were, and the pairs that are not in order.

    Of such a pair `apart` is by how much the real medians differ, as a share of the smaller, `alike` in how many of the
    `turns` the trainings stood as their medians do (where that is about half, they were not told apart either), and
    `claimed` whether the plans had them apart, each of the one below each of the other.
    """
    swapped = []
    for pair in combinations(compared, 2):
        low, high = sorted((compared[label] for label in pair), key=lambda each: float(each["real"]))
        if low["real"] < high["real"] and low["foretold"] > high["foretold"]:
            turns = list(zip(low["reals"], high["reals"], strict=False))  # one that failed in a turn has no more
            swapped.append(
                {
                    "mechanisms": list(pair),
                    "apart": high["real"] / low["real"] - 1,
                    "alike": sum(less < more for less, more in turns),
                    "turns": len(turns),
                    "claimed": always_less(high["plans"], low["plans"]),
                }
            )
    orders = {name: sorted(compared, key=lambda label: compared[label][name]) for name in ("foretold", "real")}
    return {**orders, "swapped": swapped}
