"""What a finished run says of itself in single numbers, by the names that a logger shows."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from forecast.evaluation.metrics import RELATIVE

COMPARED = (
    "test/mse",
    "test/mae",
    "speed/train_windows_per_s",
    "speed/inference_windows_per_s",
    "speed/peak_memory_mib",
)
"""Shown once more as `compare/…`, the first five columns of metrics in TensorBoard's table."""


def final_scalars(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a `result.json`, under the same names for every run; those not finite are left out.

    `test/…` are the model's scores and `val_best/…` those of its weights on the validation part: on z-scores,
    where the name says so in original units, or relative. `test_baseline/…` are those of the other rows of
    the table, `speed/…` the figures of `speed`, in the units that their names say.
    """
    scalars = {name: float(value) for name, value in _named(result) if value is not None and math.isfinite(value)}
    return scalars | {f"compare/{name.replace('/', '_')}": scalars[name] for name in COMPARED if name in scalars}


def _named(result: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for part, name in (("test", "test"), ("validation", "val_best")):
        for score, value in result[part]["scaled"].items():
            yield f"{name}/{score}", value
        for score, value in result[part]["original"].items():
            yield f"{name}/{score}" if score in RELATIVE else f"{name}/{score}_original", value
        yield f"{name}/skill", result[part].get("skill")
    for row, scores in {"linear_path": result["linear_path"], **result["baselines"]}.items():
        if scores is not None:
            for score in ("mse", "mae"):
                yield f"test_baseline/{row}_{score}", scores["test"]["scaled"][score]
            for score in RELATIVE:
                yield f"test_baseline/{row}_{score}", scores["test"]["original"].get(score)
    for name, value in result["speed"].items():
        yield f"speed/{name}", value
    for name, value in result["model"].items():
        yield f"model/{name}", value
