"""What a report says of a busy machine, and the times that its settings took in turn."""

from collections.abc import Iterator

import numpy as np

from forecast.common.rounds import LEAST_ROUNDS
from forecast.common.tables import Sheet
from forecast.common.text import NONE, from_to
from forecast.report.costs import CLEARLY, INFERENCE, TRAINING, Cost, clearly_cheaper, rounds_cheaper, times_cheaper
from forecast.report.sections import Section
from forecast.report.settings import Setting
from forecast.report.text import shown

TIMES = (TRAINING, INFERENCE)
"""The costs that other processes change."""

MARK = "!"
"""Behind a time that was taken while other processes took processors that the run needed."""

FASTER, SLOWER, NOT_CLEAR, BUSY, NOT_TIMED = "faster", "slower", "not clearly", "busy machine", "not timed"
IN_TURN, ALONE = "in turn", "alone"
"""What a verdict rests on: rounds in which both were timed, or the time of each run by itself."""

CURE = "sweep.repeat_timing=4"


def marked(cost: Cost, setting: Setting) -> str:
    """Return a cost as tables have it, with the mark where a busy machine made it."""
    return shown(cost.of(setting)) + (MARK if cost.is_disturbed(setting) else "")


def verdict(cost: Cost, setting: Setting, against: Setting) -> str:
    """Return in one word how the times of two settings compare."""
    if times_cheaper(cost, setting, against) is None:
        disturbed = cost.is_disturbed(setting) or cost.is_disturbed(against)
        return BUSY if disturbed and setting.conditions == against.conditions else NOT_TIMED
    if clearly_cheaper(cost, setting, against):
        return FASTER
    return SLOWER if clearly_cheaper(cost, against, setting) else NOT_CLEAR


def basis(cost: Cost, setting: Setting, against: Setting) -> str:
    """Return what the verdict on two settings rests on, nothing where there is none."""
    if times_cheaper(cost, setting, against) is None:
        return ""
    return IN_TURN if len(rounds_cheaper(cost, setting, against)) else ALONE


def busy_words(section: Section) -> Iterator[str]:
    """Yield the sentence on times that are not compared since the machine was busy, and what to do; none if all are."""
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


def turns_sheet(section: Section) -> Sheet | None:
    """Return the table of the times in turn beside those of the runs; None where nothing was timed in turn."""
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
    return Sheet("Timed in turn", tuple(headings), cells, notes)


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
