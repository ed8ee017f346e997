import sys

import pytest
import torch

from forecast.benchmark import limits
from forecast.benchmark.limits import limit_cuda, measure_in_child, memory_bytes, too_large, too_long, why_not
from forecast.common.errors import InputError
from forecast.common.processes import Ended
from tests.benchmark.made import CPU

GIB = 2**30


def test_the_default_on_a_cpu_is_80_percent_of_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "free_bytes", lambda device: 10 * GIB)
    assert memory_bytes(None, CPU) == 8 * GIB
    assert memory_bytes(9.5, CPU) == int(9.5 * GIB)
    with pytest.raises(InputError, match=r"^--memory-gib 11: only 10.0 GiB are free: use less$"):
        memory_bytes(11, CPU)


def test_a_system_without_free_memory_information_requires_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "free_bytes", lambda device: None)
    assert memory_bytes(2, CPU) == 2 * GIB
    with pytest.raises(InputError, match="set --memory-gib"):
        memory_bytes(None, CPU)


def test_the_default_on_a_gpu_is_its_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "free_bytes", lambda device: 30 * GIB)
    assert memory_bytes(None, torch.device("cuda")) == 30 * GIB
    assert memory_bytes(20, torch.device("cuda")) == 20 * GIB
    with pytest.raises(InputError, match=r"^--memory-gib 31: only 30.0 GiB are free"):
        memory_bytes(31, torch.device("cuda"))


def test_a_case_that_would_not_fit_is_skipped_with_both_numbers() -> None:
    assert too_large(40 * GIB, 16 * GIB) == "memory: would need about 40.0 GiB, only 16.0 GiB are free"
    assert too_large(13 * GIB, 16 * GIB) != ""
    assert too_large(12 * GIB, 16 * GIB) == ""
    assert too_large(40 * GIB, None) == ""


def test_a_case_that_would_take_too_long_is_skipped_with_both_numbers() -> None:
    assert too_long(1234, 120) == "time: would take about 1,234 s, the limit is 120 s"
    assert too_long(120, 120) == ""


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("can't allocate memory"), MemoryError()]
)
def test_too_little_memory_is_a_reason(error: Exception) -> None:
    assert why_not(error).startswith("memory: ")


def test_a_refusal_is_a_reason_and_any_other_error_is_raised() -> None:
    assert why_not(InputError("cannot be causal")) == "refused: cannot be causal"
    with pytest.raises(RuntimeError, match="shapes differ"):
        why_not(RuntimeError("shapes differ"))


def test_a_gpu_is_limited_to_a_fraction_of_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []

    class Properties:
        total_memory = 80 * GIB

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda *words: given.append(words))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    limit_cuda(20 * GIB, torch.device("cuda"))
    limit_cuda(90 * GIB, torch.device("cuda:0"))
    assert given == [(0.25, 1), (1.0, 0)]  # torch refuses a device without a number


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such limit")
def test_a_process_is_limited_in_its_allocations(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    calls: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, values: calls.append((kind, values)))
    limits.limit_process(GIB)
    assert calls == [(resource.RLIMIT_DATA, (GIB, resource.getrlimit(resource.RLIMIT_DATA)[1]))]


def measured(monkeypatch: pytest.MonkeyPatch, ended: Ended | None) -> object:
    """Return the reply for a child process that ended this way, None for one that took too long."""

    def run(function: str, request: object, *, threads: int, seconds: float) -> Ended:
        assert (function, request, threads) == ("some.module:function", {"number": 3}, torch.get_num_threads())
        assert seconds >= 30
        if ended is None:
            raise TimeoutError
        return ended

    monkeypatch.setattr(limits, "run_python", run)
    return measure_in_child("some.module:function", {"number": 3}, 30, label="mean", late="too slow")


def test_a_child_replies_or_runs_out_of_memory_or_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured(monkeypatch, Ended(0, {"seconds": 0.5}, "noise")) == {"seconds": 0.5}
    assert measured(monkeypatch, Ended(-9, None, "")) == {"why": "memory: the process ran out of memory"}
    assert measured(monkeypatch, Ended(1, None, "MemoryError")) == {"why": "memory: the process ran out of memory"}
    assert measured(monkeypatch, None) == {"why": "time: too slow"}


def test_any_other_end_of_a_child_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="mean ended with exit code 1: ImportError: no module"):
        measured(monkeypatch, Ended(1, None, "ImportError: no module"))
