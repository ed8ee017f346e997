"""Runs on diagnostic series: the share of the achievable skill of each mechanism, by task, and its price.

A *task* is one diagnostic series. An *arm* is a mechanism and the few options that distinguish it. For each arm the
learning rate with the least validation error is chosen, and only its test scores are shown.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats

from forecast.common.text import counted
from forecast.report.costs import TRAINING, timed_together
from forecast.report.groups import CONTROL, REFERENCE, Setting, in_order, plainest
from forecast.runs.labels import arm_labels, differing, facts_apart, start_weights, unique_labels
from forecast.runs.read import FinishedRun

MEMORY = "speed.peak_memory_mib"

SIZES = {
    "types": "types",
    "distance": "units of distance",
    "events": "events in the horizon",
    "look_back": "steps of look-back",
}
"""Sizes of a task that a curve may have across, and their units."""

FOLLOWS = {"look_back": ("windows",), "events": ("window_horizon",)}
"""Facts of the data that may change with a size."""

SHOWN = ("kind", "noise", "types", "distance", "window_look_back")
"""Options of `data` that a task has by name."""


@dataclass(frozen=True)
class Task:
    """A diagnostic series: its kind and sizes, `types` None for a control, and `other` facts of its data as JSON."""

    kind: str
    is_control: bool
    types: int | None
    distance: int
    events: int
    noise: float
    look_back: int
    other: str

    @classmethod
    def of(cls, run: FinishedRun) -> "Task":
        """Return the task of a run."""
        facts, config = run.result["diagnostic"], run.config
        stride = run.result["data"].get("evaluation_stride", 1)
        other = {key: value for key, value in config["data"].items() if key not in SHOWN}
        return cls(
            kind=facts["kind"],
            is_control=facts["is_control"],
            types=facts["types"],
            distance=facts["distance"],
            events=facts.get("events", 1),
            noise=facts["noise"],
            look_back=config["context_length"],
            other=json.dumps({**other, "evaluation_stride": stride}, sort_keys=True),
        )

    @property
    def order(self) -> tuple[Any, ...]:
        """Sort key: kinds to find first, controls last, easier tasks first."""
        sizes = self.look_back, self.types or 0, self.distance, self.events
        return self.is_control, self.kind, *sizes, self.noise, self.other


@dataclass(frozen=True)
class Cell:
    """The runs of an arm on a task, one per seed, at the learning rate that validation chose among `rates`.

    Rates with fewer seeds are left out.
    """

    task: Task
    arm: str
    runs: tuple[FinishedRun, ...]
    rates: tuple[float | None, ...]
    rates_left_out: tuple[float | None, ...] = ()

    @property
    def is_of_control(self) -> bool:
        """Whether the mechanism is the control."""
        return str(self.runs[0].config["attention"]["name"]) == CONTROL

    @property
    def rate(self) -> float | None:
        """The chosen learning rate; None if the optimizer has none."""
        return _rate(self.runs[0])

    @cached_property
    def scores(self) -> np.ndarray:
        """Share of skill of each seed; of a control, the error above the best possible one, as a share of it."""
        name = "excess" if self.task.is_control else "share"
        return np.array([run.number(f"diagnostic.test.{name}") for run in self.runs])

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return float(self.scores.mean())

    @property
    def half(self) -> float:
        """Half the width of the 95 % interval of the mean (Student's t over the seeds); NaN for one seed."""
        count = len(self.scores)
        if count < 2:
            return math.nan
        return float(stats.t.ppf(0.975, count - 1) * self.scores.std(ddof=1) / math.sqrt(count))

    @property
    def steps(self) -> list[int]:
        """The training steps of the runs, each number once."""
        return sorted({int(run.number("model.steps")) for run in self.runs})

    @cached_property
    def setting(self) -> Setting:
        """The runs as a setting, whose costs are compared."""
        return Setting(self.arm, self.task.look_back, self.runs)

    @property
    def is_disturbed(self) -> bool:
        """Whether other processes disturbed the training time."""
        return not timed_together([self.setting], TRAINING) and TRAINING.is_disturbed(self.setting)

    @property
    def milliseconds(self) -> float:
        """Training time of a window, in turn with other settings if it was measured so; NaN if a run was too short."""
        if timed_together([self.setting], TRAINING):
            return float(np.nanmedian(TRAINING.in_turn(self.setting)))
        return TRAINING.of(self.setting)

    @property
    def simple_excess(self) -> float:
        """Error of the better of last value and ridge above the best possible one, as a share of it."""
        run = self.runs[0]
        return run.number("diagnostic.test.simple_mse") / run.number("diagnostic.best_mse") - 1

    @property
    def mebibytes(self) -> float:
        """Largest memory of the process or the device."""
        return float(np.max([run.number(MEMORY) for run in self.runs]))


def _rate(run: FinishedRun) -> float | None:
    rate = run.config["optimizer"].get("lr")
    return None if rate is None else float(rate)


@dataclass(frozen=True)
class Diagnosis:
    """All cells, by task and arm; the reference comes first, the control last."""

    cells: dict[tuple[Task, str], Cell]

    @cached_property
    def tasks(self) -> list[Task]:
        """The tasks, those with something to find first."""
        return sorted({task for task, _ in self.cells}, key=lambda task: task.order)

    @property
    def reference(self) -> str | None:
        """The arm of `full` with the fewest other options, or None."""
        return self._arm_of(REFERENCE)

    @property
    def control(self) -> str | None:
        """The arm of `mean` with the fewest other options, or None."""
        return self._arm_of(CONTROL)

    def _arm_of(self, mechanism: str) -> str | None:
        cells = self.cells.values()
        return plainest(cell.arm for cell in cells if cell.runs[0].config["attention"]["name"] == mechanism)

    @cached_property
    def arms(self) -> list[str]:
        """The arms."""
        return in_order((arm for _, arm in self.cells), self.reference, self.control)

    def at(self, task: Task, arm: str) -> Cell | None:
        """Return the cell of an arm on a task."""
        return self.cells.get((task, arm))

    def of(self, task: Task) -> list[Cell]:
        """Return the cells of a task in the order of the arms."""
        return [cell for arm in self.arms if (cell := self.at(task, arm)) is not None]

    def name(self, task: Task) -> str:
        """Return the kind of a task, with the sizes that distinguish it from other tasks."""
        return self._names[task]

    def named(self, task: Task) -> str:
        """Return the name of a task in a sentence, its kind in backticks."""
        return f"`{task.kind}`{self.name(task).removeprefix(task.kind)}"

    @cached_property
    def _names(self) -> dict[Task, str]:
        facts = [{**json.loads(task.other), "noise": task.noise} for task in self.tasks]
        names = [", ".join([task.kind, *self.sizes(task)]) for task in self.tasks]
        return dict(zip(self.tasks, unique_labels(names, facts), strict=True))

    def sizes(self, task: Task, without: str = "") -> list[str]:
        """Return the sizes of a task in words; the look-back only if it varies, and not the size `without`."""
        words = []
        if task.types is not None and without != "types":
            words.append(counted(task.types, TYPES[task.kind]))
        if task.distance and without != "distance":
            words.append(f"{counted(task.distance, 'unit')} away")
        most_events = max(other.events for other in self.tasks if other.kind == task.kind)
        if most_events > 1 and without != "events":
            words.append(f"{counted(task.events, 'event')} ahead")
        if len({other.look_back for other in self.tasks}) > 1 and without != "look_back":
            words.append(f"look-back {task.look_back:,}")
        return words

    def curves(self) -> Iterator[tuple[str, list[Task]]]:
        """Yield each size that varies while all else is equal, and its tasks in rising order."""
        for size in SIZES:
            groups: dict[tuple[Any, ...], list[Task]] = {}
            for task in self.tasks:
                if not task.is_control and getattr(task, size):
                    groups.setdefault(_all_but(task, size), []).append(task)
            for tasks in groups.values():
                if len({getattr(task, size) for task in tasks}) == len(tasks) > 1:
                    yield size, sorted(tasks, key=lambda task: getattr(task, size))


TYPES = {"recall": "type", "events": "type", "lag": "lag", "selective": "mark"}
"""Names of what `types` counts."""


def _all_but(task: Task, size: str) -> tuple[Any, ...]:
    """Return all facts of a task but one size, and but the facts that follow it."""
    other = {key: value for key, value in json.loads(task.other).items() if key not in FOLLOWS.get(size, ())}
    return (*(value for name, value in vars(task).items() if name not in (size, "other")), json.dumps(other))


CONDITIONS = ("device", "precision")
"""Facts of a result that distinguish arms of equal configuration."""


def is_diagnostic(run: FinishedRun) -> bool:
    """Return whether a run has a share of the achievable skill."""
    return "diagnostic" in run.result


def diagnose(runs: Sequence[FinishedRun]) -> Diagnosis:
    """Return the cells of the diagnostic runs.

    An arm has the same words for its attention on all tasks, and further words where they distinguish it on its task.
    """
    attention = arm_labels([_attention(run.config) for run in runs])
    by_task: dict[Task, list[tuple[FinishedRun, dict[str, Any]]]] = {}
    for run, mechanism in zip(runs, attention, strict=True):
        by_task.setdefault(Task.of(run), []).append((run, _for_label(run.config, mechanism)))
    labelled = [
        (task, label, run)
        for task, own in by_task.items()
        for label, (run, _) in zip(arm_labels([config for _, config in own]), own, strict=True)
    ]
    conditions = [
        {**{key: str(run.result[key]) for key in CONDITIONS}, "start": start_weights(run.result)}
        for _, _, run in labelled
    ]
    facts = facts_apart([label for _, label, _ in labelled], conditions, differing)  # over all tasks, for equal names
    groups: dict[tuple[Task, str], list[FinishedRun]] = {}
    for (task, label, run), words in zip(labelled, facts, strict=True):
        groups.setdefault((task, ", ".join([label, *words.values()])), []).append(run)
    return Diagnosis({(task, arm): _cell(task, arm, group) for (task, arm), group in groups.items()})


ATTENTION = ("attention", "decoder_attention", "cross_attention")
"""Groups of the configuration with a mechanism."""


def _attention(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mechanisms of a configuration for a label, which says if one is in every place."""
    own = {group: config.get(group) for group in ATTENTION}
    everywhere = config["cross_attention"] == config["attention"]
    return {**own, "cross_attention": {"name": "everywhere"}} if everywhere else own


def _for_label(config: Mapping[str, Any], attention: str) -> dict[str, Any]:
    """Return a configuration for a label that begins with the words for its attention, without its learning rate."""
    optimizer = {key: value for key, value in config["optimizer"].items() if key != "lr"}
    kept = {key: value for key, value in config.items() if key not in ATTENTION}
    return {**kept, "attention": attention, "optimizer": optimizer, "data": {}}


def _cell(task: Task, arm: str, runs: Sequence[FinishedRun]) -> Cell:
    """Return the cell with the learning rate of the least validation error, among those with the most seeds."""
    by_rate: dict[float | None, dict[int, FinishedRun]] = {}
    for run in runs:
        by_rate.setdefault(_rate(run), {}).setdefault(run.result["seed"], run)
    most = max(map(len, by_rate.values()))
    whole = {rate: list(seeds.values()) for rate, seeds in by_rate.items() if len(seeds) == most}

    def error(rate: float | None) -> float:
        return float(np.mean([run.number("diagnostic.validation.mse") for run in whole[rate]]))

    chosen = sorted(whole[min(whole, key=error)], key=lambda run: run.result["seed"])
    less = [rate for rate in by_rate if rate not in whole]
    return Cell(task, arm, tuple(chosen), _rising(whole), _rising(less))


def _rising(rates: Iterable[float | None]) -> tuple[float | None, ...]:
    return tuple(sorted(rates, key=lambda rate: rate or 0))
