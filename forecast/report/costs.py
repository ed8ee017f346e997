"""Costs of the settings: time and memory, on a quiet or a busy machine."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from forecast.common.files import look_up
from forecast.common.tables import Table
from forecast.common.text import NONE, from_to
from forecast.common.timing import LEAST_ROUNDS
from forecast.evaluation.crossing import crossing, crossing_text
from forecast.report.comparisons import error
from forecast.report.phrases import shown
from forecast.report.sections import Section, Setting

CLEARLY = 1.1
"""Least ratio of costs that counts as a difference: clocks of short runs differ by as much."""


@dataclass(frozen=True)
class Cost:
    """A measured cost: `key` names columns and files, `path` is its place in a result.

    If `rate`, the result has windows a second, and the cost is 1000 over it. `stretch` is the name of a time in the
    machine's load and in the stretches in turn; None for other costs.
    """

    key: str
    title: str
    unit: str
    path: str
    rate: bool
    stretch: str | None = None

    def values(self, setting: Setting) -> np.ndarray:
        """Return the cost of each run, NaN where it was not measured."""
        values = setting.values(self.path)
        return 1000 / values if self.rate else values

    def of(self, setting: Setting) -> float:
        """Return the median over the seeds: clocks err upwards, sometimes by much."""
        return float(np.median(self.values(setting)))

    def bar(self, setting: Setting) -> tuple[float, float]:
        """Return the distances of the median to the least and the greatest cost."""
        values = self.values(setting)
        return self.of(setting) - float(values.min()), float(values.max()) - self.of(setting)

    def is_disturbed(self, setting: Setting) -> bool:
        """Return whether other processes took processors from one of the runs during this measurement."""
        path = f"speed.{self.stretch}_disturbed"
        return self.stretch is not None and any(look_up(run.result, path) is True for run in setting.runs)

    def in_turn(self, setting: Setting) -> np.ndarray:
        """Return the milliseconds a window of each round in turn, NaN if disturbed; empty if not timed."""
        if self.stretch is None or setting.in_turn is None:
            return np.empty(0)
        stretches = setting.in_turn.stretches[self.stretch]
        return np.array([np.nan if each.disturbed else 1000 * each.wall_seconds / each.windows for each in stretches])

    @property
    def heading(self) -> str:
        """Title and unit."""
        return f"{self.title}, {self.unit}"


TRAINING = Cost("train", "training time", "ms a window", "speed.train_windows_per_s", True, "train")
INFERENCE = Cost("inference", "inference time", "ms a window", "speed.inference_windows_per_s", True, "inference")
MEMORY = Cost("memory", "peak memory", "MiB", "speed.peak_memory_mib", False)
COSTS = (TRAINING, INFERENCE, MEMORY)


def main_conditions(section: Section) -> str:
    """Return the conditions of most runs of a section; of equally frequent ones the first in order."""
    counted = Counter(setting.conditions for setting in section.settings for _ in setting.runs)
    return min(counted, key=lambda told: (-counted[told], told))


def compared_in_turn(section: Section, cost: Cost) -> bool:
    """Return whether all settings under the main conditions were timed in turn with one another, undisturbed."""
    main = main_conditions(section)
    settings = [each for each in section.settings if each.conditions == main]
    sweeps = {each.in_turn.sweep if each.in_turn else None for each in settings}
    return len(sweeps) == 1 and all(np.isfinite(cost.in_turn(each)).sum() >= LEAST_ROUNDS for each in settings)


def comparable(section: Section, cost: Cost) -> dict[tuple[str, int], float]:
    """Return the cost of each setting measured under the main conditions.

    A time is the one in turn if all settings have one, else that of the undisturbed runs themselves.
    """
    main = main_conditions(section)
    settings = [each for each in section.settings if each.conditions == main]
    if compared_in_turn(section, cost):
        return {each.key: float(np.nanmedian(cost.in_turn(each))) for each in settings}
    found = {each.key: cost.of(each) for each in settings if not cost.is_disturbed(each)}
    return {key: value for key, value in found.items() if np.isfinite(value) and value > 0}


def bar_of(section: Section, cost: Cost, setting: Setting) -> tuple[float, float]:
    """Return the distances of the compared cost to the least and the greatest, over rounds or else over seeds."""
    if not compared_in_turn(section, cost):
        return cost.bar(setting)
    rounds = cost.in_turn(setting)
    middle = float(np.nanmedian(rounds))
    return middle - float(np.nanmin(rounds)), float(np.nanmax(rounds)) - middle


def rounds_cheaper(cost: Cost, setting: Setting, against: Setting) -> np.ndarray:
    """Return the cost ratio of `against` to `setting` in each undisturbed round in turn; empty if too few."""
    own, other = setting.in_turn, against.in_turn
    if own is None or other is None or own.sweep != other.sweep or cost.stretch is None:
        return np.empty(0)
    ratios = cost.in_turn(against) / cost.in_turn(setting)
    clean = ratios[np.isfinite(ratios)]
    return clean if len(clean) >= LEAST_ROUNDS else np.empty(0)


def times_cheaper(cost: Cost, setting: Setting, against: Setting) -> float | None:
    """Return how many times less `setting` costs than `against` (below 1: it costs more), None where unknown.

    Times in turn are preferred: both saw the same machine. Unknown are costs under other conditions, not measured, or
    disturbed by other processes.
    """
    if setting.conditions != against.conditions:
        return None
    if len(ratios := rounds_cheaper(cost, setting, against)):
        return float(np.median(ratios))
    if cost.is_disturbed(setting) or cost.is_disturbed(against):
        return None
    ratio = cost.of(against) / cost.of(setting)
    return ratio if np.isfinite(ratio) else None


def clearly_cheaper(cost: Cost, setting: Setting, against: Setting) -> bool:
    """Return whether `setting` is clearly cheaper: in every round in turn, and by `CLEARLY` in the median.

    Without rounds, its most expensive seed is compared with the cheapest of `against`, by the same factor.
    """
    times = times_cheaper(cost, setting, against)
    if times is None:
        return False
    if len(ratios := rounds_cheaper(cost, setting, against)):
        return bool(times >= CLEARLY and ratios.min() > 1)
    return bool(CLEARLY * cost.values(setting).max() <= cost.values(against).min())


def costs_by_look_back(section: Section, arm: str, cost: Cost) -> dict[int, float]:
    """Return an arm's comparable costs by rising look-back."""
    return {look_back: value for (name, look_back), value in sorted(comparable(section, cost).items()) if name == arm}


def crossing_of(section: Section, arm: str, cost: Cost) -> float | None:
    """Return the look-back from which `arm` stays cheaper than the reference, None if it is not at the longest.

    Between measured look-backs, log cost is interpolated linearly over log look-back; the shortest one means that or
    below.
    """
    own, reference = _pair(section, arm, cost)
    return crossing(own, reference)


def crossing_words(section: Section, arm: str, cost: Cost) -> str:
    """Return the crossing for a table; none if not clearly cheaper at the longest look-back of both."""
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


Key = TypeVar("Key")


def non_dominated(points: Mapping[Key, tuple[float, float]]) -> list[Key]:
    """Return the Pareto front (both numbers low), by rising first number."""
    kept = [
        key
        for key, (first, second) in points.items()
        if not any(one <= first and two <= second and (one, two) != (first, second) for one, two in points.values())
    ]
    return sorted(kept, key=lambda key: points[key])


def front(section: Section, cost: Cost) -> list[tuple[str, int]]:
    """Return the keys of the settings on the Pareto front of a cost and the test MSE, the cheapest first."""
    costs = comparable(section, cost)
    errors = {setting.key: error(setting) for setting in section.settings}
    return non_dominated({key: (value, errors[key]) for key, value in costs.items()})


TIMES = (TRAINING, INFERENCE)
"""Costs that other processes change."""

MARK = "!"
"""Mark of a time taken while other processes used needed processors."""

FASTER, SLOWER, NOT_CLEAR, BUSY, NOT_TIMED = "faster", "slower", "not clearly", "busy machine", "not timed"
IN_TURN, ALONE = "in turn", "alone"
"""Basis of a verdict: rounds in which both were timed, or the time of each run alone."""

CURE = "sweep.repeat_timing=4"


def marked(cost: Cost, setting: Setting) -> str:
    """Return a cost for a table, with `MARK` if the machine was busy."""
    return shown(cost.of(setting)) + (MARK if cost.is_disturbed(setting) else "")


def verdict(cost: Cost, setting: Setting, against: Setting) -> str:
    """Return how the times of two settings compare, in one word."""
    if times_cheaper(cost, setting, against) is None:
        disturbed = cost.is_disturbed(setting) or cost.is_disturbed(against)
        return BUSY if disturbed and setting.conditions == against.conditions else NOT_TIMED
    if clearly_cheaper(cost, setting, against):
        return FASTER
    return SLOWER if clearly_cheaper(cost, against, setting) else NOT_CLEAR


def basis(cost: Cost, setting: Setting, against: Setting) -> str:
    """Return the basis of the verdict on two settings, empty without one."""
    if times_cheaper(cost, setting, against) is None:
        return ""
    return IN_TURN if len(rounds_cheaper(cost, setting, against)) else ALONE


def busy_words(section: Section) -> Iterator[str]:
    """Yield the sentence on times not compared because the machine was busy, and the cure, if there are any."""
    busy = [each for each in section.settings if any(_is_open(cost, each) for cost in TIMES)]
    if not busy:
        return
    told = (
        f"Other processes took processors from {len(busy)} of {len(section.settings)} settings while they were timed: "
        "none of these is called faster or slower."
    )
    if any(each.in_turn for each in busy):
        yield f"{told} The timing in turn was disturbed too: run the same command again on a quiet machine."
    else:
        yield f"{told} Run the sweep again on a quiet machine with {CURE}: it trains nothing, it times all in turn."


def _is_open(cost: Cost, setting: Setting) -> bool:
    return cost.is_disturbed(setting) and np.isfinite(cost.in_turn(setting)).sum() < LEAST_ROUNDS


def turns_table(section: Section) -> Table | None:
    """Return the table of the times in turn and those of the runs; None if nothing was timed in turn."""
    settings = [each for arm in section.arms for each in section.of(arm) if each.in_turn is not None]
    if not settings:
        return None
    reference = section.reference
    cells = [_cells(section, each) for each in settings]
    per = [f"{name}, ms/window" for name in ("train", "infer")]
    headings = ["mechanism", "look-back"]
    for name in per:
        headings += [name, "alone"] + ([f"times less than {reference}", "verdict"] if reference else [])
    notes = (
        "after the jobs, one setting after the other in rounds of alternating order: the median of the rounds (least "
        "to greatest); training: forward, backward and update; alone: the time of the job itself, its whole loop",
        f"rounds that other processes disturbed are left out; a verdict takes {LEAST_ROUNDS} others at least: all of "
        f"them agree, and their median is {CLEARLY} or more",
        f"{MARK}: other processes took processors that the job needed",
    )
    return Table("Timed in turn", tuple(headings), cells, notes)


def _cells(section: Section, setting: Setting) -> list[str]:
    cells = [setting.arm, f"{setting.look_back:,}"]
    against = section.at(section.reference, setting.look_back)
    for cost in TIMES:
        cells += [_rounds(cost.in_turn(setting)), marked(cost, setting)]
        if section.reference:
            pair = against is not None and against.key != setting.key
            cells += [_rounds(rounds_cheaper(cost, setting, against)) if pair and against else ""]
            cells += [verdict(cost, setting, against) if pair and against else ""]
    return cells


def _rounds(values: np.ndarray) -> str:
    clean = values[np.isfinite(values)]
    return f"{shown(float(np.median(clean)))} ({from_to(clean.tolist(), shown)})" if len(clean) else NONE
