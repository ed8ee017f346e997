"""Errors at equal steps and at equal minutes, from made-up validation curves."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from forecast.report.equal_budget import budget_table
from forecast.report.phrases import MINUS
from forecast.report.sections import sections_of
from forecast.runs.read import read_runs
from tests.report import made


def curve(*points: tuple[int, float, float]) -> list[dict[str, Any]]:
    return [{"step": step, "seconds": seconds, "mse": mse} for step, seconds, mse in points]


def write(
    root: Path, curves: Mapping[tuple[str, int, int], list[dict[str, Any]] | None], device: str | None = None
) -> Path:
    """Write a run for each curve; those of `mean` are from another device, if given."""
    for (mechanism, look_back, seed), points in curves.items():
        result = made.result_of(mechanism, look_back, seed)
        if device is not None and mechanism == "mean":
            result["device"] = device
        if points is not None:
            result["validations"] = points
        made.write_run(root / f"{mechanism}-{look_back}-{seed}", result)
    return root


CURVES = {
    ("full", 96, 1): curve((100, 60, 0.5), (200, 120, 0.4), (300, 180, 0.2)),
    ("full", 96, 2): curve((100, 60, 0.6), (200, 120, 0.6), (300, 180, 0.1)),
    ("mean", 96, 1): curve((100, 30, 0.9), (200, 60, 0.8), (250, 90, 0.3)),
    ("mean", 96, 2): curve((100, 30, 0.9), (200, 60, 1.0), (250, 90, 0.2)),
}


def test_errors_are_read_at_the_budgets_of_the_shortest_and_the_longest(tmp_path: Path) -> None:
    (section,) = sections_of(read_runs([write(tmp_path, CURVES)]).runs)
    table = budget_table(section)
    assert table is not None
    mean = ["mean", "0.2500 ± 0.0707"]  # of 0.3 and 0.2, which the runs keep after their end
    assert table.cells == [
        ["96", "250 steps", "full", "0.5000 ± 0.1414", "-"],  # of 0.4 and 0.6
        ["96", "250 steps", *mean, f"{MINUS}50.0"],
        ["96", "300 steps", "full", "0.1500 ± 0.0707", "-"],
        ["96", "300 steps", *mean, "+66.7"],
        ["96", "1.5 min", "full", "0.5500 ± 0.0707", "-"],  # of 0.5 and 0.6
        ["96", "1.5 min", *mean, f"{MINUS}54.5"],
        ["96", "3 min", "full", "0.1500 ± 0.0707", "-"],
        ["96", "3 min", *mean, "+66.7"],
    ]


def test_minutes_of_different_machines_are_not_compared(tmp_path: Path) -> None:
    (section,) = sections_of(read_runs([write(tmp_path, CURVES, "Another processor, 8 threads")]).runs)
    table = budget_table(section)
    assert table is not None
    assert {row[1] for row in table.cells} == {"250 steps", "300 steps"}


@pytest.mark.parametrize("lacking", [None, []])
def test_runs_without_a_curve_are_left_out(tmp_path: Path, lacking: list[Any] | None) -> None:
    curves = {("full", 96, 1): curve((100, 60, 0.5)), ("mean", 96, 1): lacking}
    (section,) = sections_of(read_runs([write(tmp_path, curves)]).runs)
    assert budget_table(section) is None
