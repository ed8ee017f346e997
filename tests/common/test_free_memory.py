from pathlib import Path

import pytest
import torch

from forecast.common import memory as free_memory
from forecast.common.memory import free_bytes

CPU = torch.device("cpu")


def test_free_memory_is_the_least_of_the_machine_and_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  9 kB\nMemAvailable:    3000 kB\n")
    monkeypatch.setattr(free_memory, "_MEMINFO", meminfo)
    monkeypatch.setattr(free_memory, "_GROUP", tmp_path)
    assert free_bytes(CPU) == 3000 * 1024
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("2000\n")
    assert free_bytes(CPU) == 3000
    (tmp_path / "memory.stat").write_text("anon 1500\ninactive_file 400\nactive_file 100\n")
    assert free_bytes(CPU) == 3400
    (tmp_path / "memory.max").write_text("max\n")
    assert free_bytes(CPU) == 3000 * 1024
    meminfo.unlink()
    assert free_bytes(CPU) is None


def test_free_memory_of_a_gpu_counts_what_the_allocator_keeps_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 5000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 700)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 200)
    assert free_bytes(torch.device("cuda")) == 1500
