"""The chapter on diagnostic series: the share of the achievable skill of each mechanism, by task, and its price.

A *task* is one diagnostic series. An *arm* is a mechanism and the few options that distinguish it. For each arm the
learning rate with the least validation error is chosen, and only its test scores are shown.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from forecast.common.tables import Table
from forecast.common.text import NONE
from forecast.report.phrases import listed, rounded
from forecast.report.sections import CONTROL, REFERENCE
from forecast.runs.labels import arm_labels, data_key
from forecast.runs.read import FinishedRun

NEAR = 0.05
"""Arms whose share of skill is lower than the best by at most this are equally good."""

LEARNING_RATE = "optimizer.lr"

SPEED, MEMORY = "speed.train_windows_per_s", "speed.peak_memory_mib"

OF_A_TASK = ("types", "distance", "look_back")
"""Sizes of a task that a curve may have across."""


@dataclass(frozen=True)
class Task:
    """A diagnostic series: its kind and sizes; `types` is None for a control, `tokens` are those of the look-back."""

    kind: str
    is_control: bool
    types: int | None
    distance: int
    noise: float
    look_back: int
    tokens: int
    horizon: int
    key: str

    @classmethod
    def of(cls, run: FinishedRun) -> "Task":
        """Return the task of a run."""
        facts, config = run.result["diagnostic"], run.config
        model = config["model"]
        step = model.get("stride") or model.get("patch_length") or 1
        return cls(
            kind=facts["kind"],
            is_control=facts["is_control"],
            types=facts["types"],
            distance=facts["distance"],
            noise=facts["noise"],
            look_back=config["context_length"],
            tokens=config["context_length"] // step,
            horizon=config["horizon"],
            key=data_key(run.result),
        )

    @property
    def order(self) -> tuple[Any, ...]:
        """Sort key: kinds to find first, controls last, easier tasks first."""
        return self.is_control, self.kind, self.look_back, self.types or 0, self.distance, self.noise, self.key


@dataclass(frozen=True)
class Cell:
    """The runs of an arm on a task, one per seed, at the learning rate that validation chose."""

    task: Task
    arm: str
    runs: tuple[FinishedRun, ...]
    rates: tuple[float, ...]

    @property
    def rate(self) -> float:
        """The chosen learning rate."""
        return self.runs[0].number(f"config.{LEARNING_RATE}")

    @cached_property
    def scores(self) -> np.ndarray:
        """Share of skill of each seed; of a control, the error above the best possible one, as a share of it."""
        return np.array([run.number(f"diagnostic.test.{_score(self.task)}") for run in self.runs])

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
    def milliseconds(self) -> float:
        """Training time of a window."""
        return 1e3 / float(np.mean([run.number(SPEED) for run in self.runs]))

    @property
    def mebibytes(self) -> float:
        """Largest memory of the process or the device."""
        return float(np.max([run.number(MEMORY) for run in self.runs]))


def _score(task: Task) -> str:
    return "excess" if task.is_control else "share"


@dataclass(frozen=True)
class Diagnosis:
    """All cells, by task and arm; the reference comes first, the control last."""

    cells: dict[tuple[Task, str], Cell]

    @property
    def tasks(self) -> list[Task]:
        """The tasks, those with something to find first."""
        return sorted({task for task, _ in self.cells}, key=lambda task: task.order)

    @property
    def arms(self) -> list[str]:
        """The arms."""
        return sorted(dict.fromkeys(arm for _, arm in self.cells), key=lambda arm: (arm == CONTROL, arm != REFERENCE))

    def at(self, task: Task, arm: str) -> Cell | None:
        """Return the cell of an arm on a task."""
        return self.cells.get((task, arm))

    def of(self, task: Task) -> list[Cell]:
        """Return the cells of a task in the order of the arms."""
        return [cell for arm in self.arms if (cell := self.at(task, arm)) is not None]

    def name(self, task: Task) -> str:
        """Return the kind of a task, with the sizes that distinguish it from other tasks."""
        words = [task.kind]
        if task.types is not None:
            words.append(f"{task.types:,} {'marks' if task.kind == 'selective' else f'{TYPES[task.kind]}s'}")
        if task.distance:
            words.append(f"{task.distance:,} units away")
        if len({other.tokens for other in self.tasks}) > 1:
            words.append(f"{task.tokens:,} tokens")
        if len({other.noise for other in self.tasks}) > 1:
            words.append(f"noise {task.noise:g}")
        return ", ".join(words)

    def curves(self) -> Iterator[tuple[str, list[Task]]]:
        """Yield each size that varies while the others are equal, and its tasks in rising order."""
        for size in OF_A_TASK:
            groups: dict[tuple[Any, ...], list[Task]] = {}
            for task in self.tasks:
                if not task.is_control and getattr(task, size):
                    rest = tuple(getattr(task, other) for other in OF_A_TASK if other != size)
                    groups.setdefault((task.kind, task.noise, task.horizon, *rest), []).append(task)
            for tasks in groups.values():
                if len({getattr(task, size) for task in tasks}) > 1:
                    yield size, sorted(tasks, key=lambda task: getattr(task, size))


TYPES = {"recall": "type", "lag": "lag"}


def is_diagnostic(run: FinishedRun) -> bool:
    """Return whether a run has a share of the achievable skill."""
    return "diagnostic" in run.result


def diagnose(runs: Sequence[FinishedRun]) -> Diagnosis:
    """Return the cells of the diagnostic runs; raise nothing for tasks that some mechanisms lack."""
    labels = arm_labels([_without_rate(run.config) for run in runs])
    groups: dict[tuple[Task, str], list[FinishedRun]] = {}
    for run, label in zip(runs, labels, strict=True):
        groups.setdefault((Task.of(run), label), []).append(run)
    return Diagnosis({key: _cell(*key, group) for key, group in groups.items()})


def _without_rate(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration for a label: the place of the mechanism and the learning rate do not name an arm."""
    optimizer = {key: value for key, value in config["optimizer"].items() if key != "lr"}
    kept = {**config, "optimizer": optimizer, "data": {}}
    everywhere = config["cross_attention"] == config["attention"]
    return {**kept, "cross_attention": {"name": "everywhere"}} if everywhere else kept


def _cell(task: Task, arm: str, runs: Sequence[FinishedRun]) -> Cell:
    """Return the cell with the learning rate of the least validation error, among those with the most seeds."""
    by_rate: dict[float, dict[int, FinishedRun]] = {}
    for run in runs:
        by_rate.setdefault(run.number(f"config.{LEARNING_RATE}"), {}).setdefault(run.result["seed"], run)
    most = max(map(len, by_rate.values()))
    whole = {rate: list(seeds.values()) for rate, seeds in by_rate.items() if len(seeds) == most}

    def error(rate: float) -> float:
        return float(np.mean([run.number("diagnostic.validation.mse") for run in whole[rate]]))

    chosen = sorted(whole[min(whole, key=error)], key=lambda run: run.result["seed"])
    return Cell(task, arm, tuple(chosen), tuple(sorted(whole)))


def answers(diagnosis: Diagnosis) -> list[str]:
    """Return the answer in words: for each task the mechanism to take and its price, then the controls."""
    found = [task for task in diagnosis.tasks if not task.is_control]
    sentences = [_finding(diagnosis, task) for task in found]
    sentences += [words for size, tasks in diagnosis.curves() if (words := _along(diagnosis, size, tasks))]
    controls = [task for task in diagnosis.tasks if task.is_control]
    return [*sentences, *(_control(diagnosis, task) for task in controls)]


def best_arms(diagnosis: Diagnosis, task: Task) -> list[Cell]:
    """Return the cells within `NEAR` of the best share of skill, the fastest in training first."""
    cells = diagnosis.of(task)
    best = max(cell.mean for cell in cells)
    return sorted((cell for cell in cells if cell.mean >= best - NEAR), key=lambda cell: cell.milliseconds)


def _finding(diagnosis: Diagnosis, task: Task) -> str:
    cells = sorted(diagnosis.of(task), key=lambda cell: -cell.mean)
    shares = listed([f"`{cell.arm}` {_share(cell)}" for cell in cells])
    name = f"`{task.kind}`{diagnosis.name(task).removeprefix(task.kind)}"
    near = best_arms(diagnosis, task)
    if max(cell.mean for cell in cells) < NEAR:
        return f"{name}: no mechanism finds it ({shares} of the achievable skill)."
    take = near[0]
    price = f"{rounded(take.milliseconds)} ms and a peak of {rounded(take.mebibytes)} MiB in training"
    choice = f"take `{take.arm}`, at {price} a window" if len(cells) > 1 else f"it takes {price}"
    full = diagnosis.at(task, REFERENCE)
    if full is not None and full is not take:
        choice += f", {rounded(full.milliseconds / take.milliseconds)} times as fast as `{REFERENCE}`"
    return f"{name}: share of the achievable skill {shares}; {choice}."


def _share(cell: Cell) -> str:
    return f"{cell.mean:.2f}" if math.isnan(cell.half) else f"{cell.mean:.2f} ± {cell.half:.2f}"


def _along(diagnosis: Diagnosis, size: str, tasks: Sequence[Task]) -> str | None:
    """Return at which size each arm loses half of the achievable skill, or that it does not."""
    lost: dict[str, list[str]] = {}
    for arm in diagnosis.arms:
        cells = [(task, cell) for task in tasks if (cell := diagnosis.at(task, arm)) is not None]
        if len(cells) < 2:
            continue
        below = next((task for task, cell in cells if cell.mean < 0.5), None)
        where = "at none" if below is None else f"at {getattr(below, size):,}"
        lost.setdefault(where, []).append(f"`{arm}`")
    if not lost:
        return None
    unit = {"types": "types", "distance": "units of distance", "look_back": "steps of look-back"}[size]
    parts = [f"{where} {listed(arms)}" for where, arms in lost.items()]
    values = listed([f"{getattr(task, size):,}" for task in tasks])
    return f"With {values} {unit}, `{tasks[0].kind}` loses half of the achievable skill {'; '.join(parts)}."


def _control(diagnosis: Diagnosis, task: Task) -> str:
    cells = sorted(diagnosis.of(task), key=lambda cell: cell.mean)
    errors = listed([f"`{cell.arm}` {100 * cell.mean:.1f} %" for cell in cells])
    return (
        f"Control `{task.kind}`: the errors lie above the best possible one by {errors}. A simple forecast is the best "
        "here, so that no mechanism can win."
    )


HEADINGS = (
    *("task", "mechanism", "share of skill", "95 % interval", "test MSE", "simple forecast", "best possible"),
    *("seeds", "learning rate", "rates tried", "training, ms a window", "peak, MiB"),
)


def diagnosis_table(diagnosis: Diagnosis) -> Table:
    """Return a row for each task and mechanism."""
    rows = [_row(diagnosis, cell) for task in diagnosis.tasks for cell in diagnosis.of(task)]
    notes = [
        "share of skill: 0 is the better of last value and ridge regression, 1 the best possible forecast. A control "
        "has the error above the best possible one instead.",
        "The learning rate is the one with the least validation error; test scores of the others are not used.",
        "95 % interval: Student's t over the seeds.",
    ]
    return Table("Share of the achievable skill", HEADINGS, rows, notes, words=2)


def _row(diagnosis: Diagnosis, cell: Cell) -> list[str]:
    test = [run.result["diagnostic"]["test"] for run in cell.runs]
    low, high = cell.mean - cell.half, cell.mean + cell.half
    percent = cell.task.is_control
    return [
        diagnosis.name(cell.task),
        cell.arm,
        f"{100 * cell.mean:+.1f} % error" if percent else f"{cell.mean:.3f}",
        NONE
        if math.isnan(low)
        else f"{100 * low:+.1f} to {100 * high:+.1f} %"
        if percent
        else f"{low:.3f} to {high:.3f}",
        f"{np.mean([scores['mse'] for scores in test]):.4f}",
        f"{np.mean([scores['simple_mse'] for scores in test]):.4f}",
        f"{cell.runs[0].number('diagnostic.best_mse'):.4f}",
        str(len(cell.runs)),
        f"{cell.rate:g}",
        " ".join(f"{rate:g}" for rate in cell.rates),
        rounded(cell.milliseconds),
        rounded(cell.mebibytes),
    ]


def diagnosis_rows(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """Return one row for each task and mechanism, as numbers."""
    return [
        {
            "data": diagnosis.name(task),
            "row": "model",
            "mechanism": cell.arm,
            "look_back": task.look_back,
            "n": len(cell.runs),
            "seeds": " ".join(str(run.result["seed"]) for run in cell.runs),
            "kind": task.kind,
            "types": task.types,
            "distance": task.distance,
            "noise": task.noise,
            "tokens": task.tokens,
            "share_of_skill": None if task.is_control else cell.mean,
            "excess_error": cell.mean if task.is_control else None,
            "half_interval": cell.half,
            "best_mse": cell.runs[0].number("diagnostic.best_mse"),
            "test_mse_original": float(np.mean([run.number("diagnostic.test.mse") for run in cell.runs])),
            "learning_rate": cell.rate,
            "train_ms_per_window": cell.milliseconds,
            "peak_memory_mib": cell.mebibytes,
            "commands": "; ".join(run.result["command"] for run in cell.runs),
        }
        for task in diagnosis.tasks
        for cell in diagnosis.of(task)
    ]
