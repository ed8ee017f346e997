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
    monkeypatch.setattr(free_memory, "_GROUPS", tmp_path)
    monkeypatch.setattr(free_memory, "_OWN_GROUP", tmp_path / "none")
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


@pytest.mark.parametrize(
    ("own", "limited"),
    [
        ("0::/job/step\n", "job/step"),  # version 2, as in SLURM
        ("0::/job/step\n", "job"),
        ("11:memory:/docker/5f\n3:cpu,cpuacct:/\n", "memory/docker/5f"),  # version 1
        ("11:memory:/docker/5f\n", "memory"),  # as a container sees it
        ("0::/../..\n", ""),
    ],
)
def test_the_limits_of_all_groups_around_the_process_count(
    own: str, limited: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in (("meminfo", "MemAvailable: 9000 kB\n"), ("own", own)):
        (tmp_path / name).write_text(content)
    folder, old = tmp_path / "groups" / limited, limited.startswith("memory")
    folder.mkdir(parents=True)
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if old else ("memory.max", "memory.current")
    for name, content in zip(names, ("5000\n", "2000\n"), strict=True):
        (folder / name).write_text(content)
    monkeypatch.setattr(free_memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(free_memory, "_OWN_GROUP", tmp_path / "own")
    monkeypatch.setattr(free_memory, "_GROUPS", tmp_path / "groups")
    assert free_bytes(CPU) == 3000
    (folder / names[0]).write_text(str(2**63 - 4096) if old else "max")
    assert free_bytes(CPU) == 9000 * 1024
