"""Whether the probe explains the loss of skill: rank correlations over the runs on diagnostic series."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from forecast.common.tables import Table
from forecast.common.text import NONE
from forecast.report.diagnosis import Cell, Diagnosis
from forecast.report.sections import REFERENCE
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

FEWEST = 5
"""Fewest runs of a rank correlation."""

HEADINGS = ("measure", "place", "rank correlation with the loss of skill", "p", "runs")


@dataclass(frozen=True)
class Correlation:
    """Spearman's rank correlation of a measure at a place with the loss of skill over `count` runs."""

    measure: str
    place: str
    rank: float
    p: float
    count: int


def correlations(diagnosis: Diagnosis) -> Iterator[Correlation]:
    """Yield the correlations over all runs of other mechanisms than the reference, on tasks with something to find.

    The loss of skill of a run is the mean share of the reference on its task minus the share of the run.
    """
    runs = list(_losses(diagnosis))
    for measure in MEASURES:
        for place in PLACES:
            pairs = [(value, loss) for run, loss in runs if (value := probed(run, measure, place)) is not None]
            values, losses = np.array(pairs).reshape(-1, 2).T
            if len(pairs) >= FEWEST and np.ptp(values) > 0 and np.ptp(losses) > 0:
                result = stats.spearmanr(values, losses)
                yield Correlation(measure, place, float(result.statistic), float(result.pvalue), len(pairs))


def _losses(diagnosis: Diagnosis) -> Iterator[tuple[FinishedRun, float]]:
    for (task, arm), cell in diagnosis.cells.items():
        reference = diagnosis.at(task, REFERENCE)
        if not task.is_control and arm != REFERENCE and reference is not None:
            yield from zip(cell.runs, _loss(reference, cell), strict=True)


def _loss(reference: Cell, cell: Cell) -> list[float]:
    return [float(loss) for loss in reference.mean - cell.scores]


def probed(run: FinishedRun, measure: str, place: str) -> float | None:
    """Return the mean of a measure over the heads of all layers at a place; None without it."""
    probe = run.result.get("probe") or {}
    layers = [layer for name, layer in probe.get("layers", {}).items() if name.endswith(f".{place}")]
    numbers = [layer[measure] for layer in layers if layer.get("keys", 0) > 1 and layer.get(measure) is not None]
    return float(np.mean([np.mean(heads) for heads in numbers])) if numbers else None


def correlation_table(diagnosis: Diagnosis) -> Table | None:
    """Return the table of the correlations, the strongest first; None without any."""
    found = sorted(correlations(diagnosis), key=lambda each: -abs(each.rank))
    rows = [
        [MEASURES[each.measure], PLACES[each.place], f"{each.rank:+.2f}", _p(each.p), str(each.count)] for each in found
    ]
    notes = (
        f"Spearman's rank correlation over the runs of all mechanisms but `{REFERENCE}`. Positive: the larger the "
        f"number, the more skill is lost against `{REFERENCE}` on the same series.",
        "Numbers of the probe at the last validation, mean over heads and layers of that place.",
    )
    return Table("Does the probe explain the loss?", HEADINGS, rows, notes, words=2) if rows else None


def _p(value: float) -> str:
    return NONE if np.isnan(value) else "below 0.001" if value < 0.001 else f"{value:.3f}"
