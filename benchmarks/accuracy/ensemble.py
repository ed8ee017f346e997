"""Score the mean forecast of several runs."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.common.files import read_json
from forecast.data.windows import Batch
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.scoring import units_of
from forecast.predict.transplanted import data_at, same_source
from forecast.runs.resume import differences, read_config
from forecast.runs.run import RESULT, Run


def score_ensemble(runs: Sequence[Run]) -> dict[str, Any]:
    """Return a result like a single run's: scores of the mean forecast, summed sizes and seconds.

    The runs may differ only in their seed.
    """
    first, *others = runs
    config = read_config(first.path)
    for run in others:
        lines = differences(config, read_config(run.path), budget=True)
        if apart := [line for line in lines if not line.startswith("seed is ")]:
            raise InputError(f"{run.path}: differs from {first.path} in more than the seed: {'; '.join(apart[:3])}")
    data = data_at(first, same_source(first), None, torch.device("cpu"))
    networks = [run.load_model() for run in runs]

    def mean_forecast(batch: Batch) -> Tensor:
        parts = (batch.past, batch.past_known, batch.future_known, batch.past_observed)
        return torch.stack([network(*parts) for network in networks]).mean(0)

    results = [read_json(run.path / RESULT) for run in runs]
    units = units_of(data)
    scores = {}
    for part in ("validation", "test"):
        evaluation = evaluate(mean_forecast, data.parts[part], data.evaluation_batch_size, units=units)
        scores[part] = {"scaled": evaluation.sums.scaled(), "original": evaluation.original(units.scale)}
    return {
        **results[0],
        **scores,
        "model": {
            "parameters": sum(result["model"]["parameters"] for result in results),
            "steps": sum(result["model"]["steps"] for result in results),
        },
        "speed": {"fit_seconds": sum(result["speed"]["fit_seconds"] for result in results)},
        "status": "finished",
    }
