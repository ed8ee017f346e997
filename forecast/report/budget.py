"""The training budget of runs, and the facts that were equal for all of them."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from forecast.common.files import flatten, look_up
from forecast.report.groups import Key, RunGroup
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
