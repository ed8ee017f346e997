"""Which scores a report has columns for: whatever the results hold."""

from collections.abc import Iterable
from typing import Any

from forecast.common.nested import look_up
from forecast.report.sections import Section
from forecast.runs.rows import FIGURES, SCORES

HEADINGS = {"rmse": "RMSE", "smape": "sMAPE, %", "wape": "WAPE, %", "mase": "MASE"}
"""Of scores that have a short name; others are headed by their own."""


def score_paths(results: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Give column → dotted path of every score of the test and validation parts, those of the sweep's table first.

    A score in original units ends in `_original` where z-scores have one of the same name.
    """
    paths = dict(SCORES)
    for result in results:
        for part in ("test", "validation"):
            scaled, original = (look_up(result, f"{part}.{unit}") or {} for unit in ("scaled", "original"))
            found = {f"{part}_{name}": f"{part}.scaled.{name}" for name in scaled}
            found |= {f"{part}_{name}{'_original' * (name in scaled)}": f"{part}.original.{name}" for name in original}
            paths |= {column: path for column, path in found.items() if path not in paths.values()}
    return paths


def number_paths(section: Section) -> dict[str, str]:
    """Give column → dotted path of every number of a section's runs."""
    return score_paths(run.result for setting in section.settings for run in setting.runs) | FIGURES


def more_scores(section: Section) -> dict[str, str]:
    """Give heading → dotted path of the test scores that come beside MSE and MAE in the printed table."""
    names = {
        column.removeprefix("test_"): path
        for column, path in number_paths(section).items()
        if column.startswith("test_") and not column.endswith("_original")
    }
    elsewhere = ("mse", "mae", "windows")
    held = {name: path for name, path in names.items() if name not in elsewhere and _is_held(section, path)}
    return {HEADINGS.get(name, name): path for name, path in held.items()}


def _is_held(section: Section, path: str) -> bool:
    return any(look_up(run.result, path) is not None for setting in section.settings for run in setting.runs)
