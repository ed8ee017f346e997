"""Checkpoints for resuming: written whole or not at all, checked by a hash, two generations."""

import hashlib
import io
import os
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import torch

from forecast.common.errors import InputError
from forecast.common.files import check_stored, gone, replacing
from forecast.runs.run import DAMAGE

MAGIC = b"forecast checkpoint 1\n"
"""First bytes of every file; the number grows when an older reader could misread a newer file."""

DIGITS = 64
"""Length of a SHA-256 in hexadecimal."""

GENERATIONS = 2
"""Number of checkpoints kept; the older one replaces a damaged newest one."""


class _Hashing:
    """A writable file that hashes its bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.digest = hashlib.sha256()
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        self.digest.update(data)
        try:
            return self.file.write(data)
        except OSError as error:
            self.error = error  # torch raises a RuntimeError without the reason
            raise

    def flush(self) -> None:
        self.file.flush()


def write_checkpoint(folder: Path, step: int, content: dict[str, Any]) -> Path:
    """Save `content` (tensors, plain values) as the checkpoint of `step`, whole or not at all; remove old ones."""
    try:
        folder.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise gone(folder.parent) from None
    path = folder / f"step-{step:09d}.ckpt"
    with replacing(path) as file:
        file.write(MAGIC + b"0" * DIGITS + b"\n")
        hashing = _Hashing(file)
        try:
            torch.save(content, hashing)  # type: ignore[arg-type]  # torch only writes
        except RuntimeError:
            if hashing.error is not None:
                raise hashing.error from None
            raise
        file.seek(len(MAGIC))
        file.write(hashing.digest.hexdigest().encode())
    for old in checkpoints(folder)[GENERATIONS:]:
        old.unlink()
    return path


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoint files of `folder`, the newest step first."""
    return sorted(folder.glob("step-*.ckpt"), reverse=True)


class OtherModel(ValueError):
    """The checkpoint does not fit the model of its folder: other shapes of weights, or too large."""


def read_checkpoint(path: Path, most_bytes: int | None = None) -> dict[str, Any]:
    """Read a checkpoint of at most `most_bytes` bytes onto the CPU, without executing anything in it."""
    head = len(MAGIC) + DIGITS + 1
    with path.open("rb") as file:
        start = file.read(head)
        if re.match(rb"forecast checkpoint \d+\n", start) and not start.startswith(MAGIC):
            raise InputError(
                f"{path}: written by another version of the program: resume with that version, or start a new run"
            )
        size = os.fstat(file.fileno()).st_size - head
        if not start.startswith(MAGIC) or size <= 0:
            raise ValueError("it is not a checkpoint, or incomplete")
        if most_bytes is not None and size > most_bytes:
            raise OtherModel(f"it has {size:,} bytes, but a checkpoint of this model has at most {most_bytes:,}")
        payload = file.read()
    if hashlib.sha256(payload).hexdigest().encode() != start[len(MAGIC) : head - 1]:
        raise ValueError("its hash differs from what was written")
    check_stored(payload)
    try:
        content = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, EOFError, AssertionError, *DAMAGE) as error:
        if isinstance(error, MemoryError):
            raise
        raise ValueError("it holds more than tensors and plain values") from None
    if not isinstance(content, dict):
        raise ValueError("it holds no dictionary")
    return content


def newest_checkpoint(
    folder: Path, check: Callable[[dict[str, Any]], None] = lambda _: None, most_bytes: int | None = None
) -> dict[str, Any] | None:
    """Return the newest valid checkpoint of `folder`, None without one.

    `check` raises ValueError for content that does not fit. A damaged checkpoint is reported and renamed, so that it
    does not count as a generation. So is one of another version or model if an older one is valid.
    """
    refused: dict[Path, tuple[InputError, str]] = {}
    for path in checkpoints(folder):
        try:
            content = read_checkpoint(path, most_bytes)
            check(content)
        except InputError as error:
            refused[path] = error, "written by another version of the program"
        except OtherModel as error:
            other = InputError(
                f"{path}: {error}: the checkpoint and the configuration of the folder are of different runs: restore "
                f"the original files, or remove {folder} to start over"
            )
            refused[path] = other, str(error)
        except ValueError as error:
            _put_aside(path, str(error))
        else:
            for skipped, (_, why) in refused.items():
                _put_aside(skipped, why)
            return content
    for refusal, _ in refused.values():
        raise refusal
    return None


def _put_aside(path: Path, why: str) -> None:
    path.replace(path.with_suffix(".damaged"))
    print(f"{path}: skipped, {why}", file=sys.stderr)
