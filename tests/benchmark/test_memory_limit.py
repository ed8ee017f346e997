import pytest
import torch

from forecast.benchmark import measure as memory_limit
from forecast.benchmark.measure import memory_bytes
from forecast.common.errors import InputError
from tests.benchmark.made import CPU

GIB = 2**30


def test_a_cpu_gives_four_fifths_of_what_is_free_unless_asked_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limit, "free_bytes", lambda device: 10 * GIB)
    assert memory_bytes(None, CPU) == 8 * GIB
    assert memory_bytes(9.5, CPU) == int(9.5 * GIB)
    with pytest.raises(InputError, match=r"^--memory-gib 11: 10.0 GiB are there: ask for less$"):
        memory_bytes(11, CPU)


def test_a_system_that_says_nothing_has_to_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limit, "free_bytes", lambda device: None)
    assert memory_bytes(2, CPU) == 2 * GIB
    with pytest.raises(InputError, match="give --memory-gib"):
        memory_bytes(None, CPU)


def test_a_gpu_gives_what_others_leave_of_it_unless_asked_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limit, "free_bytes", lambda device: 30 * GIB)
    assert memory_bytes(None, torch.device("cuda")) == 30 * GIB
    assert memory_bytes(20, torch.device("cuda")) == 20 * GIB
    with pytest.raises(InputError, match=r"^--memory-gib 31: 30.0 GiB are there"):
        memory_bytes(31, torch.device("cuda"))
