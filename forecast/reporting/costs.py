"""What a setting costs, and when one may be called cheaper than another."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from forecast.reporting.sections import Section
from forecast.reporting.settings import Setting

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
    """

    key: str
    title: str
    unit: str
    path: str
    rate: bool

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

    @property
    def heading(self) -> str:
        """Title and unit."""
        return f"{self.title}, {self.unit}"


TRAINING = Cost("train", "training time", "ms a window", "speed.train_windows_per_s", True)
INFERENCE = Cost("inference", "inference time", "ms a window", "speed.inference_windows_per_s", True)
MEMORY = Cost("memory", "peak memory", "MiB", "speed.peak_memory_mib", False)
COSTS = (TRAINING, INFERENCE, MEMORY)


def main_conditions(section: Section) -> str:
    """Give the conditions of most runs of a section; of as many, the first in order."""
    counted = Counter(setting.conditions for setting in section.settings for _ in setting.runs)
    return min(counted, key=lambda told: (-counted[told], told))


def comparable(section: Section, cost: Cost) -> dict[tuple[str, int], float]:
    """Give the cost of each setting that ran under the main conditions and measured it."""
    main = main_conditions(section)
    found = {each.key: cost.of(each) for each in section.settings if each.conditions == main}
    return {key: value for key, value in found.items() if np.isfinite(value) and value > 0}


def times_cheaper(cost: Cost, setting: Setting, against: Setting) -> float | None:
    """Give how many times less `setting` costs than `against`, None where that cannot be said.

    Below 1 it costs more. It cannot be said where the conditions differ or one was not measured.
    """
    if setting.conditions != against.conditions:
        return None
    ratio = cost.of(against) / cost.of(setting)
    return ratio if np.isfinite(ratio) else None


def clearly_cheaper(cost: Cost, setting: Setting, against: Setting) -> bool:
    """Say whether the dearest seed of `setting` is clearly cheaper than the cheapest of `against`."""
    if times_cheaper(cost, setting, against) is None:
        return False
    return bool(CLEARLY * cost.values(setting).max() <= cost.values(against).min())
