"""Paired comparisons of settings by the errors of their windows."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from forecast.common.files import look_up
from forecast.evaluation.metrics import skill
from forecast.evaluation.significance import LEVEL, Interval, mean_interval
from forecast.report.groups import CONTROL, REFERENCE, Key, RunGroup, Setting
from forecast.runs.read import FinishedRun
from forecast.runs.results import is_on_all_windows
from forecast.runs.run import ERRORS
from forecast.runs.summary import NAIVE_THERE, NAMES, baseline_name, typical_skill
from forecast.tables.files import read_table

Windows: TypeAlias = "pd.Series[float] | str"
"""MSE of each test window on z-scores, mean over seeds, by rising origin; or the reason why there is none."""


def read_windows(setting: Setting) -> Windows:
    """Return the errors of the test windows that all runs of a setting scored."""
    columns = []
    for run in setting.runs:
        errors = _read(run)
        if isinstance(errors, str):
            return f"{run.name}: {errors}"
        columns.append(errors)
    return pd.concat(columns, axis=1, join="inner").dropna().mean(axis=1).sort_index()


def _read(run: FinishedRun) -> Windows:
    path = run.folder / ERRORS
    if not path.is_file():
        return f"has no {ERRORS}"
    try:
        table = read_table(path)[["part", "origin", "mse"]]
    except (OSError, ValueError, KeyError):  # an InputError is a ValueError
        return f"{ERRORS} is not readable"
    test = table[table["part"] == "test"]
    data = run.result["data"]
    scored = data.get("origins", data["windows"])["test"]
    if len(test) != scored or not test["origin"].is_unique:
        return f"{ERRORS} has {len(test):,} test windows, the result {scored:,}"
    return pd.Series(test["mse"].to_numpy(float), index=pd.DatetimeIndex(test["origin"]))


MSE = "test.scaled.mse"
BETTER, WORSE, NOT_SHOWN, NOT_TESTED = "better", "worse", "no difference shown", "not tested"
UNDECIDED, ONE_SEED = "not decided", "not decided: one seed"

ONE_FORECAST = "both forecasts use the linear path alone"
"""The reason why two settings with the same forecasts are not tested."""

SAME_ERRORS = 1e-6
"""Largest relative difference between the window errors of two forecasts that count as the same."""


def error(setting: Setting) -> float:
    """Return the test MSE to nine digits: rounding of the mean over seeds must not decide an order."""
    return float(f"{setting.mean(MSE):.9g}")


LEAST_FREEDOM = 2
"""Fewest degrees of freedom of the standard deviation over seeds: with one, Student's t is 64 at 99 %."""


@dataclass(frozen=True)
class SeedSpread:
    """Standard deviation of the test MSE over seeds, relative to the setting's mean; 0 without degrees of freedom."""

    share: float
    freedom: int


def seed_spread(settings: Sequence[Setting]) -> SeedSpread:
    """Pool the standard deviation over seeds from several settings, since each has too few seeds.

    The relative standard deviation is assumed equal for them. The linear path is left out: it hardly varies.
    """
    varying = [setting for setting in settings if not setting.is_linear_path and setting.mean(MSE) > 0]
    freedom = sum(len(setting.runs) - 1 for setting in varying)
    squares = sum(float(((setting.values(MSE) / setting.mean(MSE) - 1) ** 2).sum()) for setting in varying)
    return SeedSpread(math.sqrt(squares / freedom) if freedom else 0.0, freedom)


def seed_spreads(settings: Sequence[Setting]) -> dict[int, SeedSpread]:
    """Return the pooled standard deviation over seeds at each look-back, since it may differ many times over.

    A look-back with too few degrees of freedom has that of all look-backs together.
    """
    every = seed_spread(settings)
    spreads = {
        look_back: seed_spread([setting for setting in settings if setting.look_back == look_back])
        for look_back in sorted({setting.look_back for setting in settings})
    }
    return {key: spread if spread.freedom >= LEAST_FREEDOM else every for key, spread in spreads.items()}


@dataclass(frozen=True)
class Comparison:
    """One setting against another, on the same windows.

    `interval` is for the mean difference in MSE, `setting` minus `against`. If it is None, `why` is the reason.
    `error` is the MSE of `against`. `level` is the interval's confidence level. `of_runs`: the variance between seeds
    is unknown, so the interval holds for these runs only.
    """

    setting: Setting
    against: Setting
    interval: Interval | None
    error: float = math.nan
    why: str = ""
    level: float = LEVEL
    of_runs: bool = False

    @property
    def verdict(self) -> str:
        """`better` or `worse` if the interval excludes 0, holds for further seeds and outlasts the correlation."""
        if self.interval is None:
            return NOT_TESTED
        if self.interval.low <= 0 <= self.interval.high:
            return NOT_SHOWN
        if self.of_runs or self.interval.lasting:
            return ONE_SEED if self.of_runs else UNDECIDED
        return BETTER if self.interval.mean < 0 else WORSE

    @property
    def is_undecided(self) -> bool:
        """Whether the interval excludes 0, but is no evidence about the mechanisms."""
        return self.verdict in (UNDECIDED, ONE_SEED)

    @property
    def seems_worse(self) -> bool:
        """Whether the interval is above 0, evidence or not."""
        return self.interval is not None and self.interval.low > 0

    @property
    def is_of_linear_paths(self) -> bool:
        """Whether no forecast of either setting uses attention, so that the difference says nothing about it."""
        return self.setting.is_linear_path and self.against.is_linear_path

    @property
    def per_cent(self) -> float:
        """Difference in error in per cent of `against`; without an interval, between the results' mean errors."""
        if self.interval is None:
            return _per_cent(error(self.setting) - error(self.against), error(self.against))
        return _per_cent(self.interval.mean, self.error)

    @property
    def range_per_cent(self) -> tuple[float, float]:
        """The interval in per cent of `against`; NaN if not tested."""
        if self.interval is None:
            return math.nan, math.nan
        return _per_cent(self.interval.low, self.error), _per_cent(self.interval.high, self.error)


def _per_cent(difference: float, of: float) -> float:
    return 100 * difference / of if of else math.nan


@dataclass(frozen=True)
class Comparisons:
    """All comparisons of a group, by setting key: with `full`, with `mean` at the same look-back, and with `best`.

    `best` has the lowest test MSE. It was chosen on these windows, so the level of `with_best` is corrected for all
    pairs of settings (Bonferroni). `seeds` has the standard deviation over seeds by look-back.
    """

    best: Setting
    seeds: Mapping[int, SeedSpread]
    reference: Mapping[Key, Comparison]
    control: Mapping[Key, Comparison]
    with_best: Mapping[Key, Comparison]

    @property
    def every(self) -> list[Comparison]:
        """All comparisons, without duplicates."""
        pairs = [*self.reference.values(), *self.control.values(), *self.with_best.values()]
        return list({(pair.setting.key, pair.against.key, pair.level): pair for pair in pairs}.values())


def compare_all(group: RunGroup, windows: Mapping[Key, Windows] | None = None) -> Comparisons:
    """Compare the settings of a group by the errors of their windows, by default those in the run folders."""
    if windows is None:
        windows = {setting.key: read_windows(setting) for setting in group.settings}
    seeds = seed_spreads(group.settings)
    best = min(group.settings, key=error)
    corrected = 1 - (1 - LEVEL) / max(1, math.comb(len(group.settings), 2))
    by_key = {setting.key: setting for setting in group.settings}

    @cache
    def compared(own: Key, other: Key, level: float) -> Comparison:
        return compare(by_key[own], by_key[other], windows[own], windows[other], seeds, level)

    def all_against(choose: Callable[[Setting], Setting | None], level: float = LEVEL) -> dict[Key, Comparison]:
        others = {key: other.key for key, setting in by_key.items() if (other := choose(setting)) is not None}
        return {key: compared(key, other, level) for key, other in others.items() if other != key}

    return Comparisons(
        best=best,
        seeds=seeds,
        reference=all_against(partial(group.nearest, REFERENCE)),
        control=all_against(partial(group.nearest, CONTROL)),
        with_best=all_against(lambda _: best, corrected),
    )


def compare(
    setting: Setting,
    against: Setting,
    own: Windows,
    other: Windows,
    seeds: Mapping[int, SeedSpread],
    level: float = LEVEL,
) -> Comparison:
    """Compare two settings on the windows that both scored; `seeds` are those of `seed_spreads`."""
    linear_paths = setting.is_linear_path and against.is_linear_path and setting.look_back == against.look_back
    if linear_paths and _are_alike(own, other):
        return Comparison(setting, against, None, why=ONE_FORECAST, level=level)
    if isinstance(own, str) or isinstance(other, str):
        why = next(each for each in (own, other) if isinstance(each, str))
        return Comparison(setting, against, None, why=why, level=level)
    both = pd.concat([own, other], axis=1, join="inner")
    run = setting.runs[0]
    overlap = math.ceil(run.config["horizon"] / run.result["data"].get("evaluation_stride", 1))
    interval = mean_interval((both[0] - both[1]).to_numpy(), overlap, level=level)
    if interval is None:
        why = f"{len(both):,} windows with overlap {overlap:,} are too few"
        return Comparison(setting, against, None, why=why, level=level)
    varying = [each for each in (setting, against) if not each.is_linear_path]
    of_runs = any(seeds[each.look_back].freedom < LEAST_FREEDOM for each in varying)
    widened = interval if of_runs else _with_seeds(interval, varying, seeds, level)
    return Comparison(setting, against, widened, float(both[1].mean()), level=level, of_runs=of_runs)


def _are_alike(own: Windows, other: Windows) -> bool:
    """Return whether two linear paths have the same errors, which other inputs change; True if they are unknown."""
    if isinstance(own, str) or isinstance(other, str):
        return True
    return own.index.equals(other.index) and bool(np.allclose(own, other, rtol=SAME_ERRORS, atol=0))


def _with_seeds(
    interval: Interval, varying: Sequence[Setting], seeds: Mapping[int, SeedSpread], level: float
) -> Interval:
    """Widen an interval by the variance between seeds of the settings that vary, with Student's t.

    The half-widths add in quadrature. Across look-backs, t has the degrees of freedom of Welch and Satterthwaite.
    """
    by_spread: dict[SeedSpread, float] = {}
    for each in varying:
        spread = seeds[each.look_back]
        by_spread[spread] = by_spread.get(spread, 0.0) + (error(each) * spread.share) ** 2 / len(each.runs)
    variance = sum(by_spread.values())
    if not variance:
        return interval
    freedom = variance**2 / sum(part**2 / spread.freedom for spread, part in by_spread.items())
    half = math.sqrt(variance) * float(stdtrit(freedom, (1 + level) / 2))
    low = interval.mean - math.hypot(interval.mean - interval.low, half)
    return replace(interval, low=low, high=interval.mean + math.hypot(interval.high - interval.mean, half))


LINEAR = "linear"


@dataclass(frozen=True)
class Baseline:
    """A baseline's row: key, label, scores, and skill on test (NaN without a season)."""

    name: str
    label: str
    scores: dict[str, Any]
    skill: float

    def number(self, path: str) -> float:
        """Return the number at a dotted path of the scores; NaN if there is none."""
        value = look_up(self.scores, path)
        return math.nan if value is None else float(value)

    @property
    def mse(self) -> float:
        """The test MSE on z-scores."""
        return self.number(MSE)


def baselines_of(group: RunGroup) -> list[Baseline]:
    """Return a row for each distinct score of each baseline.

    The linear one may change with the look-back: its label has the look-back of its own fit, which is limited.
    """
    rows = []
    for name in NAMES:
        alike: dict[str, tuple[dict[str, Any], float, set[int], str]] = {}
        for setting in group.settings:
            for run in setting.runs:
                scores = run.result["baselines"].get(name)
                if (mse := look_up(scores, MSE)) is not None:
                    typical = typical_skill(scores)
                    naive = look_up(scores, NAIVE_THERE) or run.number(f"baselines.seasonal_naive.{MSE}")
                    gain = skill(mse, naive) if typical is None else typical
                    seen = look_up(run.result, "linear_fit.look_back") if name == LINEAR else None
                    kept = alike.setdefault(f"{mse:.6g}", (scores, gain, set(), setting.arm))
                    kept[2].add(seen or setting.look_back)
        labels = [_at(look_backs) if len(alike) > 1 else "" for _, _, look_backs, _ in alike.values()]
        for label, (scores, gain, _, arm) in zip(labels, alike.values(), strict=True):
            beside = f", beside {arm}" if labels.count(label) > 1 else ""  # it may have read other known inputs
            rows.append(Baseline(name, baseline_name(name, scores) + label + beside, scores, gain))
    return rows


def compared_baselines(group: RunGroup) -> list[Baseline]:
    """Return the baselines on all windows of the models, whose errors compare with theirs."""
    return [baseline for baseline in baselines_of(group) if is_on_all_windows(baseline.scores)]


def _at(look_backs: set[int]) -> str:
    return f", look-back {', '.join(f'{each:,}' for each in sorted(look_backs))}"
