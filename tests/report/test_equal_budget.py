"""Errors at equal steps and at equal minutes, from made-up validation curves."""

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


def write(root: Path, curves: dict[tuple[str, int, int], list[dict[str, Any]] | None]) -> Path:
    for (mechanism, look_back, seed), points in curves.items():
        result = made.result_of(mechanism, look_back, seed)
        if points is not None:
            result["validations"] = points
        made.write_run(root / f"{mechanism}-{look_back}-{seed}", result)
    return root


def test_errors_are_read_at_the_largest_common_budget(tmp_path: Path) -> None:
    curves = {
        ("full", 96, 1): curve((100, 60, 0.5), (200, 120, 0.4), (300, 180, 0.2)),
        ("full", 96, 2): curve((100, 60, 0.6), (200, 120, 0.6), (300, 180, 0.1)),
        ("mean", 96, 1): curve((100, 30, 0.9), (200, 60, 0.8), (250, 90, 0.3)),
        ("mean", 96, 2): curve((100, 30, 0.9), (200, 60, 1.0), (250, 90, 0.2)),
    }
    (section,) = sections_of(read_runs([write(tmp_path, curves)]).runs)
    table = budget_table(section)
    assert table is not None
    assert table.cells == [  # 250 steps: full has 0.4 and 0.6, mean 0.3 and 0.2; 90 s: full has 0.5 and 0.6
        ["full", "96", "250", "0.5000 ± 0.1414", "-", "1.50", "0.5500 ± 0.0707", "-"],
        ["mean", "96", "250", "0.2500 ± 0.0707", f"{MINUS}50.0", "1.50", "0.2500 ± 0.0707", f"{MINUS}54.5"],
    ]


@pytest.mark.parametrize("lacking", [None, []])
def test_runs_without_a_curve_are_left_out(tmp_path: Path, lacking: list[Any] | None) -> None:
    curves = {("full", 96, 1): curve((100, 60, 0.5)), ("mean", 96, 1): lacking}
    (section,) = sections_of(read_runs([write(tmp_path, curves)]).runs)
    assert budget_table(section) is None
