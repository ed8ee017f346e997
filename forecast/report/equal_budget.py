"""Errors at equal steps and at equal minutes, read off the validation curves of the runs."""

from collections.abc import Iterator, Sequence

import numpy as np

from forecast.common.tables import Table
from forecast.common.text import NONE, duration
from forecast.report.phrases import signed, with_deviation
from forecast.report.sections import Section, Setting
from forecast.runs.read import FinishedRun

STEPS, SECONDS = "step", "seconds"
"""Keys of a validation in `result.json`."""

HEADINGS = ("look-back", "budget", "mechanism", "validation MSE", "against `full`, %")


def best_within(run: FinishedRun, budget: str, limit: float) -> float:
    """Return the least validation MSE of a run up to a step or a second of training; NaN before the first validation.

    A run keeps its best error after its end.
    """
    return min((each["mse"] for each in run.result["validations"] if each[budget] <= limit), default=float("nan"))


def ends(setting: Setting, budget: str) -> float:
    """Return the mean over the seeds of the steps or seconds of the last validation."""
    return float(np.mean([run.result["validations"][-1][budget] for run in setting.runs]))


def budget_table(section: Section) -> Table | None:
    """Return the table by look-back and budget; None if no look-back has two settings with validation curves."""
    rows = [row for look_back in section.look_backs for row in _rows(section, look_back)]
    notes = (
        "Budgets: the fewest and the most steps and training minutes that a mechanism took. Minutes are those of the "
        "training loop, without its first steps, validations and checkpoints.",
        "Validation MSE: the least up to that budget, mean ± standard deviation over the seeds; also of weights that "
        "`training.start_confidence` did not accept. A run keeps its best error after its end.",
    )
    return Table("At equal steps and at equal minutes", HEADINGS, rows, notes, words=3) if rows else None


def _rows(section: Section, look_back: int) -> Iterator[list[str]]:
    settings = [setting for arm in section.arms if (setting := section.at(arm, look_back)) is not None]
    settings = [one for one in settings if all(run.result.get("validations") for run in one.runs)]
    if len(settings) < 2:
        return
    steps = [ends(setting, STEPS) for setting in settings]
    budgets = [(STEPS, limit) for limit in sorted({min(steps), max(steps)})]
    if len({setting.conditions for setting in settings}) == 1:  # else the minutes are not those of one machine
        seconds = [ends(setting, SECONDS) for setting in settings]
        budgets += [(SECONDS, limit) for limit in sorted({min(seconds), max(seconds)})]
    reference = section.at(section.reference, look_back)
    for budget, limit in budgets:
        name = f"{limit:,.0f} steps" if budget == STEPS else duration(limit)
        base = None if reference not in settings or reference is None else _scores(reference, budget, limit)
        for setting in settings:
            yield [
                f"{look_back:,}",
                name,
                setting.arm,
                *_cells(_scores(setting, budget, limit), base, setting == reference),
            ]


def _scores(setting: Setting, budget: str, limit: float) -> np.ndarray:
    return np.array([best_within(run, budget, limit) for run in setting.runs])


def _cells(own: np.ndarray, base: np.ndarray | None, is_base: bool) -> Sequence[str]:
    """Return the mean over the seeds with its deviation, and its difference from the reference."""
    spread = float(own.std(ddof=1)) if len(own) > 1 else float("nan")
    text = with_deviation(float(own.mean()), spread)
    return [text, NONE if base is None or is_base else signed(100 * float(own.mean() / base.mean() - 1))]
