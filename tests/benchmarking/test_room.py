from pathlib import Path

import pytest
import torch

from forecast.benchmarking import room
from forecast.benchmarking.room import Earlier, free_bytes, too_large, too_long
from tests.benchmarking.made import CPU

GIB = 2**30


def test_a_case_that_would_not_fit_is_left_out_with_both_numbers() -> None:
    assert too_large(40 * GIB, 16 * GIB) == "memory: would need about 40.0 GiB, 16.0 GiB are free"
    assert too_large(13 * GIB, 16 * GIB) != ""
    assert too_large(12 * GIB, 16 * GIB) == ""
    assert too_large(40 * GIB, None) == ""


def test_a_case_that_would_take_too_long_is_left_out_with_both_numbers() -> None:
    assert too_long(1234, 120) == "time: would take about 1,234 s, the limit is 120 s"
    assert too_long(120, 120) == ""


def test_what_is_expected_grows_as_declared() -> None:
    earlier = Earlier(length=1000, seconds=2.0, peak_bytes=100)
    assert earlier.seconds_at(3000, "O(L² E)", set()) == pytest.approx(18)
    assert earlier.seconds_at(3000, "O(L E²)", set()) == pytest.approx(6)
    assert earlier.bytes_at(3000, "O(L) fused, O(L²) explicit", {"explicit"}) == pytest.approx(900)
    assert earlier.bytes_at(3000, "O(L) fused, O(L²) explicit", {"fused"}) == pytest.approx(300)
    assert earlier.bytes_at(3000, "O(E²)", set()) == pytest.approx(300)


def test_what_declares_nothing_readable_is_expected_to_be_quadratic() -> None:
    earlier = Earlier(length=1000, seconds=2.0, peak_bytes=100)
    assert earlier.seconds_at(2000, "quick", set()) == pytest.approx(8)
    assert earlier.bytes_at(2000, "little", set()) == pytest.approx(400)


def test_free_memory_is_the_least_of_the_machine_and_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  9 kB\nMemAvailable:    3000 kB\n")
    monkeypatch.setattr(room, "_MEMINFO", meminfo)
    monkeypatch.setattr(room, "_GROUP", tmp_path)
    assert free_bytes(CPU) == 3000 * 1024
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("2000\n")
    assert free_bytes(CPU) == 3000
    (tmp_path / "memory.max").write_text("max\n")
    assert free_bytes(CPU) == 3000 * 1024
    meminfo.unlink()
    assert free_bytes(CPU) is None


def test_free_memory_of_a_gpu_counts_what_the_allocator_keeps_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 5000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 700)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 200)
    assert free_bytes(torch.device("cuda")) == 1500
