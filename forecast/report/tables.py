"""Tables of a report."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forecast.common.files import look_up
from forecast.common.tables import Table
from forecast.common.text import NONE, from_to
from forecast.common.timing import LEAST_ROUNDS
from forecast.evaluation.interval_scores import LEVELS, REPORTED
from forecast.evaluation.significance import DRAWS, LEVEL
from forecast.report.budget import facts_of
from forecast.report.comparisons import (
    LEAST_FREEDOM,
    MSE,
    ONE_SEED,
    UNDECIDED,
    Baseline,
    Comparison,
    Comparisons,
    SeedSpread,
    baselines_of,
)
from forecast.report.costs import (
    BUSY_NOTE,
    CLEARLY,
    COSTS,
    INFERENCE,
    MARK,
    MEMORY,
    PROCESSOR,
    TIMES,
    TRAINING,
    Cost,
    comparable,
    compared_in_turn,
    costs_by_look_back,
    crossing_words,
    front,
    main_conditions,
    rounds_cheaper,
    times_cheaper,
    verdict,
)
from forecast.report.groups import REFERENCE, RunGroup, Setting
from forecast.report.phrases import interval_cell, rounded, score, signed, with_deviation
from forecast.runs.read import FIGURES, SCORES
from forecast.runs.summary import dominant_series, foresight_note, typical_skill


@dataclass(frozen=True)
class FoldingTable(Table):
    """A table whose columns with the headings `folded` are hidden at first; the first `keys` columns name a row.

    `method` are notes on the statistics, which the page hides at first too.
    """

    folded: Sequence[str] = ()
    keys: int = 2
    method: Sequence[str] = ()

    def narrow(self) -> Table:
        """Return the table without the folded columns, with all notes."""
        shown = [heading not in self.folded for heading in self.headings]
        return self._columns(self.title, shown, (*self.notes, *self.method))

    def rest(self) -> Table:
        """Return the table of the folded columns and the keys, without notes."""
        shown = [place < self.keys or heading in self.folded for place, heading in enumerate(self.headings)]
        return self._columns(f"{self.title}: more columns", shown, ())

    def _columns(self, title: str, shown: Sequence[bool], notes: Sequence[str]) -> Table:
        rows = (self.headings, *self.cells)
        headings, *cells = ([cell for cell, is_in in zip(row, shown, strict=True) if is_in] for row in rows)
        return Table(title, headings, cells, notes, self.words)


HEADINGS = {"rmse": "RMSE", "smape": "sMAPE, %", "wape": "WAPE, %", "mase": "MASE"}
"""Short names of scores."""

MAE, VALIDATION, SKILL, MIXING_WEIGHT = "test.scaled.mae", "validation.scaled.mse", "test.skill", "model.mixing_weight"
TYPICAL = "test.typical.skill"

SHORT_NAMES = {TRAINING.key: "train", INFERENCE.key: "infer", MEMORY.key: "peak"}
"""Names of the costs in the column `not dominated`: the first words of their columns."""


def score_paths(results: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return column → dotted path of every score of the test and validation splits; those of the sweep's table first.

    A score in original units ends in `_original` if a score of z-scores has the same name.
    """
    paths = dict(SCORES)
    for result in results:
        for split in ("test", "validation"):
            scaled, original = (look_up(result, f"{split}.{unit}") or {} for unit in ("scaled", "original"))
            new = {f"{split}_{name}": f"{split}.scaled.{name}" for name in scaled}
            new |= {f"{split}_{name}{'_original' * (name in scaled)}": f"{split}.original.{name}" for name in original}
            paths |= {column: path for column, path in new.items() if path not in paths.values()}
    return paths


def number_paths(group: RunGroup) -> dict[str, str]:
    """Return column → dotted path of every number of a group's runs."""
    return score_paths(run.result for setting in group.settings for run in setting.runs) | FIGURES


def more_scores(group: RunGroup) -> dict[str, str]:
    """Return heading → dotted path of the test scores other than MSE and MAE."""
    names = {
        column.removeprefix("test_"): path
        for column, path in number_paths(group).items()
        if column.startswith("test_") and not column.endswith("_original")
    }
    elsewhere = ("mse", "mae", "windows")
    runs = [run for setting in group.settings for run in setting.runs]
    return {
        HEADINGS.get(name, name): path
        for name, path in names.items()
        if name not in (*elsewhere, *REPORTED) and any(look_up(run.result, path) is not None for run in runs)
    }


def interval_table(group: RunGroup) -> Table | None:
    """Return the table of the intervals: scaled quantile loss, coverage and width; None if no run has them."""
    settings = [setting for arm in group.arms for setting in group.of(arm)]
    if all(np.isnan(setting.values(f"{INTERVALS}.sql")).all() for setting in settings):
        return None
    measures = [(name, percent) for percent in LEVELS for name in ("coverage", "width")]
    paths = {f"{percent} % {name}": f"{INTERVALS}.{name}_{percent}" for name, percent in measures}
    cells = [
        [
            setting.arm,
            f"{setting.look_back:,}",
            f"{len(setting.runs)}",
            with_deviation(setting.mean(f"{INTERVALS}.sql"), setting.deviation(f"{INTERVALS}.sql")),
            *(_interval_cell(setting.mean(path), path) for path in paths.values()),
        ]
        for setting in settings
    ]
    for baseline in baselines_of(group):
        sql, *others = map(baseline.number, (f"{INTERVALS}.sql", *paths.values()))
        shown = [_interval_cell(value, path) for value, path in zip(others, paths.values(), strict=True)]
        cells.append([baseline.label, "", "", score(sql), *shown])
    notes = (
        "SQL: scaled quantile loss on the test split, like MASE but of the quantiles 0.1 to 0.9; lower is better.",
        "coverage: share of the test targets inside. width: mean width on z-scores. Means over the seeds.",
        "Each measured target counts once; SQL is averaged over series. Each row is calibrated on its own validation "
        "errors.",
    )
    return Table("Intervals", ("mechanism", "look-back", "seeds", "SQL", *paths), cells, notes)


INTERVALS = "test.intervals"
"""Dotted path of the scores of intervals."""


def _interval_cell(value: float, path: str) -> str:
    """Return a coverage in per cent, or a width."""
    if np.isnan(value):
        return NONE
    return f"{100 * value:.1f} %" if ".coverage" in path else score(value)


def _foresight_notes(group: RunGroup) -> list[str]:
    """Return a note on known covariates that were measured, for each set of them."""
    runs = [run for setting in group.settings for run in setting.runs]
    notes = (foresight_note(run.result) for run in runs)
    return [f"{note}." for note in dict.fromkeys(notes) if note is not None]


def result_table(group: RunGroup) -> FoldingTable:
    """Return the table of the settings and baselines: errors, costs, and where they are not dominated."""
    more = more_scores(group)
    fronts = {cost.key: front(group, cost) for cost in COSTS}
    is_weighted = any(not np.isnan(setting.values(MIXING_WEIGHT)).all() for setting in group.settings)
    is_busy = any(cost.is_disturbed(setting) for cost in TIMES for setting in group.settings)
    weight = ("enc.-dec., %",) if is_weighted else ()
    processor = ("train, CPU ms/window",) if is_busy else ()
    folded = ("skill, %", "val. MSE", *weight, *more, "fit, min", "best step", *processor)
    headings = (
        *("mechanism", "look-back", "seeds", "test MSE", "test MAE"),
        *("train, ms/window", "infer, ms/window", "peak MiB", "not dominated"),
        *folded,
    )
    settings = [setting for arm in group.arms for setting in group.of(arm)]
    cells = [_result_cells(setting, fronts, more, is_weighted) for setting in settings]
    baselines = [_baseline_cells(baseline, more, is_weighted) for baseline in baselines_of(group)]
    if is_busy:
        cells = [[*row, rounded(PROCESSOR.of(setting))] for row, setting in zip(cells, settings, strict=True)]
        baselines = [[*row, ""] for row in baselines]
    notes = (
        "MSE, MAE: on z-scores of the training split, mean ± standard deviation over the seeds.",
        "The last rows are baselines on the same windows. skill: test MSE relative to seasonal naive."
        if group.same_windows
        else "Not all rows are on the same test windows. The last rows are baselines. skill: test MSE relative to "
        "seasonal naive.",
        *_series_result_notes(group),
        "val.: the validation split, which selected the step.",
        *_foresight_notes(group),
        *(("enc.-dec.: mixing weight of the encoder-decoder; the linear path has the rest.",) if is_weighted else ()),
        "train: wall time of the training loop, without validation and logging. infer: the forward pass in batches.",
        "peak: peak memory of the device; on a CPU, of the whole process with its libraries.",
        "Costs are medians over the seeds. fit: from the first batch to the last.",
        "not dominated: the costs for which no other setting has both a lower error and a lower cost.",
        f"Costs are compared under {main_conditions(group)}"
        + (", times as in the table Timed in turn." if any(compared_in_turn(group, cost) for cost in TIMES) else "."),
        *((BUSY_NOTE,) if is_busy else ()),
    )
    return FoldingTable("Results", headings, cells + baselines, notes, folded=folded)


def _result_cells(
    setting: Setting, fronts: dict[str, list[tuple[str, int]]], more: dict[str, str], is_weighted: bool
) -> list[str]:
    return [
        setting.arm,
        f"{setting.look_back:,}",
        f"{len(setting.runs)}",
        *(with_deviation(setting.mean(path), setting.deviation(path)) for path in (MSE, MAE)),
        *(_with_mark(cost, setting) for cost in COSTS),
        ", ".join(name for key, name in SHORT_NAMES.items() if setting.key in fronts[key]),
        signed(100 * setting.mean(TYPICAL if _has_many_series(setting) else SKILL)),
        score(setting.mean(VALIDATION)),
        *([rounded(100 * setting.mean(MIXING_WEIGHT))] if is_weighted else []),
        *(rounded(setting.mean(path)) for path in more.values()),
        rounded(setting.mean("speed.fit_seconds") / 60),
        f"{setting.mean('model.best_step'):,.0f} of {setting.mean('model.steps'):,.0f}",
    ]


def _has_many_series(setting: Setting) -> bool:
    return all(typical_skill(run.result) is not None for run in setting.runs)


def _series_result_notes(group: RunGroup) -> list[str]:
    """Return what the skill of many series is, how many beat the seasonal naive forecast, and which one dominates."""
    settings = [setting for arm in group.arms for setting in group.of(arm) if _has_many_series(setting)]
    notes = ["skill: of the median series, since one series may decide the mean over many."] if settings else []
    for setting in settings:
        count = len(setting.runs[0].result["data"]["targets"])
        better = f"{setting.mean('test.typical.better'):,.0f} of {count:,} series"
        notes.append(f"{setting.arm} at {setting.look_back:,}: lower MSE than seasonal naive in {better}.")
    runs = [run for setting in group.settings for run in setting.runs]
    dominant = dict(found for run in runs if (found := dominant_series(run.result)) is not None)
    notes += [f"{name} has up to {100 * share:.0f} % of a model's MSE." for name, share in dominant.items()]
    return notes


def _with_mark(cost: Cost, setting: Setting) -> str:
    """Return a cost, with `MARK` if other processes disturbed it."""
    return rounded(cost.of(setting)) + (MARK if cost.is_disturbed(setting) else "")


def _baseline_cells(baseline: Baseline, more: dict[str, str], is_weighted: bool) -> list[str]:
    number = baseline.number
    return [
        *(baseline.label, "", "", score(number(MSE)), score(number(MAE))),
        *([""] * (len(COSTS) + 1)),
        *(signed(100 * baseline.skill), score(number(VALIDATION)), *([""] if is_weighted else [])),
        *(rounded(number(path)) for path in more.values()),
        *("", ""),
    ]


def range_table(group: RunGroup) -> Table | None:
    """Return the table of the costs' ranges over seeds; None if no setting has several."""
    settings = [setting for arm in group.arms for setting in group.of(arm) if len(setting.runs) > 1]
    if not settings:
        return None
    cells = [
        [setting.arm, f"{setting.look_back:,}", *(_with_range(cost, setting) for cost in COSTS)] for setting in settings
    ]
    notes = (
        "Median over the seeds (least to greatest). The median counts: other work only lengthens a time.",
        "The bars in the pictures show these ranges, and ± one standard deviation of the errors.",
    )
    return Table("Costs over the seeds", ("mechanism", "look-back", *(cost.heading for cost in COSTS)), cells, notes)


def _with_range(cost: Cost, setting: Setting) -> str:
    """Return the median over the seeds, with the range if its ends look different."""
    median, ends = rounded(cost.of(setting)), from_to(cost.values(setting).tolist(), rounded)
    return median if median in (ends, NONE) else f"{median} ({ends})"


def front_table(group: RunGroup) -> Table:
    """Return the table of the settings that are not dominated, by cost, the cheapest first."""
    settings = {setting.key: setting for setting in group.settings}
    cells = []
    for cost in COSTS:
        costs = comparable(group, cost)
        for key in front(group, cost):
            words = f"{rounded(costs[key])} {cost.unit}"
            cells.append([cost.title, key[0], f"{key[1]:,}", words, score(settings[key].mean(MSE))])
    notes = ("Errors are compared without a test here: the table Compared window by window has the tests.",)
    return Table("Not dominated", ("against", "mechanism", "look-back", "cost", "test MSE"), cells, notes, words=2)


def crossing_table(group: RunGroup) -> Table | None:
    """Return the table of the look-backs from which each mechanism costs less than the reference; None if empty."""
    reference = group.reference
    if reference is None or not any(len(costs_by_look_back(group, reference, cost)) > 1 for cost in COSTS):
        return None
    headings = (
        "mechanism",
        *(f"{cost.title}: less from look-back" for cost in COSTS),
        *(f"{cost.title}: times less at the longest" for cost in COSTS),
    )
    cells = [
        [arm, *(crossing_words(group, arm, cost) for cost in COSTS), *_longest_ratios(group, arm)]
        for arm in group.arms
        if arm != reference
    ]
    notes = (
        f"less from look-back: from there up to the longest look-back, the mechanism costs less than `{reference}`.",
        "Between measured look-backs, log cost is interpolated linearly over log look-back.",
        f"times less: below 1 it costs more. A ratio below {CLEARLY}, or overlapping seeds, is not clearly less.",
    )
    return Table("Where mechanisms cost less", headings, cells, notes)


def _longest_ratios(group: RunGroup, arm: str) -> list[str]:
    pairs = [
        (setting, against)
        for look_back in group.look_backs
        if (setting := group.at(arm, look_back)) and (against := group.at(group.reference, look_back))
    ]
    if not pairs:
        return [NONE] * len(COSTS)
    ratios = [times_cheaper(cost, *pairs[-1]) for cost in COSTS]
    look_back = pairs[-1][0].look_back
    at = "" if look_back == group.look_backs[-1] else f" at {look_back:,}"
    return [NONE if ratio is None else rounded(ratio) + at for ratio in ratios]


def turns_table(group: RunGroup) -> FoldingTable | None:
    """Return the table of the interleaved times beside those of the runs; None without interleaved times."""
    settings = [setting for arm in group.arms for setting in group.of(arm) if setting.in_turn is not None]
    if not settings:
        return None
    reference = group.reference
    headings = ["mechanism", "look-back"]
    for name in ("train", "infer"):
        headings += [f"{name}, ms/window", f"{name} alone"]
        headings += [f"{name}, times less than {reference}", f"{name} verdict"] if reference else []
    notes = (
        "After the jobs, all settings are timed one after the other, in rounds of alternating order.",
        "A time is the median of the rounds (least to greatest). train: forward, backward and update.",
        "alone: the time of the job itself; in training, of its whole loop.",
        f"A verdict needs at least {LEAST_ROUNDS} undisturbed rounds that all agree, with a median of at least "
        f"{CLEARLY}. Disturbed rounds are left out.",
        f"{MARK}: other processes disturbed the job.",
    )
    cells = [_turn_cells(group, setting) for setting in settings]
    return FoldingTable("Timed in turn", headings, cells, notes, folded=("train alone", "infer alone"))


def _turn_cells(group: RunGroup, setting: Setting) -> list[str]:
    cells = [setting.arm, f"{setting.look_back:,}"]
    against = group.at(group.reference, setting.look_back)
    for cost in TIMES:
        cells += [_rounds(cost.in_turn(setting)), _with_mark(cost, setting)]
        if group.reference:
            is_pair = against is not None and against.key != setting.key
            cells += [_rounds(rounds_cheaper(cost, setting, against)) if is_pair and against else ""]
            cells += [verdict(cost, setting, against) if is_pair and against else ""]
    return cells


def _rounds(values: np.ndarray) -> str:
    clean = values[np.isfinite(values)]
    return f"{rounded(float(np.median(clean)))} ({from_to(clean.tolist(), rounded)})" if len(clean) else NONE


LOWEST = "lowest error: "
"""Prefix of the setting with the lowest error, whose intervals have a level of their own."""


def comparison_table(comparisons: Comparisons) -> FoldingTable | None:
    """Return the table of paired comparisons; None if there is nothing to compare."""
    headings = (
        *("mechanism", "look-back", "against", "MSE, % more", "interval, %", "level, %", "verdict"),
        *("windows", "block, windows"),
    )
    cells = [_comparison_cells(pair) for pair in comparisons.every]
    if not cells:
        return None
    folded = ("level, %", "windows", "block, windows")
    notes, method = _comparison_notes(comparisons), _method(comparisons.seeds)
    return FoldingTable("Compared window by window", headings, cells, notes, folded=folded, keys=3, method=method)


def _comparison_cells(pair: Comparison) -> list[str]:
    at = f" at {pair.against.look_back:,}" if pair.against.look_back != pair.setting.look_back else ""
    lowest = "" if pair.level == LEVEL else LOWEST
    settings = [pair.setting.arm, f"{pair.setting.look_back:,}", lowest + pair.against.arm + at]
    counts = [NONE, NONE]
    if (interval := pair.interval) is not None:
        counts = [f"{interval.count:,}", f"{interval.block:,}{' (a fifth)' if interval.capped else ''}"]
    return [*settings, signed(pair.per_cent), interval_cell(pair), f"{100 * pair.level:.6g}", pair.verdict, *counts]


def _comparison_notes(comparisons: Comparisons) -> tuple[str, ...]:
    untested = {pair.why for pair in comparisons.every if pair.interval is None}
    corrected = {pair.level for pair in comparisons.with_best.values()} - {LEVEL}
    return (
        f"Each setting is compared with `{REFERENCE}` and the control at its look-back, and with the lowest error of "
        "all settings.",
        f"Each comparison has its own interval, at {100 * LEVEL:g} %.",
        *(
            "lowest error: it was chosen on these windows, so the intervals against it are wider, at "
            f"{100 * level:.6g} % (Bonferroni correction for all pairs of settings)."
            for level in corrected
        ),
        "The compared numbers are each test window's MSE, averaged over the seeds.",
        "The intervals hold for further windows of this series"
        + (" and for further seeds." if _known(comparisons.seeds) else ", not for further seeds."),
        *(
            ("a fifth: the block length is limited to a fifth of the windows; the interval may be too narrow.",)
            if any(pair.interval and pair.interval.capped for pair in comparisons.every)
            else ()
        ),
        *(text for verdict, text in _UNDECIDED.items() if any(pair.verdict == verdict for pair in comparisons.every)),
        *(f"not tested: {why}" for why in sorted(untested)),
    )


_UNDECIDED = {
    ONE_SEED: f"{ONE_SEED}: the variance between seeds is unknown, so the interval holds for these runs only.",
    UNDECIDED: f"{UNDECIDED}: the correlation of the differences lasts too long for these windows.",
}
"""Notes on verdicts that are missing although the interval excludes 0."""


def _known(seeds: Mapping[int, SeedSpread]) -> dict[SeedSpread, list[int]]:
    """Return the look-backs of each standard deviation over seeds that has enough degrees of freedom."""
    known: dict[SeedSpread, list[int]] = {}
    for look_back, spread in seeds.items():
        if spread.freedom >= LEAST_FREEDOM:
            known.setdefault(spread, []).append(look_back)
    return known


def _method(seeds: Mapping[int, SeedSpread]) -> tuple[str, ...]:
    """Return the notes on how the intervals are computed."""
    known = _known(seeds)
    spread: tuple[str, ...] = ()
    if known:
        parts = []
        for each, look_backs in known.items():
            at = f" at look-back {' and '.join(f'{length:,}' for length in look_backs)}" if len(known) > 1 else ""
            parts.append(f"{100 * each.share:.2g} %{at} ({each.freedom} degrees of freedom)")
        spread = (
            f"From seed to seed, a setting's MSE varies by {' and '.join(parts)}. This relative standard deviation is "
            f"pooled over all settings{' of a look-back' if len(known) > 1 else ''}. It widens each interval: the "
            "half-widths of windows and seeds (Student's t) are added in quadrature.",
        )
    return (
        *spread,
        f"Intervals: circular block bootstrap (Politis and Romano 1992) with {DRAWS:,} draws, stretched for few blocks "
        "(Hesterberg 2015).",
        "Neighbouring windows share targets. A block is at least twice as long as they do, and longer if the "
        "autocorrelation is long (Politis and White 2004, corrected 2009).",
    )


def equal_table(group: RunGroup) -> Table:
    """Return the table of facts that are equal, differ or are compared."""
    notes = (
        "Other keys of the configuration are listed if they differ. All keys that are not listed are equal, except "
        "names, paths and how often progress is shown or saved.",
    )
    return Table("Held equal", ("what", "state", "values"), facts_of(group), notes, words=3)


def command_table(group: RunGroup) -> Table:
    """Return the table of the commands of all runs."""
    cells = [
        [setting.arm, f"{setting.look_back:,}", str(run.result["seed"]), run.name, f"`{run.result['command']}`"]
        for setting in group.settings
        for run in setting.runs
    ]
    return Table("Commands", ("mechanism", "look-back", "seed", "folder", "command"), cells, words=5)


def left_out_table(left_out: Sequence[tuple[str, str]]) -> Table | None:
    """Return the table of folders left out; None if there are none."""
    return Table("Left out", ("folder", "why"), left_out, words=2) if left_out else None
