"""What was equal for all runs, and errors at equal steps and at equal minutes, from made-up validation curves."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from forecast.common.tables import Table
from forecast.report.budget import MOST_VALUES, budget_table, facts_of
from forecast.report.groups import groups_of
from forecast.report.phrases import MINUS
from forecast.runs.read import read_runs
from tests.report import made
from tests.report.made import result_of, write_run


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
        result = result_of(mechanism, look_back, seed, load=load, config=config)
        if device is not None and mechanism == "mean":
            result["device"] = device
        if points is not None:
            result["validations"] = points
        write_run(root / f"{mechanism}-{look_back}-{seed}", result)
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
        result = result_of(name, 96, config={"model.d_model": size})
        write_run(tmp_path / f"{name}-{size}", {**result, "validations": curve((100, 60, mse))})
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


def facts(root: Path, *results: dict[str, Any], stride: int = 1) -> dict[str, tuple[str, str]]:
    for place, result in enumerate(results):
        result["data"]["evaluation_stride"] = stride
        write_run(root / str(place), result)
    (group,) = groups_of(read_runs([root]).runs)
    return {fact.name: (fact.state, fact.values) for fact in facts_of(group)}


def test_studied_facts_are_compared_and_the_others_are_equal(tmp_path: Path) -> None:
    results = [result_of(name, length) for name in ("full", "linear") for length in (96, 720)]
    by_name = facts(tmp_path, *results, stride=5)
    assert by_name["mechanism"] == ("compared", "full, linear")
    assert by_name["look-back, steps"] == ("compared", "96, 720")
    assert by_name["windows seen in training"] == ("equal", "32,000")
    assert by_name["passes over the training windows"] == ("equal", "4.0")
    assert by_name["steps between scored windows"] == ("equal", "5")
    assert by_name["threads"] == ("equal", "2 threads")
    assert "differs" not in {state for state, _ in by_name.values()}


@pytest.mark.parametrize(
    ("path", "value", "name", "values"),
    [
        ("model.parameters", 120_000, "parameters", "100,000 (full); 120,000 (linear)"),
        ("model.steps", 400, "training steps", "500 (full); 400 (linear)"),
        ("model.steps", 400, "windows seen in training", "32,000 (full); 25,600 (linear)"),
        ("data.windows.test", 1999, "test windows scored", "2,000 (full); 1,999 (linear)"),
        ("data.windows.train", 7000, "training windows", "8,000 (full); 7,000 (linear)"),
        ("versions.torch", "2.11.0", "torch", "2.13.0+cpu (full); 2.11.0 (linear)"),
        ("commit", "0123", "commit", "fbc11413b8ef52d752ec155d420b6ac13c27f97b (full); 0123 (linear)"),
        ("device", "A processor, 1 threads", "threads", "2 threads (full); 1 threads (linear)"),
        ("device", "A GPU", "device", "A processor (full); A GPU (linear)"),
        ("precision", "bf16-mixed", "precision", "32-true (full); bf16-mixed (linear)"),
        ("status", "out of time", "how training ended", "finished (full); out of time (linear)"),
        ("config.sweep.isolate", True, "a process for each job", "False (full); True (linear)"),
        ("config.training.profile", True, "training.profile", "False (full); True (linear)"),
        ("config.training.evaluation_batch_size", 8, "training.evaluation_batch_size", "256 (full); 8 (linear)"),
        ("config.trainer.log_every_n_steps", 9, "trainer.log_every_n_steps", "10 (full); 9 (linear)"),
        ("seed", 2, "seeds", "1 (full); 2 (linear)"),
    ],
)
def test_a_fact_that_differs_names_its_settings(tmp_path: Path, path: str, value: Any, name: str, values: str) -> None:
    other = result_of("linear")
    node = other
    *groups, key = path.split(".")
    for group in groups:
        node = node[group]
    assert node[key] != value
    node[key] = value
    by_name = facts(tmp_path, result_of(), other)
    assert by_name[name] == ("differs", values)


def test_settings_are_named_by_look_back_alone_if_that_is_unique(tmp_path: Path) -> None:
    results = [result_of(name, length) for name in ("full", "linear") for length in (96, 720)]
    for result in results:
        result["data"]["windows"]["train"] -= result["config"]["context_length"]
    by_name = facts(tmp_path, *results)
    assert by_name["training windows"] == ("differs", "7,904 (look-back 96); 7,280 (look-back 720)")


@pytest.mark.parametrize(("count", "is_range"), [(MOST_VALUES, False), (MOST_VALUES + 1, True)])
def test_many_numbers_are_shown_as_a_range(tmp_path: Path, count: int, is_range: bool) -> None:
    results = [result_of("full", 96 + 10 * place) for place in range(count)]
    for place, result in enumerate(results):
        result["model"]["parameters"] = 1000 + place
    state, values = facts(tmp_path, *results)["parameters"]
    assert state == "differs"
    assert (values == f"from 1,000 to {999 + count:,}") == is_range
