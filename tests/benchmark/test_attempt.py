from dataclasses import replace

import pytest
import torch
from torch import nn

from forecast.benchmark import measure as module
from forecast.benchmark.case import Case
from forecast.benchmark.measure import Attempt, Earlier, attempt, probe
from forecast.common.errors import InputError
from tests.benchmark.made import CPU, Failing, case

QUICK = Earlier(length=8, seconds=1e-6, peak_bytes=1)


def tried(made: Case, earlier: Earlier | None = None, repetitions: int = 5, limit: float = 120) -> Attempt:
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
    assert ready == Attempt(skipped="time: would take about 280 s, the limit is 120 s")
    assert tried(case("full", length=16), replace(QUICK, seconds=10), limit=281).run is not None


def test_a_case_that_nothing_foretold_is_left_out_once_its_warm_up_took_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "seconds_of", lambda run, device: 21.0)
    assert tried(case()) == Attempt(skipped="time: would take about 126 s, the limit is 120 s")
    assert tried(case(), limit=127).run is not None


def test_scores_that_would_not_fit_are_never_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "free_bytes", lambda device: 2**30)
    earlier = replace(QUICK, peak_bytes=2**28)
    explicit = case("full:implementation=explicit", length=16)
    assert tried(explicit, earlier) == Attempt(skipped="memory: would need about 1.0 GiB, 1.0 GiB are free")
    assert tried(case("full", length=16), earlier).run is not None


def test_a_mechanism_that_refuses_is_left_out_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Case) -> nn.Module:
        raise InputError("attention=mean cannot be causal: use another")

    monkeypatch.setattr(Case, "build", refuse)
    assert tried(case("mean")) == Attempt(skipped="refused: attention=mean cannot be causal: use another")
    assert probe(case("mean"), CPU, torch.float32) is None


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_running_out_of_memory_leaves_the_case_out(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Case, "build", lambda self: Failing(error))
    assert tried(case()) == Attempt(skipped="memory: the device has not enough")


def test_the_allocator_says_what_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Huge(nn.Module):
        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            return torch.empty(2**50)

    monkeypatch.setattr(Case, "build", lambda self: Huge())
    assert tried(case()).skipped == "memory: the device has not enough"


def test_any_other_error_is_a_fault_and_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Case, "build", lambda self: Failing(RuntimeError("shapes differ")))
    with pytest.raises(RuntimeError, match="shapes differ"):
        tried(case())


def test_a_probe_looks_at_an_eighth_of_the_length() -> None:
    found = probe(case("full:implementation=explicit", length=64), CPU, torch.float32)
    assert found is not None
    assert found.length == 8
    assert found.seconds == 0
    assert found.peak_bytes >= 2 * 2 * 8 * 8 * 4
