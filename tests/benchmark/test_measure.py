from dataclasses import replace

import pytest
import torch

from forecast.attention._parsing import choose
from forecast.benchmark import measure as module
from forecast.benchmark.machine import Limits, measure_limits
from forecast.benchmark.measure import Attempt, Measured, Watch, measure
from forecast.benchmark.report import _left_out, rows_of
from forecast.benchmark.request import Plan
from forecast.common.timing import Load
from tests.benchmark.made import CPU, LIMITS

PLAN = Plan(
    device=CPU, dtype=torch.float32, variants=choose(["mean", "linear"]), lengths=(16, 32, 64), batch=1, num_heads=2,
    head_dim=8, causal=True, backward=True, layer_length=32, d_model=64, layer_repetitions=3, seconds=0.0,
    repetitions=2, limit=60.0, fit_from=16,
)  # fmt: skip


def test_a_plan_is_the_layer_in_three_layouts_and_four_sweeps() -> None:
    assert [(shape.num_heads, shape.head_dim) for shape in PLAN.layer_shapes()] == [(1, 64), (2, 32), (8, 8)]
    kinds = [[(shape.length, shape.causal, shape.backward) for shape in sweep] for sweep in PLAN.sweeps()]
    assert kinds[1] == [(length, False, True) for length in PLAN.lengths]
    assert [kind[0][1:] for kind in kinds] == [(False, False), (False, True), (True, False), (True, True)]
    assert PLAN.num_cases() == 3 * (3 + 4 * 3)
    assert replace(PLAN, lengths=(), layer_length=None).num_cases() == 0


def test_every_case_of_the_plan_is_measured_as_often_as_asked() -> None:
    groups: list[list[Measured]] = []
    said: list[str] = []
    measured = measure(PLAN, Watch(said.append, groups.append))
    assert [done for group in groups for done in group] == measured
    assert len(measured) == PLAN.num_cases()
    assert not any(done.skipped for done in measured)
    assert {done.spread.repetitions for done in measured if done.spread and done.table == "layer"} == {3}
    assert {done.spread.repetitions for done in measured if done.spread and done.table == "lengths"} == {2}
    assert all(done.spread and done.spread.shortest > 0 for done in measured)
    assert "lengths, 2 heads of 8, 64 tokens, causal forward+backward: linear" in said


def test_a_mechanism_over_the_limit_stops_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"full": 10.0, "mean": 1e-6, "linear": 1e-6}

    def interleave(passes: dict[str, object], **_: object) -> dict[str, list[float]]:
        return {label: [seconds[label]] for label in passes}

    monkeypatch.setattr(module, "interleave", interleave)
    plan = replace(PLAN, causal=False, backward=False, layer_length=None)
    measured = measure(plan, Watch())
    full = {done.case.shape.length: done.skipped for done in measured if done.case.variant.label == "full"}
    # one warm-up, one for the memory, two timed, 40 s each at twice the length, 160 s at four times
    assert full == {
        16: "",
        32: "time: would take about 160 s, the limit is 60 s",
        64: "time: would take about 640 s, the limit is 60 s",
    }
    assert not any(done.skipped for done in measured if done.case.variant.label != "full")


def test_of_a_bounded_time_each_group_has_a_part_and_each_mechanism_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of a group may not take all; what a group leaves goes to those that follow."""
    now, limits = [100.0], []

    def attempt(*_: object, limit: float, **__: object) -> Attempt:
        limits.append(limit)
        now[0] += 1.0
        return Attempt(skipped="time", seconds=1.0)

    monkeypatch.setattr(module, "attempt", attempt)
    monkeypatch.setattr(module, "probe", lambda *_: None)
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    plan = replace(PLAN, causal=False, backward=False, layer_length=None, budget=90.0)
    assert (plan.num_groups(), len(plan.variants)) == (3, 3)
    measure(plan, Watch())
    # of 30 s: 5 are kept for each that follows; the group takes 3 s and leaves 87 s for two
    assert limits[:4] == [20.0, 24.0, 28.0, pytest.approx(43.5 - 2 * 7.25)]
    limits.clear()
    measured = measure(replace(plan, budget=1.5), Watch())
    # two take a second each, more than their groups have; nothing is left for the third group
    assert len(limits) == 2
    assert [done.skipped for done in measured] == ["time", *[module.OVER] * 2, "time", *[module.OVER] * 5]


def test_the_limits_of_the_machine_count_each_byte_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecast.benchmark.machine.SIDE", {"cpu": 100})
    monkeypatch.setattr("forecast.benchmark.machine.COPIED", {"cpu": 4000})
    monkeypatch.setattr("forecast.benchmark.machine.seconds_of", lambda run, device: run() is None or 0.5)
    assert measure_limits(CPU, torch.bfloat16) == Limits(operations=4e6, bytes=16e3)


def test_a_group_that_others_disturbed_is_marked_in_its_rows_and_beneath_its_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loads = iter([Load(1, 1.9, 0.01, 0.05), Load(1, 1.2, 0.7, 0.8), Load(1, 1.9, 0.01, 0.05)])
    monkeypatch.setattr(module, "load_since", lambda _: next(loads))
    measured = measure(replace(PLAN, causal=False, backward=False, layer_length=None), Watch())
    rows = [row for place in (0, 3, 6) for row in rows_of(measured[place : place + 3], LIMITS, torch.float32, {})]
    assert [row["disturbed"] for row in rows] == [False] * 3 + [True] * 3 + [False] * 3
    assert [row["other_processors"] for row in rows[::3]] == [0.05, 0.8, 0.05]
    assert _left_out(rows) == (
        "busy machine: other processes took processors while 32 tokens were timed; these times are too long",
    )
    assert _left_out(rows[:3]) == ()
