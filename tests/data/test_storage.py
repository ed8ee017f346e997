import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from forecast.common.errors import InputError
from forecast.data import storage as module
from forecast.data.mapped import Recipe
from forecast.data.storage import Placing, place

GPU = torch.device("cuda", 1)
MIB = 2**20


def recipe(rows: int = 40) -> Recipe:
    return Recipe(rows, 2, np.float32, lambda piece: np.ones((rows, 2))[piece])


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "free_bytes", lambda device: 100 * MIB)


@pytest.mark.usefixtures("free")
def test_auto_maps_a_table_that_takes_more_than_half_of_the_free_memory() -> None:
    assert not Placing(device=GPU).choose(50 * MIB).mapped
    assert Placing(device=GPU).choose(50 * MIB + 1).mapped
    line = str(Placing(device=GPU).choose(60 * MIB))
    assert line == "table of 60.0 MiB in a memory-mapped file; cuda:1 has 100.0 MiB free"


@pytest.mark.usefixtures("free")
def test_processes_on_one_machine_share_the_memory_of_its_cpu_and_have_a_gpu_each() -> None:
    assert Placing(processes=4).choose(20 * MIB).mapped
    assert not Placing(processes=1).choose(20 * MIB).mapped
    assert not Placing(processes=4, device=GPU).choose(20 * MIB).mapped


@pytest.mark.usefixtures("free")
def test_a_requested_placement_is_used_or_refused() -> None:
    assert Placing("mapped").choose(1).mapped
    assert not Placing("device").choose(90 * MIB).mapped
    assert str(Placing("device").choose(90 * MIB)) == "table of 90.0 MiB on cpu, as requested; cpu has 100.0 MiB free"
    with pytest.raises(
        InputError,
        match=r"^training.data_placement=device: the table takes 110.0 MiB, cpu has 100.0 MiB free for it: use auto",
    ):
        Placing("device").choose(110 * MIB)


def test_where_the_system_says_nothing_the_table_is_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "free_bytes", lambda device: None)
    placement = Placing().choose(2**50)
    assert not placement.mapped
    assert "has an unknown amount free" in str(placement)
    assert placement.facts() == {"where": "device", "wanted": "auto", "table_bytes": 2**50, "free_bytes": None}


def test_a_mapped_table_is_in_a_file_and_another_in_memory(tmp_path: Path) -> None:
    placed = place([recipe(), recipe()], Placing("mapped", folder=tmp_path / "not" / "there" / "yet"))
    assert placed.file is not None
    assert placed.placement.table_bytes == 2 * 40 * 2 * 4
    assert list(tmp_path.iterdir()) == []
    held = place([recipe(), recipe()], Placing("device"))
    assert held.file is None
    assert all(torch.equal(*pair) for pair in zip(placed.tensors, held.tensors, strict=True))


@pytest.mark.skipif(sys.platform != "linux", reason="files of other processes are found in /proc")
def test_processes_of_a_machine_have_one_file(tmp_path: Path) -> None:
    first = place([recipe()], Placing("mapped", folder=tmp_path)).file
    assert first is not None
    second = place([recipe()], Placing("mapped", folder=tmp_path, address=first.address)).file
    assert second is not None
    first.tensors[0][3, 1] = 7.0
    assert float(second.tensors[0][3, 1]) == 7.0
    other = place([recipe(41)], Placing("mapped", folder=tmp_path, address=first.address)).file
    assert other is not None  # another table gets a separate file
    assert other.tensors[0].shape == (41, 2)
