"""Costs of the settings: time and memory, on a quiet or a busy machine."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from forecast.common.files import look_up
from forecast.common.timing import LEAST_ROUNDS, Load
from forecast.evaluation.crossing import crossing, crossing_text
from forecast.report.comparisons import error
from forecast.report.groups import RunGroup, Setting

CLEARLY = 1.1
"""Least ratio of costs that counts as a difference: clocks of short runs differ by as much."""


@dataclass(frozen=True)
class Cost:
    """A measured cost: `key` names columns and files, `path` is its place in a result.

    If `rate`, the result has windows per second, and the cost is 1000 over it. `stretch` names a time in the machine's
    load and in the interleaved timing; None for other costs. `clearly` is the least ratio that counts as a difference.
    """

    key: str
    title: str
    unit: str
    path: str
    rate: bool
    stretch: str | None = None
    clearly: float = CLEARLY

    def values(self, setting: Setting) -> np.ndarray:
        """Return the cost of each run, NaN where it was not measured."""
        values = setting.values(self.path)
        return 1000 / values if self.rate else values

    def of(self, setting: Setting) -> float:
        """Return the median over the seeds: measured times err upwards, sometimes by much."""
        return float(np.median(self.values(setting)))

    def bar(self, setting: Setting) -> tuple[float, float]:
        """Return the distances from the median to the least and the greatest cost."""
        values = self.values(setting)
        return self.of(setting) - float(values.min()), float(values.max()) - self.of(setting)

    def is_disturbed(self, setting: Setting) -> bool:
        """Return whether other processes competed with one of the runs for processors during this measurement."""
        if self.stretch is None:
            return False
        return any(Load.is_disturbed(look_up(run.result, "speed"), self.stretch) for run in setting.runs)

    def in_turn(self, setting: Setting) -> np.ndarray:
        """Return the milliseconds per window of each interleaved round, NaN if disturbed; empty if not timed."""
        if self.stretch is None or setting.in_turn is None:
            return np.empty(0)
        stretches = setting.in_turn.stretches[self.stretch]
        return np.array([np.nan if one.disturbed else 1000 * one.wall_seconds / one.windows for one in stretches])

    @property
    def heading(self) -> str:
        """The title with the unit."""
        return f"{self.title}, {self.unit}"


TRAINING = Cost("train", "training time", "ms per window", "speed.train_windows_per_s", True, "train")
INFERENCE = Cost("inference", "inference time", "ms per window", "speed.inference_windows_per_s", True, "inference")
MEMORY = Cost("memory", "peak memory", "MiB", "speed.peak_memory_mib", False)
COSTS = (TRAINING, INFERENCE, MEMORY)


class ProcessorTime(Cost):
    """The processor time of training on a CPU, which other processes hardly change; NaN on other devices.

    It is the time per window, times the processors that the run used.
    """

    def values(self, setting: Setting) -> np.ndarray:
        """Return the cost of each run, NaN where it was not measured."""
        used, wall = (setting.values(f"speed.train_{clock}_seconds") for clock in ("cpu", "wall"))
        is_cpu = [str(run.result["device"]).endswith("threads") for run in setting.runs]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(is_cpu, super().values(setting) * used / wall, np.nan)


PROCESSOR = ProcessorTime(
    "processor", "processor time of training", "ms per window", TRAINING.path, rate=True, clearly=1.25
)
"""The cost that a busy machine can still give: a shared cache or core adds up to a fifth."""


def main_conditions(group: RunGroup) -> str:
    """Return the conditions of most runs of a group; the first in order if several are equally frequent."""
    counts = Counter(setting.conditions for setting in group.settings for _ in setting.runs)
    return min(counts, key=lambda conditions: (-counts[conditions], conditions))


def compared_in_turn(group: RunGroup, cost: Cost) -> bool:
    """Return whether all settings under the main conditions were timed in the same rounds, undisturbed."""
    main = main_conditions(group)
    return timed_together([setting for setting in group.settings if setting.conditions == main], cost)


def timed_together(settings: Sequence[Setting], cost: Cost) -> bool:
    """Return whether one sweep timed the settings in the same rounds, of which enough are undisturbed."""
    sweeps = {setting.in_turn.sweep if setting.in_turn else None for setting in settings}
    return len(sweeps) == 1 and all(np.isfinite(cost.in_turn(one)).sum() >= LEAST_ROUNDS for one in settings)


def comparable(group: RunGroup, cost: Cost) -> dict[tuple[str, int], float]:
    """Return the cost of each setting measured under the main conditions.

    A time comes from the rounds if all settings have them, else from the undisturbed runs themselves.
    """
    main = main_conditions(group)
    settings = [setting for setting in group.settings if setting.conditions == main]
    if compared_in_turn(group, cost):
        return {setting.key: float(np.nanmedian(cost.in_turn(setting))) for setting in settings}
    costs = {setting.key: cost.of(setting) for setting in settings if not cost.is_disturbed(setting)}
    return {key: value for key, value in costs.items() if np.isfinite(value) and value > 0}


def bar_of(group: RunGroup, cost: Cost, setting: Setting) -> tuple[float, float]:
    """Return the distances from the compared cost to the least and the greatest, over rounds or else over seeds."""
    if not compared_in_turn(group, cost):
        return cost.bar(setting)
    rounds = cost.in_turn(setting)
    middle = float(np.nanmedian(rounds))
    return middle - float(np.nanmin(rounds)), float(np.nanmax(rounds)) - middle


def rounds_cheaper(cost: Cost, setting: Setting, against: Setting) -> np.ndarray:
    """Return the cost ratio of `against` to `setting` in each undisturbed round; empty if too few."""
    own, other = setting.in_turn, against.in_turn
    if own is None or other is None or cost.stretch is None or own.sweep != other.sweep:
        return np.empty(0)
    ratios = cost.in_turn(against) / cost.in_turn(setting)
    clean = ratios[np.isfinite(ratios)]
    return clean if len(clean) >= LEAST_ROUNDS else np.empty(0)


def times_cheaper(cost: Cost, setting: Setting, against: Setting) -> float | None:
    """Return how many times less `setting` costs than `against`; below 1 it costs more.

    Interleaved rounds are preferred: both settings saw the same machine. None if the conditions differ, a cost was not
    measured, or other processes disturbed it.
    """
    if setting.conditions != against.conditions:
        return None
    if len(ratios := rounds_cheaper(cost, setting, against)):
        return float(np.median(ratios))
    if cost.is_disturbed(setting) or cost.is_disturbed(against):
        return None
    ratio = cost.of(against) / cost.of(setting)
    return ratio if np.isfinite(ratio) else None


def cheaper_range(cost: Cost, setting: Setting, against: Setting) -> tuple[float, float] | None:
    """Return the least and the greatest `times_cheaper` over the rounds, else over the pairs of seeds.

    None without `times_cheaper`, or with one run of each setting.
    """
    if times_cheaper(cost, setting, against) is None:
        return None
    if len(ratios := rounds_cheaper(cost, setting, against)):
        return float(ratios.min()), float(ratios.max())
    if len(setting.runs) == len(against.runs) == 1:
        return None
    costs, others = cost.values(setting), cost.values(against)
    return float(others.min() / costs.max()), float(others.max() / costs.min())


def clearly_cheaper(cost: Cost, setting: Setting, against: Setting) -> bool:
    """Return whether `setting` is clearly cheaper: in every round, and by the cost's least factor in the median.

    Without rounds, its most expensive seed must be cheaper than the cheapest seed of `against` by the same factor.
    """
    times = times_cheaper(cost, setting, against)
    if times is None:
        return False
    if len(ratios := rounds_cheaper(cost, setting, against)):
        return bool(times >= cost.clearly and ratios.min() > 1)
    return bool(cost.clearly * cost.values(setting).max() <= cost.values(against).min())


def costs_by_look_back(group: RunGroup, arm: str, cost: Cost) -> dict[int, float]:
    """Return an arm's comparable costs by rising look-back."""
    return {look_back: value for (name, look_back), value in sorted(comparable(group, cost).items()) if name == arm}


def crossing_words(group: RunGroup, arm: str, cost: Cost) -> str:
    """Return the crossing as text for a table, if the arm is clearly cheaper at the longest look-back of both."""
    assert group.reference is not None
    costs, reference = (costs_by_look_back(group, each, cost) for each in (arm, group.reference))
    text = crossing_text(costs, reference)
    if crossing(costs, reference) is None:
        return text
    longest = max(set(costs) & set(reference))
    setting, against = group.at(arm, longest), group.at(group.reference, longest)
    assert setting is not None
    assert against is not None
    return text if clearly_cheaper(cost, setting, against) else f"not clearly up to {longest:,}"


Key = TypeVar("Key")


def non_dominated(points: Mapping[Key, tuple[float, float]]) -> list[Key]:
    """Return the Pareto front (both numbers low), by rising first number."""
    best = [
        key
        for key, (first, second) in points.items()
        if not any(one <= first and two <= second and (one, two) != (first, second) for one, two in points.values())
    ]
    return sorted(best, key=lambda key: points[key])


def front(group: RunGroup, cost: Cost) -> list[tuple[str, int]]:
    """Return the keys of the settings on the Pareto front of a cost and the test MSE, the cheapest first.

    It is empty if fewer than two settings have a comparable cost, or if errors are of different test windows.
    """
    costs = comparable(group, cost)
    if len(costs) < 2 or not group.same_windows:
        return []
    errors = {setting.key: error(setting) for setting in group.settings}
    return non_dominated({key: (value, errors[key]) for key, value in costs.items()})


TIMES = (TRAINING, INFERENCE)
"""The costs that other processes can change."""

MARK = "!"
"""Mark of a time that other processes disturbed."""

BUSY_NOTE = f"{MARK}: other processes disturbed the timing; such a time is not compared."

FASTER, SLOWER, NOT_CLEAR, BUSY, NOT_TIMED = "faster", "slower", "not clearly", "busy machine", "not timed"
IN_TURN, ALONE = "in turn", "alone"
"""Basis of a verdict: rounds that timed both settings, or each run's own time."""

CURE = "sweep.repeat_timing=4"


def verdict(cost: Cost, setting: Setting, against: Setting) -> str:
    """Return the verdict on the times of two settings."""
    if times_cheaper(cost, setting, against) is None:
        disturbed = cost.is_disturbed(setting) or cost.is_disturbed(against)
        return BUSY if disturbed and setting.conditions == against.conditions else NOT_TIMED
    if clearly_cheaper(cost, setting, against):
        return FASTER
    return SLOWER if clearly_cheaper(cost, against, setting) else NOT_CLEAR


def basis(cost: Cost, setting: Setting, against: Setting) -> str:
    """Return the basis of the verdict on two settings, "" without one."""
    if times_cheaper(cost, setting, against) is None:
        return ""
    return IN_TURN if len(rounds_cheaper(cost, setting, against)) else ALONE


def busy_words(group: RunGroup) -> Iterator[str]:
    """Yield one sentence if other processes disturbed times: how many settings, and what to do."""
    busy = [setting for setting in group.settings if any(_is_disturbed(cost, setting) for cost in TIMES)]
    if not busy:
        return
    again = "run the same command again on a quiet machine"
    if not any(setting.in_turn for setting in busy):
        again = "train again on a quiet machine"
        again += f", or use {CURE}" if len(group.settings) > 1 else ""
    yield (
        f"The speed of {len(busy)} of {len(group.settings)} settings cannot be judged, since other processes "
        f"disturbed the timing: {again}."
    )


def _is_disturbed(cost: Cost, setting: Setting) -> bool:
    """Return whether a time was disturbed and too few undisturbed rounds replace it."""
    return cost.is_disturbed(setting) and np.isfinite(cost.in_turn(setting)).sum() < LEAST_ROUNDS
