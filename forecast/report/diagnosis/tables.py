"""The tables of the chapter on diagnostic series."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from forecast.common.tables import Table
from forecast.common.text import NONE
from forecast.report.costs import BUSY_NOTE, MARK
from forecast.report.diagnosis.tasks import Cell, Diagnosis
from forecast.report.phrases import rounded

HEADINGS = (
    *("task", "mechanism", "share of skill", "95 % interval", "test MSE", "simple forecast", "best possible"),
    *("seeds", "training steps", "learning rate", "rates compared", "training, ms a window", "peak, MiB"),
)


def diagnosis_table(diagnosis: Diagnosis) -> Table:
    """Return a row for each task and mechanism."""
    rows = [_row(diagnosis, cell) for task in diagnosis.tasks for cell in diagnosis.of(task)]
    notes = [
        "share of skill: 0 is the better of last value and ridge regression, 1 the best possible forecast. A control "
        "has the error above the best possible one instead.",
        "The learning rate has the least validation error of those with the most seeds. Test scores of the other rates "
        "are not used.",
        "95 % interval: Student's t over the seeds.",
        *((BUSY_NOTE,) if any(cell.is_disturbed for cell in diagnosis.cells.values()) else ()),
    ]
    return Table("Share of the achievable skill", HEADINGS, rows, notes, words=2)


def _row(diagnosis: Diagnosis, cell: Cell) -> list[str]:
    test = [run.result["diagnostic"]["test"] for run in cell.runs]
    low, high = cell.mean - cell.half, cell.mean + cell.half
    if cell.task.is_control:
        score, interval = f"{100 * cell.mean:+.1f} % error", f"{100 * low:+.1f} to {100 * high:+.1f} %"
    else:
        score, interval = f"{cell.mean:.3f}", f"{low:.3f} to {high:.3f}"
    return [
        diagnosis.name(cell.task),
        cell.arm,
        score,
        NONE if math.isnan(cell.half) else interval,
        f"{np.mean([scores['mse'] for scores in test]):.4f}",
        f"{np.mean([scores['simple_mse'] for scores in test]):.4f}",
        f"{cell.runs[0].number('diagnostic.best_mse'):.4f}",
        str(len(cell.runs)),
        " ".join(f"{number:,}" for number in cell.steps),
        _text(cell.rate),
        " ".join(map(_text, cell.rates)),
        rounded(cell.milliseconds) + (MARK if cell.is_disturbed else ""),
        rounded(cell.mebibytes),
    ]


def _text(rate: float | None) -> str:
    return NONE if rate is None else f"{rate:g}"


def diagnosis_commands(diagnosis: Diagnosis) -> Table:
    """Return the table of the commands of the runs at the chosen learning rates."""
    rows = [
        [diagnosis.name(task), cell.arm, str(run.result["seed"]), run.name, f"`{run.result['command']}`"]
        for task in diagnosis.tasks
        for cell in diagnosis.of(task)
        for run in cell.runs
    ]
    return Table("Commands", ("task", "mechanism", "seed", "folder", "command"), rows, words=5)


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
            "events": task.events,
            "noise": task.noise,
            "tokens": tokens_of(cell.runs[0].config),
            "share_of_skill": None if task.is_control else cell.mean,
            "excess_error": cell.mean if task.is_control else None,
            "half_interval": cell.half,
            "best_mse": cell.runs[0].number("diagnostic.best_mse"),
            "test_mse_original": float(np.mean([run.number("diagnostic.test.mse") for run in cell.runs])),
            "training_steps": " ".join(map(str, cell.steps)),
            "learning_rate": cell.rate,
            "train_ms_per_window": cell.milliseconds,
            "peak_memory_mib": cell.mebibytes,
            "commands": "; ".join(run.result["command"] for run in cell.runs),
        }
        for task in diagnosis.tasks
        for cell in diagnosis.of(task)
    ]


def tokens_of(config: Mapping[str, Any]) -> int:
    """Return the tokens of the look-back."""
    model, look_back = config["model"], int(config["context_length"])
    length = int(model.get("patch_length") or 1)
    stride = int(model.get("stride") or length)
    return 1 + max(0, -(-(look_back - length) // stride))
