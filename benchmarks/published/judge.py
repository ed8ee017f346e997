"""Scores of forecasts by the package `fev` (extra `benchmark`), as the published tables have them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.published.tasks import LEVELS, Floats, Task

SERIES = "series"
METRICS = ("SQL", "MASE", "WQL")
"""Scaled quantile loss, mean absolute scaled error and weighted quantile loss; lower is better."""


class Judge:
    """Scores of one task. `folder` gets the data in the form that `fev` reads."""

    def __init__(self, task: Task, table: pd.DataFrame, folder: Path) -> None:
        import fev  # an extra: only the scores need it

        self._targets = task.targets(table)
        self._horizon = task.horizon
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{task.name}.parquet"
        columns: dict[str, list[Any]] = {"id": [SERIES], "timestamp": [table.index.to_numpy("datetime64[us]")]}
        columns |= {str(name): [table[name].to_numpy(np.float64)] for name in table.columns}
        pd.DataFrame(columns).to_parquet(file)
        self._task = fev.Task(
            dataset_path=str(file),
            horizon=task.horizon,
            num_windows=task.windows,
            seasonality=task.season,
            eval_metric=METRICS[0],
            extra_metrics=list(METRICS[1:]),
            quantile_levels=list(LEVELS),
            target=self._targets if len(self._targets) > 1 else self._targets[0],
            known_dynamic_columns=list(task.known),
            task_name=task.name,
        )

    def scores(self, forecasts: Sequence[Floats]) -> Mapping[str, float]:
        """Return the scores of quantiles (h, C, 9) of each window, the oldest first; levels as in `LEVELS`."""
        summary = self._task.evaluation_summary([self._predictions(each) for each in forecasts], model_name="this")
        return {name: float(summary[name]) for name in METRICS}

    def _predictions(self, quantiles: Floats) -> dict[str, list[dict[str, list[float]]]]:
        predictions = {}
        for place, name in enumerate(self._targets):
            columns = {str(level): quantiles[:, place, number].tolist() for number, level in enumerate(LEVELS)}
            predictions[name] = [{"predictions": columns["0.5"], **columns}]
        return predictions


def same_at_all_levels(forecast: Floats) -> Floats:
    """Return a point forecast (h, C) as quantiles (h, C, 9)."""
    return np.repeat(forecast[..., None], len(LEVELS), axis=2)
