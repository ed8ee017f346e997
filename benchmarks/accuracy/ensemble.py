"""Score the mean forecast of several runs of the record."""

from collections.abc import Sequence
from typing import Any

from benchmarks.run_data import data_of
from forecast.predict.ensemble_scores import score_ensemble
from forecast.runs.run import Run


def score_runs(runs: Sequence[Run]) -> dict[str, Any]:
    """Return a result like a single run's, of runs that may differ only in their seed."""
    return score_ensemble(runs, data_of(runs[0]))
