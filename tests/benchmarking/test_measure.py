from dataclasses import replace

import pytest
import torch

from forecast.benchmarking import measure as module
from forecast.benchmarking.limits import Limits, measure_limits
from forecast.benchmarking.measure import Measured, Watch, measure
from forecast.benchmarking.mechanisms import choose
from forecast.benchmarking.plan import Plan
from tests.benchmarking.made import CPU

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


def test_the_limits_of_the_machine_count_each_byte_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecast.benchmarking.limits.SIDE", {"cpu": 100})
    monkeypatch.setattr("forecast.benchmarking.limits.COPIED", {"cpu": 4000})
    monkeypatch.setattr("forecast.benchmarking.limits.seconds_of", lambda run, device: run() is None or 0.5)
    assert measure_limits(CPU, torch.bfloat16) == Limits(operations=4e6, bytes=16e3)
