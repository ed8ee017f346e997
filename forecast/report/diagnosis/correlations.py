"""Whether the probe explains the loss of skill: rank correlations over the mechanisms on each diagnostic series.

The control is left out: it has the largest entropy by its definition and nearly always the largest loss, so that it
would make most correlations positive.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import stats

from forecast.common.tables import Table
from forecast.report.diagnosis.tasks import Cell, Diagnosis, Task
from forecast.runs.read import FinishedRun

MEASURES = {
    "distance": "distance from softmax attention",
    "distance_of_mean": "distance of the plain mean",
    "entropy": "entropy of the weights",
    "entropy_of_softmax": "entropy of softmax attention",
    "found": "informative queries found",
}
"""Numbers of the probe, and their names."""

PLACES = {"self": "self-attention", "cross": "attention to the encoder"}
"""Ends of the names of layers, and their names."""

FEWEST = 4
"""Fewest mechanisms of a rank correlation."""

LEAST_LOSS = 0.05
"""Least range of the shares of skill on a task; below it, ranks of the loss may be chance."""

HEADINGS = ("measure", "place", "median rank correlation with the loss", "least to most", "series", "of them positive")


@dataclass(frozen=True)
class Correlation:
    """Spearman's rank correlations of a measure at a place with the loss of skill, one for each task."""

    measure: str
    place: str
    ranks: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median over the tasks."""
        return float(np.median(self.ranks))


def correlations(diagnosis: Diagnosis) -> Iterator[Correlation]:
    """Yield the correlations over the mechanisms, for each task with something to find.

    The loss of skill of a mechanism is the share of the best mechanism on the task minus its own, each a mean over the
    seeds; so are the numbers of the probe.
    """
    tasks = [task for task in diagnosis.tasks if not task.is_control]
    for measure in MEASURES:
        for place in PLACES:
            ranks = [rank for task in tasks if (rank := _rank(diagnosis, task, measure, place)) is not None]
            if ranks:
                yield Correlation(measure, place, tuple(ranks))


def _rank(diagnosis: Diagnosis, task: Task, measure: str, place: str) -> float | None:
    """Return the rank correlation on a task; None with too few mechanisms, or where a side hardly varies."""
    cells = [cell for cell in diagnosis.of(task) if not cell.is_of_control]
    pairs = [(value, -cell.mean) for cell in cells if (value := _mean(cell, measure, place)) is not None]
    if len(pairs) < FEWEST:
        return None
    values, losses = np.array(pairs).T
    if np.ptp(values) == 0 or np.ptp(losses) < LEAST_LOSS:
        return None
    return float(stats.spearmanr(values, losses).statistic)


def _mean(cell: Cell, measure: str, place: str) -> float | None:
    numbers = [value for run in cell.runs if (value := probed(run, measure, place)) is not None]
    return float(np.mean(numbers)) if len(numbers) == len(cell.runs) else None


def probed(run: FinishedRun, measure: str, place: str) -> float | None:
    """Return the mean of a measure over the heads of all layers at a place; None without a finite number."""
    probe = run.result.get("probe") or {}
    layers = [layer for name, layer in probe.get("layers", {}).items() if name.endswith(f".{place}")]
    heads = [layer[measure] for layer in layers if layer.get("keys", 0) > 1 and layer.get(measure) is not None]
    numbers = [number for each in heads for number in np.ravel(each) if number is not None and math.isfinite(number)]
    return float(np.mean(numbers)) if numbers else None


def correlation_table(diagnosis: Diagnosis) -> Table | None:
    """Return the table of the correlations, the strongest first; None without any."""
    strongest = sorted(correlations(diagnosis), key=lambda each: -abs(each.median))
    rows = [
        [
            *(MEASURES[each.measure], PLACES[each.place], f"{each.median:+.2f}"),
            f"{min(each.ranks):+.2f} to {max(each.ranks):+.2f}",
            *(str(len(each.ranks)), str(sum(rank > 0 for rank in each.ranks))),
        ]
        for each in strongest
    ]
    notes = (
        "Spearman's rank correlation over the mechanisms of one series without the control, means over the seeds. "
        "Positive: mechanisms "
        "with a larger number lose more skill. Series on which the shares of skill differ by less than "
        f"{LEAST_LOSS:g} are left out.",
        "Numbers of the probe at the last validation, mean over heads and layers of that place. With so few mechanisms "
        "a correlation describes; it proves nothing.",
    )
    return Table("Does the probe explain the loss?", HEADINGS, rows, notes, words=2) if rows else None
