"""Errors at equal steps and at equal minutes, read off the validation curves of the runs."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from forecast.common.files import look_up
from forecast.common.tables import Table
from forecast.common.text import NONE, duration
from forecast.report.costs import TRAINING, timed_together
from forecast.report.groups import REFERENCE, RunGroup, Setting
from forecast.report.phrases import signed, with_deviation
from forecast.runs.read import FinishedRun

HEADINGS = ("look-back", "budget", "mechanism", "validation MSE", "against `full`, %")

NEARLY = 0.95
"""Budgets whose ratio is larger differ by no more than the noise of a clock, and the larger one stands for both."""

Curve = Sequence[tuple[float, float]]
"""What a run had spent at each validation, in steps or seconds, and its validation MSE."""


class Curves(NamedTuple):
    """A setting and the curve of each of its runs."""

    setting: Setting
    runs: Sequence[Curve]

    @property
    def ends(self) -> list[float]:
        """What each run had spent at its last validation."""
        return [curve[-1][0] for curve in self.runs]

    def within(self, limit: float) -> np.ndarray:
        """Return the least MSE of each run up to a limit; NaN before its first validation.

        A run keeps its least error after its end.
        """
        return np.array([min((mse for spent, mse in curve if spent <= limit), default=np.nan) for curve in self.runs])


def budget_table(group: RunGroup) -> Table | None:
    """Return the table by look-back and budget; None if no look-back has two settings with validation curves."""
    rows = [row for look_back in group.look_backs for row in _rows(group, look_back)]
    return Table("At equal steps and at equal minutes", HEADINGS, rows, _notes(group), words=3) if rows else None


def _notes(group: RunGroup) -> list[str]:
    notes = [
        "Budgets: the fewest and the most steps and training minutes of a run; one of them if they are within 5 %.",
        "Minutes are steps times the time of a step as timed in turn, if the sweep timed its settings so. Else they "
        "are those of the training loop, without its first steps, validations and checkpoints. Minutes that other "
        "processes disturbed are left out.",
        "Validation MSE: the least up to that budget, mean ± standard deviation over the seeds; also of weights that "
        "`training.start_confidence` did not accept. A run keeps its least error after its end.",
    ]
    runs = [run for setting in group.settings for run in setting.runs if run.result.get("validations")]
    if any(map(_rate_falls, runs)):
        notes.append(
            "The learning rate falls until the end of a run. So a run that was still going on at a budget might have "
            "done better if it had been planned for that budget."
        )
    return notes


def _rate_falls(run: FinishedRun) -> bool:
    """Return whether the schedule is one of ours whose rate falls until the end of the run."""
    name = str(look_up(run.config, "scheduler._target_")).rpartition(".")[2]
    return name in ("one_cycle", "halving") or (
        name == "cosine" and float(look_up(run.config, "scheduler.final_factor")) < 1
    )


def _rows(group: RunGroup, look_back: int) -> Iterator[list[str]]:
    settings = [setting for arm in group.arms if (setting := group.at(arm, look_back)) is not None]
    settings = [one for one in settings if all(run.result.get("validations") for run in one.runs)]
    if len(settings) < 2:
        return
    over_steps = [Curves(one, [_curve(run, "step") for run in one.runs]) for one in settings]
    yield from _cells(group, over_steps, lambda limit: f"{limit:,.0f} steps")
    yield from _cells(group, _over_seconds(settings), duration)


def _over_seconds(settings: Sequence[Setting]) -> list[Curves]:
    """Return the curves over the seconds of training; none if the settings' seconds cannot be compared."""
    if len({setting.conditions for setting in settings}) > 1:
        return []
    if timed_together(settings, TRAINING):
        return [Curves(one, [_curve(run, "step", _step_seconds(one, run)) for run in one.runs]) for one in settings]
    if any(TRAINING.is_disturbed(setting) for setting in settings):
        return []
    return [Curves(one, [_curve(run, "seconds") for run in one.runs]) for one in settings]


def _step_seconds(setting: Setting, run: FinishedRun) -> float:
    """Return the time of a training step as timed in turn, the median of the rounds."""
    return float(np.nanmedian(TRAINING.in_turn(setting))) * run.number("config.training.batch_size") / 1000


def _curve(run: FinishedRun, key: str, factor: float = 1.0) -> Curve:
    return [(factor * each[key], each["mse"]) for each in run.result["validations"]]


def _cells(group: RunGroup, curves: Sequence[Curves], name: Callable[[float], str]) -> Iterator[list[str]]:
    """Yield a row per budget and setting: the mean error with its deviation, and its difference from `full`.

    A setting is compared with the setting of `full` that is most like it, as everywhere in the report.
    """
    spent = [end for each in curves for end in each.ends] or [0.0]
    least, most = min(spent), max(spent)
    for limit in [least, most] if least < NEARLY * most else [most]:
        means = {each.setting.key: float(each.within(limit).mean()) for each in curves}
        for setting, own in ((each.setting, each.within(limit)) for each in curves):
            error = with_deviation(float(own.mean()), float(own.std(ddof=1)) if len(own) > 1 else np.nan)
            nearest = None if setting.mechanism == REFERENCE else group.nearest(REFERENCE, setting)
            base = None if nearest is None else means.get(nearest.key)
            more = signed(100 * (means[setting.key] / base - 1)) if base else NONE
            yield [f"{setting.look_back:,}", name(limit), setting.arm, error, more]
