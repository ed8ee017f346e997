"""Errors at equal steps and at equal minutes, read off the validation curves of the runs."""

from collections.abc import Sequence

import numpy as np

from forecast.common.tables import Table
from forecast.common.text import NONE, decimals
from forecast.report.phrases import rounded, signed, with_deviation
from forecast.report.sections import Section, Setting
from forecast.runs.read import FinishedRun

STEPS, SECONDS = "step", "seconds"
"""Keys of a validation in `result.json`."""

HEADINGS = (
    *("mechanism", "look-back", "steps", "validation MSE", "against `full`, %"),
    *("minutes", "validation MSE then", "against `full` then, %"),
)


def best_within(run: FinishedRun, budget: str, limit: float) -> float:
    """Return the least validation MSE of a run up to a step or a second of training; NaN without a validation."""
    scores = [each["mse"] for each in run.result["validations"] if each[budget] <= limit]
    return min(scores, default=float("nan"))


def common_budget(settings: Sequence[Setting], budget: str) -> float:
    """Return the largest budget that every run of the settings reached with a validation."""
    return min(float(run.result["validations"][-1][budget]) for setting in settings for run in setting.runs)


def budget_table(section: Section) -> Table | None:
    """Return the table by look-back; None if fewer than two settings of a look-back have validation curves."""
    rows: list[list[str]] = []
    for look_back in section.look_backs:
        settings = [setting for arm in section.arms if (setting := section.at(arm, look_back)) is not None]
        settings = [one for one in settings if all(run.result.get("validations") for run in one.runs)]
        if len(settings) < 2:
            continue
        steps, seconds = (common_budget(settings, budget) for budget in (STEPS, SECONDS))
        at_steps, at_seconds = (
            [_scores(one, *pair) for one in settings] for pair in ((STEPS, steps), (SECONDS, seconds))
        )
        reference = section.at(section.reference, look_back)
        place = settings.index(reference) if reference in settings else None
        for number, setting in enumerate(settings):
            rows.append(
                [
                    setting.arm,
                    f"{look_back:,}",
                    f"{steps:,.0f}",
                    *_cells(at_steps, number, place),
                    decimals(seconds / 60) if seconds >= 60 else rounded(seconds / 60),
                    *_cells(at_seconds, number, place),
                ]
            )
    notes = (
        "steps, minutes: the largest budget that every run of the look-back reached. Minutes are those of the training "
        "loop, without validations.",
        "validation MSE: the least up to that budget, mean ± standard deviation over the seeds. The test split is not "
        "used.",
    )
    return Table("At equal steps and at equal minutes", HEADINGS, rows, notes) if rows else None


def _scores(setting: Setting, budget: str, limit: float) -> np.ndarray:
    return np.array([best_within(run, budget, limit) for run in setting.runs])


def _cells(scores: Sequence[np.ndarray], number: int, place: int | None) -> list[str]:
    """Return the mean over the seeds with its deviation, and its difference from the reference."""
    own = scores[number]
    spread = float(own.std(ddof=1)) if len(own) > 1 else float("nan")
    text = with_deviation(float(own.mean()), spread)
    if place is None or place == number:
        return [text, NONE]
    return [text, signed(100 * float(own.mean() / scores[place].mean() - 1))]
