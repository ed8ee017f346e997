import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from forecast.common.cli import explain
from forecast.data import mapped as module
from forecast.data.mapped import Address, MappedFile, Recipe
from tests.support.small import ROOT

linux = pytest.mark.skipif(sys.platform != "linux", reason="files of other processes are found in /proc")


@pytest.fixture
def recipes(monkeypatch: pytest.MonkeyPatch) -> list[Recipe]:
    """Return arrays of several types and widths, one of no column, made in pieces of a few rows."""
    monkeypatch.setattr(module, "CHUNK_CELLS", 64)
    values = np.random.default_rng(0).standard_normal((100, 5))
    return [
        Recipe(100, 5, np.float32, lambda piece: values[piece]),
        Recipe(100, 0, np.float32, lambda piece: np.empty((100, 0))[piece]),
        Recipe(100, 3, np.bool_, lambda piece: values[piece, :3] > 0),
        Recipe(100, 1, np.float32, lambda piece: values[piece, 4:]),
    ]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Have the system refuse more than `size` bytes of a file, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def handles() -> int:
    return len(os.listdir("/dev/fd"))


def test_the_arrays_are_those_in_memory_bit_for_bit(recipes: list[Recipe], tmp_path: Path) -> None:
    for made, recipe in zip(MappedFile.write(recipes, tmp_path).tensors, recipes, strict=True):
        wanted = recipe.in_memory()
        assert made.dtype == wanted.dtype
        assert torch.equal(made, wanted)


def test_the_file_has_no_name_and_is_let_go_with_its_last_array(recipes: list[Recipe], tmp_path: Path) -> None:
    before = handles()
    file = MappedFile.write(recipes, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert handles() > before
    first = file.tensors[0]
    del file
    assert float(first.sum()) == pytest.approx(float(recipes[0].in_memory().sum()))
    del first
    assert handles() == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_an_interrupted_write_leaves_no_file(recipes: list[Recipe], tmp_path: Path, error: type[BaseException]) -> None:
    def fail(piece: slice) -> np.ndarray:
        raise error

    before = handles()
    with pytest.raises(error):
        MappedFile.write([*recipes, Recipe(100, 2, np.float32, fail)], tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert handles() == before


@pytest.mark.parametrize("room", [0, 65, 2000])
def test_a_full_disk_ends_with_exit_code_4_and_names_the_folder(
    recipes: list[Recipe], tmp_path: Path, room: int
) -> None:
    before = handles()
    with largest_file(room), pytest.raises(OSError, match="the memory-mapped table takes") as ended:
        MappedFile.write(recipes, tmp_path)
    known = explain(ended.value)
    assert known is not None
    line, code = known
    assert code == 4
    assert line.startswith(f"{tmp_path} (the memory-mapped table takes 0.00 GiB there): ")
    assert list(tmp_path.iterdir()) == []
    assert handles() == before


@linux
def test_another_process_has_the_same_memory(recipes: list[Recipe], tmp_path: Path) -> None:
    file = MappedFile.write(recipes, tmp_path)
    again = MappedFile.open(file.address, recipes)
    assert again is not None
    for ours, theirs in zip(file.tensors, again.tensors, strict=True):
        assert torch.equal(ours, theirs)
    file.tensors[0][7, 3] = 1234.0
    assert float(again.tensors[0][7, 3]) == 1234.0
    reader = f"import os, sys; sys.stdout.buffer.write(os.pread(os.open({file.address.path!r}, os.O_RDONLY), 16, 0))"
    seen = subprocess.run([sys.executable, "-S", "-c", reader], capture_output=True, check=True).stdout
    assert seen == file.address.token


@linux
def test_another_file_at_the_address_is_not_accepted(recipes: list[Recipe], tmp_path: Path) -> None:
    file, before = MappedFile.write(recipes, tmp_path), handles()
    assert MappedFile.open(replace(file.address, token=bytes(16)), recipes) is None
    assert MappedFile.open(file.address, recipes[:2]) is None
    assert MappedFile.open(Address("/proc/0/fd/0", file.address.token), recipes) is None
    assert handles() == before


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the bound is Linux's")
def test_a_table_larger_than_the_memory_left_is_gathered_from(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.data.bounded", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "in memory: refused; mapped: 200 batches are right"
