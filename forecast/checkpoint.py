"""Checkpoints to resume from: whole or not there, checked by their hash, two generations."""

import hashlib
import io
import pickle
import re
import sys
from pathlib import Path
from typing import IO, Any

import torch

from forecast.errors import InputError
from forecast.files import replacing

MAGIC = b"forecast checkpoint 1\n"
"""Begins every file; the number is raised when an older reader could misread a newer file."""

DIGITS = 64
"""Length of a SHA-256 in hexadecimal."""

GENERATIONS = 2
"""Checkpoints kept: should the newest be damaged, the one before it is there."""


class _Hashing:
    """Hands bytes on to a file and takes their hash on the way."""

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
    """Write `content` (tensors and plain values) as the checkpoint of `step`, then drop what is too old.

    The file has its name only once all of it, and its hash, has reached the disk.
    """
    folder.mkdir(exist_ok=True)
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
    """Give the checkpoint files of `folder`, the newest step first."""
    return sorted(folder.glob("step-*.ckpt"), reverse=True)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Give the content of a checkpoint on the CPU, without executing anything that it names.

    Raises
    ------
    ValueError
        If the file is not whole, or not what was written.
    InputError
        If another version of the program wrote it.
    """
    raw = path.read_bytes()
    head = len(MAGIC) + DIGITS + 1
    if re.match(rb"forecast checkpoint \d+\n", raw) and not raw.startswith(MAGIC):
        raise InputError(f"{path}: written by another version of the program: go on with that one, or begin anew")
    if not raw.startswith(MAGIC) or len(raw) <= head:
        raise ValueError("it is no checkpoint, or cut short")
    payload = memoryview(raw)[head:]
    if hashlib.sha256(payload).hexdigest().encode() != raw[len(MAGIC) : head - 1]:
        raise ValueError("its hash differs from what was written")
    try:
        content: dict[str, Any] = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, LookupError):
        raise ValueError("it holds more than tensors and plain values") from None
    return content


def newest_checkpoint(folder: Path) -> dict[str, Any] | None:
    """Give the newest valid checkpoint of `folder`, None where there is none.

    A damaged one is named, and renamed, so that it is not counted among the generations that are kept.
    """
    for path in checkpoints(folder):
        try:
            return read_checkpoint(path)
        except InputError:
            raise
        except ValueError as error:
            path.replace(path.with_suffix(".damaged"))
            print(f"{path}: skipped, {error}", file=sys.stderr)
    return None
