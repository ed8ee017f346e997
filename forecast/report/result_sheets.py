"""The tables of errors and costs, as the page and the Markdown file both show them."""

import numpy as np

from forecast.common.nested import look_up
from forecast.common.tables import Sheet
from forecast.common.text import NONE, from_to
from forecast.report.baselines import Baseline, baselines_of
from forecast.report.busy import MARK, TIMES, marked
from forecast.report.comparisons import MSE
from forecast.report.costs import (
    CLEARLY,
    COSTS,
    INFERENCE,
    MEMORY,
    TRAINING,
    Cost,
    comparable,
    compared_in_turn,
    main_conditions,
    times_cheaper,
)
from forecast.report.crossings import costs_by_look_back, crossing_words
from forecast.report.pareto import front
from forecast.report.scores import more_scores
from forecast.report.sections import Section
from forecast.report.settings import Setting
from forecast.report.text import score, shown, signed, with_spread

MAE, VALIDATION, SKILL, SHARE = "test.scaled.mae", "validation.scaled.mse", "test.skill", "model.share"

LETTERS = {TRAINING.key: "T", INFERENCE.key: "I", MEMORY.key: "M"}
"""Of the costs, in the column of what is not dominated."""


_BUSY_NOTE = f"{MARK}: other processes took processors that the run needed; such a time is compared with none"


def result_sheet(section: Section) -> Sheet:
    """Give the table of the settings and the baselines: errors, costs, and where they are not dominated."""
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
    return Sheet("Results", headings, settings + baselines, notes)


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


def range_sheet(section: Section) -> Sheet | None:
    """Give the table of what the seeds' costs range over; None where no setting has several."""
    settings = [each for arm in section.arms for each in section.of(arm) if len(each.runs) > 1]
    if not settings:
        return None
    cells = [[each.arm, f"{each.look_back:,}", *(_with_range(cost, each) for cost in COSTS)] for each in settings]
    notes = (
        "the median over the seeds (least to greatest): clocks err upwards, where others use the machine by much",
        "bars in the pictures: these, and of errors ± the standard deviation",
    )
    return Sheet("Costs over the seeds", ("mechanism", "look-back", *(cost.heading for cost in COSTS)), cells, notes)


def _with_range(cost: Cost, setting: Setting) -> str:
    """Give the median over the seeds, with the least and the greatest where they are not shown alike."""
    told, over = shown(cost.of(setting)), from_to(cost.values(setting).tolist(), shown)
    return told if told in (over, NONE) else f"{told} ({over})"


def front_sheet(section: Section) -> Sheet:
    """Give the table of the settings that are not dominated, by cost, the cheapest first."""
    settings = {setting.key: setting for setting in section.settings}
    cells = []
    for cost in COSTS:
        costs = comparable(section, cost)
        for key in front(section, cost):
            told = f"{shown(costs[key])} {cost.unit}"
            cells.append([cost.title, key[0], f"{key[1]:,}", told, score(settings[key].mean(MSE))])
    notes = ("by the means alone; whether two errors differ at all, the comparison window by window says",)
    return Sheet("Not dominated", ("against", "mechanism", "look-back", "cost", "test MSE"), cells, notes)


def crossing_sheet(section: Section) -> Sheet | None:
    """Give the table of where each mechanism begins to cost less than the reference; None where there is none."""
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
    return Sheet("Where leaving pays", headings, cells, notes)


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
