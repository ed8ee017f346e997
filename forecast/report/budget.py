"""The training budget of runs: the facts that were equal for all of them, and errors at equal steps and minutes."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from forecast.common.files import flatten, look_up
from forecast.common.tables import Table
from forecast.common.text import NONE, duration
from forecast.report.costs import TRAINING, timed_together
from forecast.report.groups import REFERENCE, Key, RunGroup, Setting
from forecast.report.phrases import signed, with_deviation
from forecast.runs.labels import NOT_SCORED
from forecast.runs.read import FinishedRun
from forecast.runs.summary import EARLY


def windows_seen(run: FinishedRun) -> int:
    """Return the training windows of a run's steps, repeated ones included."""
    return int(run.number("model.steps")) * int(run.number("config.training.batch_size"))


def passes(run: FinishedRun) -> float:
    """Return the number of passes over the training windows."""
    return windows_seen(run) / run.number("data.windows.train")


def steps_of_a_pass(run: FinishedRun) -> int:
    """Return the training steps of one pass over the training windows."""
    return math.ceil(run.number("data.windows.train") / run.number("config.training.batch_size"))


def is_partial(run: FinishedRun) -> bool:
    """Return whether a run made less than one pass over its data, apart from rounding to whole steps."""
    rounding = int(run.number("config.training.batch_size"))
    return windows_seen(run) + rounding <= run.number("data.windows.train")


def is_best_last(run: FinishedRun) -> bool:
    """Return whether the last validated step was the best, so that more steps might help."""
    return run.number("model.best_step") >= run.number("model.steps")


def is_short(run: FinishedRun) -> bool:
    """Return whether a run ended too early to judge quality, for either reason.

    A run that early stopping ended did not: its validation error had not fallen for the chosen number of validations.
    """
    return run.result["status"] != EARLY and (is_partial(run) or is_best_last(run))


EQUAL, DIFFERS, COMPARED = "equal", "differs", "compared"

MOST_VALUES = 6
"""Maximum number of values in a list; more numbers are shown as a range."""


class Fact(NamedTuple):
    """A fact about the runs: its name, whether it is equal for all, and its values with their settings."""

    name: str
    state: str
    values: str


ReadFact = Callable[[FinishedRun], Any]


def _at(path: str) -> ReadFact:
    return lambda run: look_up(run.result, path)


def _device(run: FinishedRun) -> tuple[str, str]:
    name, _, threads = str(run.result["device"]).rpartition(", ")
    return (name, threads) if threads.endswith("threads") else (str(run.result["device"]), "")


FACTS: dict[str, ReadFact] = {
    "parameters": _at("model.parameters"),
    "training steps": _at("model.steps"),
    "windows a step": _at("config.training.batch_size"),
    "windows seen in training": windows_seen,
    "passes over the training windows": lambda run: float(f"{passes(run):.3g}"),
    "training windows": _at("data.windows.train"),
    "validation windows": _at("data.windows.validation"),
    "test windows scored": _at("data.windows.test"),
    "steps between scored windows": lambda run: run.result["data"].get("evaluation_stride", 1),
    "test windows left out (gaps)": _at("data.windows_left_out.test"),
    "first training target": _at("data.first_train_target"),
    "first test target": _at("data.first_test_target"),
    "how training ended": _at("status"),
    "device": lambda run: _device(run)[0],
    "threads": lambda run: _device(run)[1],
    "processes": _at("processes"),
    "a process for each job": _at("config.sweep.isolate"),
    "precision": _at("precision"),
    "torch": _at("versions.torch"),
    "commit": _at("commit"),
}

LEFT_OUT_GROUPS = ("attention.", "sweep.", "logger.", *(f"data.{key}" for key in NOT_SCORED))
LEFT_OUT_KEYS = (
    *("context_length", "horizon", "seed", "resume", "output_dir", "attention"),
    *(f"training.{key}" for key in ("batch_size", "precision", "progress", "checkpoint_minutes")),
)
"""Keys of the configuration that appear elsewhere, or change neither a score nor a cost."""


def facts_of(group: RunGroup) -> list[Fact]:
    """Return the facts: compared ones first, then the other keys of the configuration that differ."""
    look_backs = [f"{look_back:,}" for look_back in group.look_backs]
    facts = [
        Fact("mechanism", COMPARED if len(group.arms) > 1 else EQUAL, ", ".join(group.arms)),
        Fact("look-back, steps", COMPARED if len(look_backs) > 1 else EQUAL, ", ".join(look_backs)),
        _fact("seeds", group, {setting.key: [", ".join(map(str, setting.seeds))] for setting in group.settings}),
    ]
    facts += [_read_fact(name, group, read) for name, read in FACTS.items()]
    return [fact for fact in facts if fact.values] + _options(group)


def _options(group: RunGroup) -> list[Fact]:
    runs = [run for setting in group.settings for run in setting.runs]
    keys = sorted({key for run in runs for key in flatten(run.config)})
    keys = [key for key in keys if not key.startswith(LEFT_OUT_GROUPS) and key not in LEFT_OUT_KEYS]
    facts = [_read_fact(key, group, _option(key)) for key in keys]
    return [fact for fact in facts if fact.state == DIFFERS]


def _option(key: str) -> ReadFact:
    return lambda run: flatten(run.config).get(key, "absent")


def _read_fact(name: str, group: RunGroup, read: ReadFact) -> Fact:
    return _fact(name, group, {setting.key: [read(run) for run in setting.runs] for setting in group.settings})


def _fact(name: str, group: RunGroup, values: Mapping[Key, Iterable[Any]]) -> Fact:
    settings: dict[str, set[Key]] = {}  # by value
    numbers = []
    for key, of_runs in values.items():
        for value in of_runs:
            settings.setdefault(_shown(value), set()).add(key)
            numbers.append(value)
    if len(settings) == 1:
        return Fact(name, EQUAL, next(iter(settings)))
    if len(settings) > MOST_VALUES and all(isinstance(value, (int, float)) for value in numbers):
        return Fact(name, DIFFERS, f"from {_shown(min(numbers))} to {_shown(max(numbers))}")
    words = [f"{value or 'none'} ({_names(group, keys)})" for value, keys in settings.items()]
    return Fact(name, DIFFERS, "; ".join(words))


def _names(group: RunGroup, keys: set[Key]) -> str:
    """Name the settings, by arm or look-back alone where that is unique."""
    arms, look_backs = {arm for arm, _ in keys}, {look_back for _, look_back in keys}
    if keys == {setting.key for setting in group.settings if setting.arm in arms}:
        return ", ".join(arm for arm in group.arms if arm in arms)
    if keys == {setting.key for setting in group.settings if setting.look_back in look_backs}:
        return f"look-back {', '.join(f'{look_back:,}' for look_back in sorted(look_backs))}"
    names = [f"{arm} at {look_back:,}" for arm, look_back in sorted(keys)]
    return ", ".join(names) if len(names) <= MOST_VALUES else f"{len(names)} of {len(group.settings)} settings"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


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
