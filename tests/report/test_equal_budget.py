"""Errors at equal steps and at equal minutes, from made-up validation curves."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from forecast.common.tables import Table
from forecast.report.equal_budget import budget_table
from forecast.report.groups import groups_of
from forecast.report.phrases import MINUS
from forecast.runs.read import read_runs
from tests.report import made


def curve(*points: tuple[int, float, float]) -> list[dict[str, Any]]:
    return [{"step": step, "seconds": seconds, "mse": mse} for step, seconds, mse in points]


Curves = Mapping[tuple[str, int, int], list[dict[str, Any]] | None]


def write(
    root: Path,
    curves: Curves,
    *,
    device: str | None = None,
    busy: str | None = None,
    config: Mapping[str, Any] | None = None,
) -> Path:
    """Write a run for each curve; `mean` is from another `device`, and the machine was busy at the mechanism `busy`."""
    for (mechanism, look_back, seed), points in curves.items():
        load = {"train": made.BUSY if mechanism == busy else made.QUIET}
        result = made.result_of(mechanism, look_back, seed, load=load, config=config)
        if device is not None and mechanism == "mean":
            result["device"] = device
        if points is not None:
            result["validations"] = points
        made.write_run(root / f"{mechanism}-{look_back}-{seed}", result)
    return root


def table_of(root: Path) -> Table | None:
    (group,) = groups_of(read_runs([root]).runs)
    return budget_table(group)


CURVES = {
    ("full", 96, 1): curve((100, 60, 0.5), (200, 120, 0.4), (300, 180, 0.2)),
    ("full", 96, 2): curve((100, 60, 0.6), (200, 120, 0.6), (300, 180, 0.1)),
    ("mean", 96, 1): curve((100, 30, 0.9), (200, 60, 0.8), (250, 90, 0.3)),
    ("mean", 96, 2): curve((100, 30, 0.9), (200, 60, 1.0), (250, 90, 0.2)),
}


def test_errors_are_read_at_the_budgets_of_the_shortest_and_the_longest(tmp_path: Path) -> None:
    table = table_of(write(tmp_path, CURVES))
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


UNEQUAL = {
    ("full", 96, 1): curve((100, 60, 0.5), (200, 120, 0.4)),
    ("full", 96, 2): curve((100, 60, 0.6), (200, 120, 0.5), (600, 360, 0.1)),
    ("mean", 96, 1): curve((100, 30, 0.9), (300, 90, 0.3)),
    ("mean", 96, 2): curve((100, 30, 0.9), (300, 90, 0.3)),
}


def test_the_budgets_are_those_of_single_runs_whose_seeds_end_at_different_steps(tmp_path: Path) -> None:
    table = table_of(write(tmp_path, UNEQUAL))
    assert table is not None
    assert [(row[1], row[3][:6]) for row in table.cells if row[2] == "full"] == [
        ("200 steps", "0.4500"),
        ("600 steps", "0.2500"),  # of 0.4 and 0.1, which a mean budget of 400 steps would leave out
        ("1.5 min", "0.5500"),
        ("6 min", "0.2500"),
    ]


def test_minutes_of_different_machines_are_not_compared(tmp_path: Path) -> None:
    table = table_of(write(tmp_path, CURVES, device="Another processor, 8 threads"))
    assert table is not None
    assert {row[1] for row in table.cells} == {"250 steps", "300 steps"}


def test_minutes_that_other_processes_disturbed_are_not_compared(tmp_path: Path) -> None:
    table = table_of(write(tmp_path, CURVES, busy="full"))
    assert table is not None
    assert {row[1] for row in table.cells} == {"250 steps", "300 steps"}


def test_times_in_turn_replace_the_minutes_of_the_runs(tmp_path: Path) -> None:
    write(tmp_path, CURVES, busy="full")
    batch = made.CONFIG["training"]["batch_size"]
    times = {("full", 96): [600.0 / batch] * 5, ("mean", 96): [200.0 / batch] * 5}  # seconds for 1,000 windows
    made.write_turns(tmp_path, times)
    table = table_of(tmp_path)
    assert table is not None
    minutes = [row[1:4] for row in table.cells if row[1].endswith(("min", " s"))]
    assert minutes == [  # 300 steps of 0.6 s, and 250 of 0.2 s, in which `full` makes 83
        ["50 s", "full", "-"],
        ["50 s", "mean", "0.2500 ± 0.0707"],
        ["3 min", "full", "0.1500 ± 0.0707"],
        ["3 min", "mean", "0.2500 ± 0.0707"],
    ]


@pytest.mark.parametrize(
    ("config", "falls"),
    [
        ({}, True),
        ({"scheduler": {"_target_": "forecast.training.schedule.cosine", "final_factor": 0.0}}, True),
        ({"scheduler": {"_target_": "forecast.training.schedule.cosine", "final_factor": 1.0}}, False),
        ({"scheduler": {"_target_": "torch.optim.lr_scheduler.ConstantLR"}}, False),
    ],
)
def test_a_note_tells_that_the_rate_was_still_high(tmp_path: Path, config: dict[str, Any], falls: bool) -> None:
    table = table_of(write(tmp_path, CURVES, config=config))
    assert table is not None
    assert any("planned for that budget" in note for note in table.notes) == falls


def test_minutes_that_differ_by_noise_are_one_budget(tmp_path: Path) -> None:
    curves = {
        ("full", 96, 1): curve((100, 60, 0.5), (200, 120, 0.4)),
        ("mean", 96, 1): curve((100, 60, 0.6), (200, 121, 0.3)),
    }
    table = table_of(write(tmp_path, curves))
    assert table is not None
    assert [row[1:4] for row in table.cells[2:]] == [["2.02 min", "full", "0.4000"], ["2.02 min", "mean", "0.3000"]]


@pytest.mark.parametrize("lacking", [None, []])
def test_runs_without_a_curve_are_left_out(tmp_path: Path, lacking: list[Any] | None) -> None:
    curves = {("full", 96, 1): curve((100, 60, 0.5)), ("mean", 96, 1): lacking}
    assert table_of(write(tmp_path, curves)) is None


def test_an_arm_is_compared_with_the_full_of_its_own_size(tmp_path: Path) -> None:
    errors = {("full", 64): 0.4, ("full", 128): 0.2, ("mean", 64): 0.44, ("mean", 128): 0.3}
    for (name, size), mse in errors.items():
        result = made.result_of(name, 96, config={"model.d_model": size})
        made.write_run(tmp_path / f"{name}-{size}", {**result, "validations": curve((100, 60, mse))})
    table = table_of(tmp_path)
    assert table is not None
    found = {row[2]: row[4] for row in table.cells if row[1].endswith("steps")}
    assert found["mean, model.d_model=64"] == "+10.0"
    assert found["mean, model.d_model=128"] == "+50.0"
    assert found["full, model.d_model=64"] == found["full, model.d_model=128"] == "-"


def test_a_target_without_a_change_has_no_relative_difference(tmp_path: Path) -> None:
    curves = {(name, 96, 1): curve((100, 60, 0.0), (200, 120, 0.0)) for name in ("full", "mean")}
    table = table_of(write(tmp_path, curves))
    assert table is not None
    assert {row[-1] for row in table.cells} == {"-"}
