import errno
import os
import resource
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from forecast.runs.checkpoint import checkpoints, newest_checkpoint, read_checkpoint, write_checkpoint


def content(step: int) -> dict[str, Any]:
    return {"step": step, "network": {"weight": torch.arange(2000.0) + step}, "best": None}


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "checkpoints", 3, content(3))
    read = read_checkpoint(path)
    assert read["step"] == 3
    assert torch.equal(read["network"]["weight"], content(3)["network"]["weight"])


def test_two_generations_are_kept_and_the_newest_is_read(tmp_path: Path) -> None:
    for step in (1, 5, 12, 100):
        write_checkpoint(tmp_path, step, content(step))
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000000100.ckpt", "step-000000012.ckpt"]
    newest = newest_checkpoint(tmp_path)
    assert newest is not None
    assert newest["step"] == 100


def test_an_empty_or_missing_folder_has_no_checkpoint(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path) is None
    assert newest_checkpoint(tmp_path / "nowhere") is None


def test_each_of_a_thousand_damaged_files_is_refused(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 1, content(1))
    whole = path.read_bytes()
    generator = np.random.default_rng(0)
    for number in range(1000):
        raw = bytearray(whole)
        place = int(generator.integers(len(raw)))
        if number % 4 == 0:
            raw = raw[:place]
        elif number % 4 == 1:
            raw[place] ^= 1 << int(generator.integers(8))
        elif number % 4 == 2:
            raw[place : place + 64] = bytes(b ^ 0xFF for b in raw[place : place + 64])
        else:
            raw += bytes([int(generator.integers(256))])
        path.write_bytes(bytes(raw))
        with pytest.raises(ValueError, match=r"it is|its hash|it holds"):
            read_checkpoint(path)


def test_a_valid_hash_does_not_allow_execution(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {tmp_path / 'ran'}",)

    path = write_checkpoint(tmp_path, 1, {"step": Hostile()})
    with pytest.raises(ValueError, match="more than tensors and plain values"):
        read_checkpoint(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("failing", ["fsync", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_a_failed_write_leaves_the_previous_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, number: int
) -> None:
    write_checkpoint(tmp_path, 1, content(1))

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(*(("os.fsync", fail) if failing == "fsync" else ("pathlib.Path.replace", fail)))
        with pytest.raises(OSError, match=os.strerror(number)):
            write_checkpoint(tmp_path, 2, content(2))
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001.ckpt"]
    newest = newest_checkpoint(tmp_path)
    assert newest is not None
    assert newest["step"] == 1


def test_a_disk_that_fills_up_while_writing_leaves_the_previous_checkpoint(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1, content(1))
    before, limits = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_checkpoint(tmp_path, 2, content(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001.ckpt"]
