"""What a setting costs, and when one may be called cheaper than another."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from forecast.common.nested import look_up
from forecast.common.rounds import LEAST_ROUNDS
from forecast.report.sections import Section
from forecast.report.settings import Setting

CLEARLY = 1.1
"""A ratio of costs nearer to 1 is not called a difference: clocks of short runs differ by as much."""


@dataclass(frozen=True)
class Cost:
    """A measured cost.

    Parameters
    ----------
    key
        Of columns and files.
    title, unit
        As tables and pictures say it.
    path
        Where a result has it; of a rate the cost is 1000 over it.
    rate
        Whether it is windows a second there.
    stretch
        Of a time: how the load of the machine is called in a result, and the stretches in turn; None of no time.
    """

    key: str
    title: str
    unit: str
    path: str
    rate: bool
    stretch: str | None = None

    def values(self, setting: Setting) -> np.ndarray:
        """Give the cost of each run, NaN where it was not measured."""
        values = setting.values(self.path)
        return 1000 / values if self.rate else values

    def of(self, setting: Setting) -> float:
        """Give the median over the seeds: a clock errs upwards, and now and then by much."""
        return float(np.median(self.values(setting)))

    def bar(self, setting: Setting) -> tuple[float, float]:
        """Give how far the cheapest seed lies below that median, and the dearest above."""
        values = self.values(setting)
        return self.of(setting) - float(values.min()), float(values.max()) - self.of(setting)

    def is_disturbed(self, setting: Setting) -> bool:
        """Say whether other processes took processors from one of the runs while this was measured."""
        path = f"speed.{self.stretch}_disturbed"
        return self.stretch is not None and any(look_up(run.result, path) is True for run in setting.runs)

    def in_turn(self, setting: Setting) -> np.ndarray:
        """Return the milliseconds a window of each round in turn, NaN where others disturbed it; none if not timed."""
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
    """Give the conditions of most runs of a section; of as many, the first in order."""
    counted = Counter(setting.conditions for setting in section.settings for _ in setting.runs)
    return min(counted, key=lambda told: (-counted[told], told))


def compared_in_turn(section: Section, cost: Cost) -> bool:
    """Say whether all settings under the main conditions were timed in turn with one another, undisturbed."""
    main = main_conditions(section)
    settings = [each for each in section.settings if each.conditions == main]
    sweeps = {each.in_turn.sweep if each.in_turn else None for each in settings}
    return len(sweeps) == 1 and all(np.isfinite(cost.in_turn(each)).sum() >= LEAST_ROUNDS for each in settings)


def comparable(section: Section, cost: Cost) -> dict[tuple[str, int], float]:
    """Give the cost of each setting that ran under the main conditions and measured it.

    A time is that in turn where all have one, else that of the runs themselves, but for those that were disturbed.
    """
    main = main_conditions(section)
    settings = [each for each in section.settings if each.conditions == main]
    if compared_in_turn(section, cost):
        return {each.key: float(np.nanmedian(cost.in_turn(each))) for each in settings}
    found = {each.key: cost.of(each) for each in settings if not cost.is_disturbed(each)}
    return {key: value for key, value in found.items() if np.isfinite(value) and value > 0}


def bar_of(section: Section, cost: Cost, setting: Setting) -> tuple[float, float]:
    """Return how far the least lies below the cost that is compared, and the greatest above: of rounds, or of seeds."""
    if not compared_in_turn(section, cost):
        return cost.bar(setting)
    rounds = cost.in_turn(setting)
    middle = float(np.nanmedian(rounds))
    return middle - float(np.nanmin(rounds)), float(np.nanmax(rounds)) - middle


def rounds_cheaper(cost: Cost, setting: Setting, against: Setting) -> np.ndarray:
    """Return how many times less `setting` takes in each undisturbed round in turn with `against`; none if too few."""
    own, other = setting.in_turn, against.in_turn
    if own is None or other is None or own.sweep != other.sweep or cost.stretch is None:
        return np.empty(0)
    ratios = cost.in_turn(against) / cost.in_turn(setting)
    clean = ratios[np.isfinite(ratios)]
    return clean if len(clean) >= LEAST_ROUNDS else np.empty(0)


def times_cheaper(cost: Cost, setting: Setting, against: Setting) -> float | None:
    """Give how many times less `setting` costs than `against`, None where that cannot be said.

    Below 1 it costs more. Times are those in turn where there are some: both saw the same machine. It cannot be said
    where the conditions differ, one was not measured, or other processes disturbed one.
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
    """Say whether `setting` is clearly cheaper than `against`.

    In turn: in every round, and by the margin in the middle one. Else: its dearest seed than the other's cheapest.
    """
    times = times_cheaper(cost, setting, against)
    if times is None:
        return False
    if len(ratios := rounds_cheaper(cost, setting, against)):
        return bool(times >= CLEARLY and ratios.min() > 1)
    return bool(CLEARLY * cost.values(setting).max() <= cost.values(against).min())
