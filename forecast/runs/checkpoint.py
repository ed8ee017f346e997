"""Checkpoints to resume from: whole or absent, checked by their hash, two generations."""

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
"""First bytes of every file; the number is raised when an older reader could misread a newer file."""

DIGITS = 64
"""Length of a SHA-256 in hexadecimal."""

GENERATIONS = 2
"""Number of checkpoints kept: the older one is used if the newest is damaged."""


class _Hashing:
    """Writes bytes to a file and hashes them."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.digest = hashlib.sha256()
        self.error: OSError | None = None

    def write(self, piece: Any) -> int:
        self.digest.update(piece)
        try:
            return self.file.write(piece)
        except OSError as error:
            self.error = error  # torch makes a RuntimeError of it that no longer says what happened
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
            torch.save(content, hashing)  # type: ignore[arg-type]  # it only writes
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
    """A checkpoint does not fit the model of its folder: its weights have other shapes, or it is too large."""


def read_checkpoint(path: Path, most_bytes: int | None = None) -> dict[str, Any]:
    """Return a checkpoint of at most `most_bytes` bytes on the CPU, without executing anything that it names."""
    head = len(MAGIC) + DIGITS + 1
    with path.open("rb") as file:
        begins = file.read(head)
        if re.match(rb"forecast checkpoint \d+\n", begins) and not begins.startswith(MAGIC):
            raise InputError(f"{path}: written by another version of the program: go on with that one, or begin anew")
        size = os.fstat(file.fileno()).st_size - head
        if not begins.startswith(MAGIC) or size <= 0:
            raise ValueError("it is no checkpoint, or cut short")
        if most_bytes is not None and size > most_bytes:
            raise OtherModel(f"it has {size:,} bytes, where {most_bytes:,} are the most that this model's has")
        payload = file.read()
    if hashlib.sha256(payload).hexdigest().encode() != begins[len(MAGIC) : head - 1]:
        raise ValueError("its hash differs from what was written")
    check_stored(payload)
    try:
        content = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, EOFError, AssertionError, *DAMAGE) as error:
        if isinstance(error, MemoryError):
            raise
        raise ValueError("it holds more than tensors and plain values") from None
    if not isinstance(content, dict):
        raise ValueError("it holds no group of values")
    return content


def newest_checkpoint(
    folder: Path, check: Callable[[dict[str, Any]], None] = lambda _: None, most_bytes: int | None = None
) -> dict[str, Any] | None:
    """Return the newest valid checkpoint of `folder`, None where there is none.

    `check` raises ValueError for content that does not fit. A damaged checkpoint is reported and renamed, so that it
    does not count as a generation. So is one of another version, if an older one is valid.
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
                f"{path}: {error}: the checkpoint and the configuration beside it are of different runs: put back what "
                f"was there, or remove {folder} to begin again"
            )
            refused[path] = other, str(error)
        except ValueError as error:
            _put_aside(path, str(error))
        else:
            for each, (_, why) in refused.items():
                _put_aside(each, why)
            return content
    for complaint, _ in refused.values():
        raise complaint
    return None


def _put_aside(path: Path, why: str) -> None:
    path.replace(path.with_suffix(".damaged"))
    print(f"{path}: skipped, {why}", file=sys.stderr)
