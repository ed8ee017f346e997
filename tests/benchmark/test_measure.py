from dataclasses import replace

import pytest
import torch
from torch import nn

from forecast.attention._parsing import choose
from forecast.attention.base import Cost
from forecast.benchmark import measure as module
from forecast.benchmark.attention import layer_shapes
from forecast.benchmark.case import Case
from forecast.benchmark.machine import Limits, measure_limits
from forecast.benchmark.measure import Earlier, Measured, Plan, attempt, measure, probe
from forecast.benchmark.report import _left_out, rows_of
from forecast.common.errors import InputError
from forecast.common.timing import Load
from tests.benchmark.made import CPU, LIMITS, Failing, case, shape

LENGTHS = (16, 32, 64)
PLAN = Plan(
    device=CPU, dtype=torch.float32, variants=choose(["mean", "linear"]), layers=layer_shapes(32, 64),
    sweeps=[
        [shape(length, causal=causal, backward=backward) for length in LENGTHS]
        for causal in (False, True) for backward in (False, True)
    ],
    layer_repetitions=3, seconds=0.0, repetitions=2, limit=60.0, fit_from=16,
)  # fmt: skip
ONE_SWEEP = replace(PLAN, layers=[], sweeps=PLAN.sweeps[:1])
QUICK = Earlier(length=8, seconds=1e-6, peak_bytes=1)


@pytest.mark.slow
def test_every_case_of_the_plan_has_the_requested_repetitions() -> None:
    groups: list[list[Measured]] = []
    progress: list[str] = []
    measured = measure(PLAN, progress.append, groups.append)
    assert [done for group in groups for done in group] == measured
    assert len(measured) == PLAN.num_cases
    assert not any(done.skipped for done in measured)
    assert {done.spread.repetitions for done in measured if done.spread and done.table == "layer"} == {3}
    assert {done.spread.repetitions for done in measured if done.spread and done.table == "lengths"} == {2}
    assert all(done.spread and done.spread.shortest > 0 for done in measured)
    assert "lengths, 2 heads of 8, 64 tokens, causal forward+backward: linear" in progress


def test_a_mechanism_over_the_limit_stops_and_the_others_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"full": 10.0, "mean": 1e-6, "linear": 1e-6}

    def interleave(passes: dict[str, object], **_: object) -> dict[str, list[float]]:
        return {label: [seconds[label]] for label in passes}

    monkeypatch.setattr(module, "interleave", interleave)
    plan = ONE_SWEEP
    measured = measure(plan)
    full = {done.case.shape.length: done.skipped for done in measured if done.case.variant.label == "full"}
    # one warm-up, one for the memory, two timed passes: 40 s each at twice the length, 160 s at four times
    assert full == {
        16: "",
        32: "time: would take about 160 s, the limit is 60 s",
        64: "time: would take about 640 s, the limit is 60 s",
    }
    assert not any(done.skipped for done in measured if done.case.variant.label != "full")


def test_a_time_limit_is_shared_between_groups_and_mechanisms(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first mechanism of a group may not use all its time; unused time goes to later groups."""
    now, limits = [100.0], []

    def attempt(case: Case, *_: object, limit: float, **__: object) -> Measured:
        limits.append(limit)
        now[0] += 1.0
        return Measured(case, skipped="time", seconds=1.0)

    monkeypatch.setattr(module, "attempt", attempt)
    monkeypatch.setattr(module, "probe", lambda *_: None)
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    plan = replace(ONE_SWEEP, budget=90.0)
    assert (plan.num_groups, len(plan.variants)) == (3, 3)
    measure(plan)
    # of 30 s, 5 s are reserved for each later mechanism; the group takes 3 s and leaves 87 s for two groups
    assert limits[:4] == [20.0, 24.0, 28.0, pytest.approx(43.5 - 2 * 7.25)]
    limits.clear()
    measured = measure(replace(plan, budget=1.5))
    # two mechanisms take 1 s each, more than the time of their groups; no time is left for the third group
    assert len(limits) == 2
    assert [done.skipped for done in measured] == ["time", *[module.OVER] * 2, "time", *[module.OVER] * 5]


def test_the_limits_of_the_machine_count_each_byte_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecast.benchmark.machine.SIDE", {"cpu": 100})
    monkeypatch.setattr("forecast.benchmark.machine.COPIED", {"cpu": 4000})
    monkeypatch.setattr("forecast.benchmark.machine.seconds_of", lambda run, device: run() is None or 0.5)
    assert measure_limits(CPU, torch.bfloat16) == Limits(operations=4e6, bytes=16e3)


def test_a_disturbed_group_is_marked_in_its_rows_and_below_its_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loads = iter([Load(1, 1.9, 0.01, 0.05), Load(1, 1.2, 0.7, 0.8), Load(1, 1.9, 0.01, 0.05)])
    monkeypatch.setattr(module, "load_since", lambda _: next(loads))
    measured = measure(ONE_SWEEP)
    rows = [row for place in (0, 3, 6) for row in rows_of(measured[place : place + 3], LIMITS, torch.float32, {})]
    assert [row["disturbed"] for row in rows] == [False] * 3 + [True] * 3 + [False] * 3
    assert [row["other_processors"] for row in rows[::3]] == [0.05, 0.8, 0.05]
    assert _left_out(rows) == (
        "busy machine: other processes used the processors at 32 tokens; these times are too long",
    )
    assert _left_out(rows[:3]) == ()


def tried(made: Case, earlier: Earlier | None = None, repetitions: int = 5, limit: float = 120) -> Measured:
    return attempt(made, made.shape.draw(CPU, torch.float32), earlier, repetitions=repetitions, limit=limit)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("d_model", [None, 24])
def test_a_case_that_fits_is_ready(backward: bool, d_model: int | None) -> None:
    ready = tried(case("linear", length=16, backward=backward, d_model=d_model), QUICK)
    assert ready.skipped == ""
    assert ready.run is not None
    assert ready.peak_bytes is not None
    assert ready.peak_bytes >= 16 * 16 * 4
    ready.run()


def test_a_case_that_would_take_too_long_never_runs() -> None:
    # seven passes: warm-up, memory, five timed; each 4 times the 10 seconds at half the length
    ready = tried(case("full", length=16), replace(QUICK, seconds=10))
    assert ready.skipped == "time: would take about 280 s, the limit is 120 s"
    assert ready.run is None
    assert tried(case("full", length=16), replace(QUICK, seconds=10), limit=281).run is not None


def test_a_case_without_prediction_is_skipped_after_a_long_warm_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "seconds_of", lambda run, device: 21.0)
    assert tried(case()).skipped == "time: would take about 126 s, the limit is 120 s"
    assert tried(case(), limit=127).run is not None


def test_scores_that_would_not_fit_are_never_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "free_bytes", lambda device: 2**30)
    earlier = replace(QUICK, peak_bytes=2**28)
    explicit = case("full:implementation=explicit", length=16)
    assert tried(explicit, earlier).skipped == "memory: would need about 1.0 GiB, only 1.0 GiB are free"
    assert tried(case("full", length=16), earlier).run is not None


def test_a_refused_mechanism_is_skipped_with_its_own_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Case) -> nn.Module:
        raise InputError("attention=mean cannot be causal: use another")

    monkeypatch.setattr(Case, "build", refuse)
    assert tried(case("mean")).skipped == "refused: attention=mean cannot be causal: use another"
    assert probe(case("mean"), CPU, torch.float32) is None


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_a_case_that_runs_out_of_memory_is_skipped(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Case, "build", lambda self: Failing(error))
    assert tried(case()).skipped == "memory: the device ran out of memory"


def test_the_message_of_torchs_allocator_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    class Huge(nn.Module):
        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            return torch.empty(2**50)

    monkeypatch.setattr(Case, "build", lambda self: Huge())
    assert tried(case()).skipped == "memory: the device ran out of memory"


def test_any_other_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Case, "build", lambda self: Failing(RuntimeError("shapes differ")))
    with pytest.raises(RuntimeError, match="shapes differ"):
        tried(case())


def test_a_probe_measures_an_eighth_of_the_length() -> None:
    earlier = probe(case("full:implementation=explicit", length=64), CPU, torch.float32)
    assert earlier is not None
    assert earlier.length == 8
    assert earlier.seconds == 0
    assert earlier.peak_bytes >= 2 * 2 * 8 * 8 * 4


def test_expected_costs_grow_as_declared() -> None:
    earlier = Earlier(length=1000, seconds=2.0, peak_bytes=100)
    assert earlier.seconds_at(3000, Cost(length=2, width=1)) == pytest.approx(18)
    assert earlier.seconds_at(3000, Cost(length=1, width=2)) == pytest.approx(6)
    assert earlier.bytes_at(3000, Cost(length=2)) == pytest.approx(900)
    assert earlier.bytes_at(3000, Cost(length=1)) == pytest.approx(300)
    assert earlier.bytes_at(3000, Cost(width=2)) == pytest.approx(300)


def test_expected_costs_are_quadratic_without_a_declaration() -> None:
    earlier = Earlier(length=1000, seconds=2.0, peak_bytes=100)
    assert earlier.seconds_at(2000, None) == pytest.approx(8)
    assert earlier.bytes_at(2000, None) == pytest.approx(400)
