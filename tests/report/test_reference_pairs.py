"""The reasons to leave the reference agree with the numbers of the runs."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from forecast.report.comparisons import compare_all
from forecast.report.groups import groups_of
from forecast.report.reference_pairs import UNKNOWN, reasons_table
from forecast.runs.read import read_runs
from tests.report.conftest import Made
from tests.report.made import errors, result_of, write_run

LOOK_BACKS = (96, 720)


def reasons(root: Path) -> dict[tuple[str, str], str]:
    """Return the reasons by look-back and mechanism."""
    (group,) = groups_of(read_runs([root]).runs)
    table = reasons_table(compare_all(group))
    assert table is not None
    return {(row[0], row[1]): row[-1] for row in table.cells}


def write(root: Path, error: float = 0.4, seeds: tuple[int, ...] = (1, 2, 3), **more: Any) -> None:
    """Write runs of `full`, and of `linear` with another error and other costs, at two look-backs."""
    for number, (name, look_back, seed) in enumerate(product(("full", "linear"), LOOK_BACKS, seeds)):
        series = errors(error if name == "linear" else 0.4, number)
        own = more if name == "linear" else {}
        result = result_of(name, look_back, seed, mse=float(series.mean()), **own)
        write_run(root / str(number), result, series)


@pytest.mark.parametrize(
    ("error", "costs", "expected"),
    [
        (0.4, {}, "none"),
        (0.36, {}, "lower error"),
        (0.4, {"train": 300}, "less training time"),
        (0.4, {"inference": 800}, "less inference time"),
        (0.4, {"memory": 350}, "less peak memory"),
        (0.36, {"train": 300, "memory": 350}, "lower error, less training time and less peak memory"),
        (0.44, {"train": 50}, "none"),
    ],
)
def test_a_lower_error_and_each_lower_cost_are_reasons(
    error: float, costs: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    write(tmp_path, error, **costs)
    assert reasons(tmp_path) == {("96", "linear"): expected, ("720", "linear"): expected}


def test_a_lower_error_of_one_seed_is_no_reason(tmp_path: Path) -> None:
    write(tmp_path, 0.36, seeds=(1,))
    assert set(reasons(tmp_path).values()) == {UNKNOWN}


@pytest.mark.parametrize("missing", ["inference", "device"])
def test_what_was_not_measured_is_no_reason_to_stay(missing: str, tmp_path: Path) -> None:
    for number, (name, look_back) in enumerate(product(("full", "linear"), LOOK_BACKS)):
        result = result_of(name, look_back)
        if name == "linear" and missing == "inference":
            result["speed"]["inference_windows_per_s"] = None
        elif name == "linear":
            result["device"] = "A GPU"
        write_run(tmp_path / str(number), result, errors(0.4, number))
    assert set(reasons(tmp_path).values()) == {UNKNOWN}


def test_every_setting_is_compared_with_the_reference_of_its_own_size(tmp_path: Path) -> None:
    levels = {("full", 64): 0.4, ("full", 128): 0.2, ("mean", 64): 0.44, ("mean", 128): 0.3}
    for number, ((name, size), level) in enumerate(levels.items()):
        series = errors(level, number)
        result = result_of(name, 96, mse=float(series.mean()), config={"model.d_model": size})
        write_run(tmp_path / str(number), result, series)
    (group,) = groups_of(read_runs([tmp_path]).runs)
    table = reasons_table(compare_all(group))
    assert table is not None
    found = {row[1]: (row[2], round(float(row[3]))) for row in table.cells}
    assert found == {
        "mean, model.d_model=64": ("full, model.d_model=64", pytest.approx(10, abs=1.5)),
        "mean, model.d_model=128": ("full, model.d_model=128", pytest.approx(50, abs=5)),
    }


def test_every_ratio_equals_that_of_the_results(made: Made) -> None:
    group = made.chapter.group
    setting, full = group.at("probsparse", 2880), group.at("full", 2880)
    assert setting
    assert full
    table = reasons_table(made.chapter.comparisons)
    assert table is not None
    (row,) = [row for row in table.cells if row[:2] == ["2,880", "probsparse"]]
    for cell, name in zip(row[4:7], ("train_windows_per_s", "inference_windows_per_s", "peak_memory_mib"), strict=True):
        own, other = sorted(setting.values(f"speed.{name}")), sorted(full.values(f"speed.{name}"))
        ratio = own[1] / other[1]
        assert float(cell.split()[0]) == pytest.approx(1 / ratio if "memory" in name else ratio, rel=5e-3)
