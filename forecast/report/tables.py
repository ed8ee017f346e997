"""Tables of a report."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from forecast.common.files import look_up, read_json
from forecast.common.tables import Table
from forecast.common.text import NONE, from_to
from forecast.evaluation.significance import DRAWS, LEVEL, Interval
from forecast.report.budget import facts_of
from forecast.report.comparisons import LEAST_FREEDOM, MSE, Baseline, Comparison, Comparisons, SeedSpread, baselines_of
from forecast.report.costs import (
    CLEARLY,
    COSTS,
    INFERENCE,
    MARK,
    MEMORY,
    TIMES,
    TRAINING,
    Cost,
    comparable,
    compared_in_turn,
    costs_by_look_back,
    crossing_words,
    front,
    main_conditions,
    marked,
    times_cheaper,
)
from forecast.report.phrases import interval_words, level_words, score, shown, signed, with_spread
from forecast.report.sections import REFERENCE, Section, Setting
from forecast.runs.read import FIGURES, SCORES, FinishedRun
from forecast.runs.run import TRANSPLANT

LOWEST = ", the lowest"
"""Suffix of a setting that others are compared with for its lowest error."""


def equal_table(section: Section) -> Table:
    """Return the table of equal and differing facts."""
    notes = (
        "other keys of the configuration are listed where they differ; what is not listed was the same in all, "
        "names, paths and how often progress was shown or saved aside",
    )
    return Table("Held equal", ("what", "state", "values"), facts_of(section), notes, words=3)


def comparison_table(comparisons: Comparisons) -> Table | None:
    """Return the table of paired comparisons, None where there is nothing to compare."""
    headings = (
        *("mechanism", "look-back", "against", "MSE, % more", "interval, %", "level, %", "verdict"),
        *("windows", "block, windows"),
    )
    cells = [_comparison_cells(each) for each in comparisons.every]
    return Table("Compared window by window", headings, cells, _comparison_notes(comparisons)) if cells else None


def _comparison_cells(each: Comparison) -> list[str]:
    there = f" at {each.against.look_back:,}" if each.against.look_back != each.setting.look_back else ""
    lowest = "" if each.level == LEVEL else LOWEST
    settings = [each.setting.arm, f"{each.setting.look_back:,}", each.against.arm + there + lowest]
    counts = [NONE, NONE] if each.interval is None else [f"{each.interval.count:,}", _block(each.interval)]
    return [*settings, signed(each.per_cent), interval_words(each), level_words(each), each.verdict, *counts]


def _block(interval: Interval) -> str:
    return f"{interval.block:,}" + (" (a fifth)" if interval.capped else "")


def _comparison_notes(comparisons: Comparisons) -> tuple[str, ...]:
    untested = {each.why for each in comparisons.every if each.interval is None}
    among = {each.level for each in comparisons.with_best.values()} - {LEVEL}
    return (
        f"each setting against `{REFERENCE}` and the control at its look-back, and against the lowest error of all; an "
        "interval for each, none for all of them together",
        *(
            f"the lowest was chosen on these windows: those intervals are of {100 * level:.6g} %, at which those of "
            f"all pairs hold together at {100 * LEVEL:g} %"
            for level in among
        ),
        "of each test window's MSE, averaged over the seeds first: the interval speaks of further windows of this "
        f"series{_seeds_note(comparisons.seeds)}",
        f"circular block bootstrap (Politis and Romano 1992), {DRAWS:,} draws: neighbouring windows share targets, so "
        "a block is twice as long as they do, longer where the differences' own autocorrelation asks for it (Politis "
        "and White 2004, corrected 2009); stretched for the few blocks (Hesterberg 2015)",
        *(
            ("a fifth: longer blocks were asked for than a fifth of the windows; the interval may be too narrow",)
            if any(each.interval and each.interval.capped for each in comparisons.every)
            else ()
        ),
        *(f"not tested: {why}" for why in sorted(untested)),
    )


def _seeds_note(seeds: SeedSpread) -> str:
    """Return the note on the spread over seeds."""
    if seeds.freedom < LEAST_FREEDOM:
        return ", not of further seeds"
    return (
        f" and of further seeds: the MSE varies by {100 * seeds.share:.2g} % from one to another (standard deviation, "
        f"one for all settings, {seeds.freedom} degrees of freedom; Student's, added in quadrature)"
    )


def command_table(section: Section) -> Table:
    """Return the table of the commands of all runs."""
    cells = [
        [setting.arm, f"{setting.look_back:,}", str(run.result["seed"]), run.name, f"`{run.result['command']}`"]
        for setting in section.settings
        for run in setting.runs
    ]
    return Table("Commands", ("mechanism", "look-back", "seed", "folder", "command"), cells, words=5)


def left_out_table(left_out: Sequence[tuple[str, str]]) -> Table | None:
    """Return the table of folders left out, None if there are none."""
    return Table("Left out", ("folder", "why"), left_out, words=2) if left_out else None


HEADINGS = {"rmse": "RMSE", "smape": "sMAPE, %", "wape": "WAPE, %", "mase": "MASE"}
"""Short names of scores."""


def score_paths(results: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return column → dotted path of every score of the test and validation parts, those of the sweep's table first.

    A score in original units ends in `_original` if z-scores have one of the same name.
    """
    paths = dict(SCORES)
    for result in results:
        for part in ("test", "validation"):
            scaled, original = (look_up(result, f"{part}.{unit}") or {} for unit in ("scaled", "original"))
            found = {f"{part}_{name}": f"{part}.scaled.{name}" for name in scaled}
            found |= {f"{part}_{name}{'_original' * (name in scaled)}": f"{part}.original.{name}" for name in original}
            paths |= {column: path for column, path in found.items() if path not in paths.values()}
    return paths


def number_paths(section: Section) -> dict[str, str]:
    """Return column → dotted path of every number of a section's runs."""
    return score_paths(run.result for setting in section.settings for run in setting.runs) | FIGURES


def more_scores(section: Section) -> dict[str, str]:
    """Return heading → dotted path of the test scores other than MSE and MAE."""
    names = {
        column.removeprefix("test_"): path
        for column, path in number_paths(section).items()
        if column.startswith("test_") and not column.endswith("_original")
    }
    elsewhere = ("mse", "mae", "windows")
    held = {name: path for name, path in names.items() if name not in elsewhere and _is_held(section, path)}
    return {HEADINGS.get(name, name): path for name, path in held.items()}


def _is_held(section: Section, path: str) -> bool:
    return any(look_up(run.result, path) is not None for setting in section.settings for run in setting.runs)


MAE, VALIDATION, SKILL, SHARE = "test.scaled.mae", "validation.scaled.mse", "test.skill", "model.share"

LETTERS = {TRAINING.key: "T", INFERENCE.key: "I", MEMORY.key: "M"}
"""Letters of the costs in the column `not dominated`."""


_BUSY_NOTE = f"{MARK}: other processes took processors that the run needed; such a time is compared with none"


def result_table(section: Section) -> Table:
    """Return the table of the settings and baselines: errors, costs, and where they are not dominated."""
    more = more_scores(section)
    fronts = {cost.key: front(section, cost) for cost in COSTS}
    weighs = any(not np.isnan(setting.values(SHARE)).all() for setting in section.settings)
    share = ("enc.-dec., %",) if weighs else ()
    headings = (
        *("mechanism", "look-back", "seeds", "test MSE", "test MAE"),
        *("train, ms/window", "infer, ms/window", "peak MiB", "not dominated"),
        *("skill, %", "val. MSE", *share, *more, "fit, min", "best step"),
    )
    settings = [_cells(each, _letters(each, fronts), more, weighs) for arm in section.arms for each in section.of(arm)]
    baselines = [_baseline_cells(each, more, weighs) for each in baselines_of(section)]
    notes = (
        "MSE, MAE: on z-scores of the training part, mean ± standard deviation over the seeds; val.: of the part that "
        "chose the step; skill: test MSE against seasonal naive; the last rows: baselines on the same windows",
        *(("enc.-dec.: its weight in the forecast, by validation; the rest is the linear path's",) if weighs else ()),
        "train: the training loop by a clock on the wall, validation and logging aside; infer: the forward pass in "
        "batches; peak: of the device, on a CPU of the whole process with its libraries; of several seeds the median; "
        "fit: first batch to last",
        "not dominated: nothing else has as low an error and a lower cost, of T training time, I inference time, "
        f"M memory; compared are costs under {main_conditions(section)}"
        + (", times as in the table Timed in turn" if any(compared_in_turn(section, cost) for cost in TIMES) else ""),
        *((_BUSY_NOTE,) if any(cost.is_disturbed(each) for cost in TIMES for each in section.settings) else ()),
    )
    return Table("Results", headings, settings + baselines, notes)


def _cells(setting: Setting, not_dominated: str, more: dict[str, str], weighs: bool) -> list[str]:
    return [
        setting.arm,
        f"{setting.look_back:,}",
        f"{len(setting.runs)}",
        *(with_spread(setting.mean(path), setting.spread(path)) for path in (MSE, MAE)),
        *(marked(cost, setting) for cost in COSTS),
        not_dominated,
        signed(100 * setting.mean(SKILL)),
        score(setting.mean(VALIDATION)),
        *([shown(100 * setting.mean(SHARE))] if weighs else []),
        *(shown(setting.mean(path)) for path in more.values()),
        shown(setting.mean("speed.fit_seconds") / 60),
        f"{setting.mean('model.best_step'):,.0f} of {setting.mean('model.steps'):,.0f}",
    ]


def _baseline_cells(baseline: Baseline, more: dict[str, str], weighs: bool) -> list[str]:
    def number(path: str) -> float:
        value = look_up(baseline.scores, path)
        return float("nan") if value is None else float(value)

    return [
        *(baseline.label, "", "", score(number(MSE)), score(number(MAE))),
        *([""] * (len(COSTS) + 1)),
        *(signed(100 * baseline.skill), score(number(VALIDATION)), *([""] if weighs else [])),
        *(shown(number(path)) for path in more.values()),
        *("", ""),
    ]


def _letters(setting: Setting, fronts: dict[str, list[tuple[str, int]]]) -> str:
    return " ".join(letter for key, letter in LETTERS.items() if setting.key in fronts[key])


def range_table(section: Section) -> Table | None:
    """Return the table of the costs' ranges over seeds; None if no setting has several."""
    settings = [each for arm in section.arms for each in section.of(arm) if len(each.runs) > 1]
    if not settings:
        return None
    cells = [[each.arm, f"{each.look_back:,}", *(_with_range(cost, each) for cost in COSTS)] for each in settings]
    notes = (
        "the median over the seeds (least to greatest): clocks err upwards, where others use the machine by much",
        "bars in the pictures: these, and of errors ± the standard deviation",
    )
    return Table("Costs over the seeds", ("mechanism", "look-back", *(cost.heading for cost in COSTS)), cells, notes)


def _with_range(cost: Cost, setting: Setting) -> str:
    """Return the median over the seeds, with the range if its ends look different."""
    told, over = shown(cost.of(setting)), from_to(cost.values(setting).tolist(), shown)
    return told if told in (over, NONE) else f"{told} ({over})"


def front_table(section: Section) -> Table:
    """Return the table of the settings that are not dominated, by cost, the cheapest first."""
    settings = {setting.key: setting for setting in section.settings}
    cells = []
    for cost in COSTS:
        costs = comparable(section, cost)
        for key in front(section, cost):
            told = f"{shown(costs[key])} {cost.unit}"
            cells.append([cost.title, key[0], f"{key[1]:,}", told, score(settings[key].mean(MSE))])
    notes = ("by the means alone; whether two errors differ at all, the comparison window by window says",)
    return Table("Not dominated", ("against", "mechanism", "look-back", "cost", "test MSE"), cells, notes)


def crossing_table(section: Section) -> Table | None:
    """Return the table of the look-backs from which each mechanism costs less than the reference; None if empty."""
    reference = section.reference
    if reference is None or not any(len(costs_by_look_back(section, reference, cost)) > 1 for cost in COSTS):
        return None
    headings = (
        "mechanism",
        *(f"{cost.title}: less from look-back" for cost in COSTS),
        *(f"{cost.title}: times less at the longest" for cost in COSTS),
    )
    cells = [
        [arm, *(crossing_words(section, arm, cost) for cost in COSTS), *_longest_ratios(section, arm)]
        for arm in section.arms
        if arm != reference
    ]
    notes = (
        f"from which look-back on it costs less than `{reference}`, up to the longest; between two look-backs that "
        "were measured, on the straight line of log cost on log look-back (interpolated, not measured)",
        f"times less: below 1 it costs more; nearer to 1 than {CLEARLY}, or where seeds overlap, not clearly less",
    )
    return Table("Where leaving pays", headings, cells, notes)


def _longest_ratios(section: Section, arm: str) -> list[str]:
    both = [
        (own, reference)
        for look_back in section.look_backs
        if (own := section.at(arm, look_back)) and (reference := section.at(section.reference, look_back))
    ]
    if not both:
        return [NONE] * len(COSTS)
    ratios = [times_cheaper(cost, *both[-1]) for cost in COSTS]
    look_back = both[-1][0].look_back
    at = "" if look_back == section.look_backs[-1] else f" at {look_back:,}"
    return [NONE if ratio is None else shown(ratio) + at for ratio in ratios]


TITLE = "Transplanted"


def transplant_table(section: Section) -> Table | None:
    """Return the table of transplants, means over their seeds; None if no run has any."""
    cells, damaged = [], []
    for setting in section.settings:
        by_key: dict[tuple[int, str], list[Sequence[float]]] = {}
        for run in setting.runs:
            transplants = transplants_of(run)
            damaged += [run.name] * (transplants is None)
            for key, numbers in (transplants or {}).items():
                by_key.setdefault(key, []).append(numbers)
        for (look_back, attention), each in sorted(by_key.items()):
            mse, mae, more, times = np.mean(each, axis=0)
            there = [setting.arm, f"{setting.look_back:,}", attention, f"{look_back:,}", str(len(each))]
            cells.append([*there, score(mse), score(mae), signed(more), shown(times)])
    headings = (
        *("trained with", "at look-back", "run with", "at look-back", "seeds", "test MSE", "test MAE"),
        *("MSE, % more", "times its time"),
    )
    notes = (
        "the weights of a run under another mechanism or look-back, nothing trained anew (`python -m forecast.predict."
        "transplant`); % more, times: against the same weights as they were trained, scored beside them",
        *(f"{name}: its {TRANSPLANT} is not readable, and left out" for name in damaged),
    )
    return Table(TITLE, headings, cells, notes) if cells or damaged else None


def transplants_of(run: FinishedRun) -> dict[tuple[int, str], Sequence[float]] | None:
    """Return the transplants of a run by look-back and mechanism, empty if none was tried; None if unreadable.

    The values are MSE, MAE, % more MSE than as trained, and times the time as trained.
    """
    try:
        content = read_json(run.folder / TRANSPLANT)
        if content is None:
            return {}
        trained, *others = content["scored"]
        return {(int(each["context_length"]), str(each["attention"])): _beside(each, trained) for each in others}
    except (OSError, ValueError, TypeError, KeyError, ArithmeticError, RecursionError):
        return None


def _beside(found: Mapping[str, Any], trained: Mapping[str, Any]) -> Sequence[float]:
    (mse, mae, seconds), (own_mse, _, own_seconds) = (
        [
            float("nan") if value is None else float(value)
            for value in (each["test"]["mse"], each["test"]["mae"], each["seconds_per_window"])
        ]
        for each in (found, trained)
    )
    return mse, mae, 100 * (mse / own_mse - 1), seconds / own_seconds
