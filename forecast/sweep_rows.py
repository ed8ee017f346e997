"""The jobs of a sweep as a table of data, and what they come to over their seeds: read from their folders alone."""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd

from forecast.metrics import skill
from forecast.nested import flatten, look_up
from forecast.resume import FREE
from forecast.run import CONFIG, MANIFEST, RESULT
from forecast.sweep_job import FAILED, JOB
from forecast.table import NAMES

SCORES = {
    "test_mse": "test.scaled.mse",
    "test_mae": "test.scaled.mae",
    "test_mse_original": "test.original.mse",
    "test_mae_original": "test.original.mae",
    "validation_mse": "validation.scaled.mse",
    "validation_mae": "validation.scaled.mae",
}
"""Columns and where a result has them, a baseline's row of a result likewise."""

FIGURES = {
    "skill": "test.skill",
    **{
        key: f"speed.{key}"
        for key in (
            *("train_windows_per_s", "inference_windows_per_s", "step_ms_p50", "step_ms_p95", "data_wait_share"),
            *("peak_memory_mib", "flops_per_window", "logging_share", "fit_seconds"),
        )
    },
    "best_step": "model.best_step",
    "parameters": "model.parameters",
    "steps": "model.steps",
}
"""Columns and where a model's result has them; what a result lacks is an empty cell."""

NUMBERS, COUNTS = [*SCORES, *FIGURES], ["parameters", "steps"]


def read_jobs(sweep: Path) -> pd.DataFrame:
    """Give a row a job, in the order of their names: what was swept, the numbers, the status, the folder.

    A job is finished, has failed (then `error` says why and its numbers are empty), or is unfinished.
    """
    folders = {path.parent for name in (JOB, CONFIG, FAILED) for path in sweep.glob(f"*/{name}")}
    rows = [_read_job(folder) for folder in sorted(folders, key=_natural)]
    columns = ["job", "configuration", "overrides", "seed", "status", "error", *NUMBERS, "folder", "of", "baselines"]
    return pd.DataFrame(rows, columns=columns)


def _read_job(folder: Path) -> dict[str, Any]:
    words = _read(folder / JOB) or {"overrides": [folder.name], "configuration": [folder.name]}
    failed = _read(folder / FAILED)
    result = _read(folder / RESULT) if failed is None and (folder / MANIFEST).is_file() else None
    status = result["status"] if result else "failed" if failed else "unfinished"
    row = {
        "job": folder.name,
        "configuration": " ".join(words["configuration"]),
        "overrides": " ".join(words["overrides"]),
        "status": status,
        "error": failed["error"] if failed else None,
        "folder": str(folder),
    }
    if result is None:
        return row
    return row | {
        **{name: look_up(result, path) for name, path in (SCORES | FIGURES).items()},
        "seed": result["seed"],
        "of": _fingerprint(result["config"]),
        "baselines": result["baselines"],
    }


def summarise(jobs: pd.DataFrame) -> pd.DataFrame:
    """Give a row a configuration: the means over its seeds, their standard deviations (`_sd`, n - 1), and n.

    The baselines follow, each once where it scores the same in all jobs, and then the jobs that did not finish.
    """
    finished = jobs[jobs["of"].notna()]
    rows: list[dict[str, Any]] = []
    for (configuration, _), group in finished.groupby(["configuration", "of"], sort=False):
        numbers = group[NUMBERS].astype(float)
        spread = numbers.drop(columns=COUNTS).std(ddof=1).add_suffix("_sd")
        status = " ".join(sorted(set(group["status"])))
        row = {"row": "model", "configuration": configuration, "n": len(group), "status": status}
        rows.append(row | dict(numbers.mean()) | dict(spread))
    rows += _baselines(finished)
    rest = jobs[jobs["of"].isna()]
    for job in rest.to_dict("records"):
        rows.append({"row": "job", "configuration": job["overrides"], "status": job["status"], "error": job["error"]})
    measured = [name for name in NUMBERS if name not in COUNTS]
    numbers_and_spreads = [*(f"{name}{end}" for name in measured for end in ("", "_sd")), *COUNTS]
    return pd.DataFrame(rows, columns=["row", "configuration", "n", "status", *numbers_and_spreads, "error"])


def _baselines(finished: pd.DataFrame) -> list[dict[str, Any]]:
    """Give a row a baseline, or one for each score that it has where data, horizon or look-back differ."""
    rows = []
    for name in ("last_value", "seasonal_naive", "linear"):
        alike: dict[str, list[pd.Series]] = {}
        for _, job in finished.iterrows():
            if scored := job["baselines"].get(name):
                alike.setdefault(f"{look_up(scored, 'test.scaled.mse'):.6g}", []).append(job)
        for group in alike.values():
            words = [job["configuration"].split(" ") for job in group]
            shared = [word for word in words[0] if all(word in other for other in words)]
            first = group[0]["baselines"]
            naive = look_up(first.get("seasonal_naive"), SCORES["test_mse"])
            numbers = {column: look_up(first[name], path) for column, path in SCORES.items()}
            gain = None if naive is None else skill(numbers["test_mse"], naive)
            label = " ".join([NAMES[name], *(shared if len(alike) > 1 else [])])
            rows.append({"row": name, "configuration": label, **numbers, "skill": gain})
    return rows


def _fingerprint(config: dict[str, Any]) -> str:
    """Give what makes a run another than one of another seed."""
    kept = {key: value for key, value in flatten(config).items() if key.split(".")[0] not in (*FREE, "seed")}
    return json.dumps(kept, sort_keys=True)


def _read(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _natural(folder: Path) -> list[Any]:
    return [(not piece.isdecimal(), int(piece) if piece.isdecimal() else piece) for piece in _PIECES.split(folder.name)]


_PIECES = re.compile(r"(\d+)")
