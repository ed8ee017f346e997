"""The table of transplants: the weights of a run under another mechanism or look-back."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from forecast.common.files import read_json
from forecast.common.tables import Table
from forecast.report.phrases import rounded, score, signed
from forecast.report.sections import Section
from forecast.runs.read import FinishedRun
from forecast.runs.run import TRANSPLANT

TITLE = "Transplanted"


def transplant_table(section: Section) -> Table | None:
    """Return the table of transplants, means over their seeds; None if no run has any."""
    cells, damaged = [], []
    for setting in section.settings:
        by_key: dict[tuple[int, str], list[Sequence[float]]] = {}
        for run in setting.runs:
            transplants = transplants_of(run)
            damaged += [run.name] * (transplants is None)
            for key, numbers in (transplants or {}).items():
                by_key.setdefault(key, []).append(numbers)
        for (look_back, attention), rows in sorted(by_key.items()):
            mse, mae, more, times = np.mean(rows, axis=0)
            names = [setting.arm, f"{setting.look_back:,}", attention, f"{look_back:,}", str(len(rows))]
            cells.append([*names, score(mse), score(mae), signed(more), rounded(times)])
    strided = any(run.result["data"].get("evaluation_stride", 1) > 1 for one in section.settings for run in one.runs)
    headings = (
        *("trained with", "at look-back", "run with", "at look-back", "seeds", "test MSE", "test MAE"),
        *("MSE, % more", "times its time"),
    )
    notes = (
        "The weights of a run under another mechanism or look-back, without further training (`python -m "
        "forecast.predict.transplant`).",
        "% more, times: relative to the same weights as trained, scored in the same run.",
        *(["Test MSE, MAE: over all windows; the table Results has only some of them."] if strided else []),
        *(f"{name}: its {TRANSPLANT} is not readable and is left out" for name in damaged),
    )
    return Table(TITLE, headings, cells, notes) if cells or damaged else None


def transplants_of(run: FinishedRun) -> dict[tuple[int, str], Sequence[float]] | None:
    """Return the transplants of a run by look-back and mechanism, empty without any; None if unreadable.

    The values are MSE, MAE, % more MSE than as trained, and time relative to the time as trained.
    """
    try:
        content = read_json(run.folder / TRANSPLANT)
        if content is None:
            return {}
        trained, *others = content["scored"]
        return {(int(row["context_length"]), str(row["attention"])): _relative(row, trained) for row in others}
    except (OSError, ValueError, TypeError, KeyError, ArithmeticError, RecursionError):
        return None


def _relative(row: Mapping[str, Any], trained: Mapping[str, Any]) -> Sequence[float]:
    (mse, mae, seconds), (trained_mse, _, trained_seconds) = (
        [
            float("nan") if value is None else float(value)
            for value in (line["test"]["mse"], line["test"]["mae"], line["seconds_per_window"])
        ]
        for line in (row, trained)
    )
    more = 100 * (mse / trained_mse - 1) if trained_mse else float("nan")
    return mse, mae, more, seconds / trained_seconds
