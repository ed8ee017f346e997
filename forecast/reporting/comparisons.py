"""Settings compared window by window: by how much one errs less than another, and whether that can be chance."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from forecast.reporting.bootstrap import Interval, mean_interval
from forecast.reporting.sections import CONTROL, REFERENCE, Section
from forecast.reporting.settings import Setting
from forecast.reporting.windows import Windows, read_windows, stride_of

MSE = "test.scaled.mse"
BETTER, WORSE, NOT_SHOWN, NOT_TESTED = "better", "worse", "no difference shown", "not tested"


@dataclass(frozen=True)
class Comparison:
    """One setting against another.

    Parameters
    ----------
    setting, against
        The two.
    interval
        For the mean of the windows' differences in MSE, `setting` minus `against`; None if not tested.
    error
        The MSE of `against` on the same windows.
    why
        Why it was not tested, or why an interval without 0 is not enough.
    """

    setting: Setting
    against: Setting
    interval: Interval | None
    error: float = math.nan
    why: str = ""

    @property
    def verdict(self) -> str:
        """`better` or `worse` where the interval lies on one side of 0 and the seeds agree."""
        if self.interval is None:
            return NOT_TESTED
        if self.why or self.interval.low <= 0 <= self.interval.high:
            return NOT_SHOWN
        return BETTER if self.interval.mean < 0 else WORSE

    @property
    def per_cent(self) -> float:
        """By how much more `setting` errs, in per cent of `against`; of the means over all windows if not tested."""
        if self.interval is None:
            return 100 * (self.setting.mean(MSE) / self.against.mean(MSE) - 1)
        return 100 * self.interval.mean / self.error

    @property
    def range_per_cent(self) -> tuple[float, float]:
        """The interval, in per cent of `against`; NaN if not tested."""
        if self.interval is None:
            return math.nan, math.nan
        return 100 * self.interval.low / self.error, 100 * self.interval.high / self.error


@dataclass(frozen=True)
class Comparisons:
    """All comparisons of a section, by the key of the setting.

    Parameters
    ----------
    best
        The setting of the lowest test MSE.
    reference, control, with_best
        Each setting against `full` and against `mean` at its look-back, and against the best.
    stride
        Steps from one scored window to the next, by the key of the setting.
    """

    best: Setting
    reference: Mapping[tuple[str, int], Comparison]
    control: Mapping[tuple[str, int], Comparison]
    with_best: Mapping[tuple[str, int], Comparison]
    stride: Mapping[tuple[str, int], int]

    @property
    def every(self) -> list[Comparison]:
        """All, those that stand twice once."""
        found = [*self.reference.values(), *self.control.values(), *self.with_best.values()]
        return list({(each.setting.key, each.against.key): each for each in found}.values())


def compare_all(section: Section) -> Comparisons:
    """Compare the settings of a section."""
    windows = {setting.key: read_windows(setting) for setting in section.settings}
    best = min(section.settings, key=lambda setting: setting.mean(MSE))
    made: dict[tuple[tuple[str, int], tuple[str, int]], Comparison] = {}

    def each_against(choose: Mapping[tuple[str, int], Setting | None]) -> dict[tuple[str, int], Comparison]:
        found = {}
        for setting in section.settings:
            other = choose[setting.key]
            if other is not None and other.key != setting.key:
                pair = (setting.key, other.key)
                if pair not in made:
                    made[pair] = compare(setting, other, windows[setting.key], windows[other.key])
                found[setting.key] = made[pair]
        return found

    return Comparisons(
        best=best,
        reference=each_against({each.key: section.nearest(REFERENCE, each) for each in section.settings}),
        control=each_against({each.key: section.nearest(CONTROL, each) for each in section.settings}),
        with_best=each_against({each.key: best for each in section.settings}),
        stride={key: _stride(section, its) for key, its in windows.items()},
    )


def compare(setting: Setting, against: Setting, own: Windows, other: Windows) -> Comparison:
    """Compare two settings on the windows that both have scored."""
    if own.errors is None or other.errors is None:
        return Comparison(setting, against, None, why=own.why or other.why)
    both = pd.concat([own.errors, other.errors], axis=1, join="inner")
    run = setting.runs[0]
    stride = stride_of(pd.DatetimeIndex(both.index), run.result["data"].get("frequency") or "h")
    overlap = math.ceil(run.config["horizon"] / stride)
    interval = mean_interval((both[0] - both[1]).to_numpy(), overlap)
    if interval is None:
        few = f"{len(both):,} windows that overlap over {overlap:,}: too few for an interval"
        return Comparison(setting, against, None, why=few)
    return Comparison(setting, against, interval, float(both[1].mean()), _disagreement(setting, against))


def _disagreement(setting: Setting, against: Setting) -> str:
    """Say whether seeds of the one err less and more than seeds of the other, where both have several."""
    own, other = setting.values(MSE), against.values(MSE)
    if min(len(own), len(other)) < 2 or own.max() < other.min() or own.min() > other.max():
        return ""
    return "their seeds overlap"


def _stride(section: Section, windows: Windows) -> int:
    if windows.errors is None:
        return 1
    frequency = section.settings[0].runs[0].result["data"].get("frequency") or "h"
    return stride_of(pd.DatetimeIndex(windows.errors.index), frequency)
