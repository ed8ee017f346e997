"""Files that are there whole or not at all."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from forecast.errors import InputError


def check_place(*paths: Path) -> None:
    """Refuse files that cannot be written where `--output` puts them.

    Raises
    ------
    InputError
        Naming the folder that is not there, or that stands in the place of a file.
    """
    for path in paths:
        if not path.parent.is_dir():
            raise InputError(f"{path.parent}: no such folder: make it, or choose another --output")
        if path.is_dir():
            raise InputError(f"{path}: is a folder: choose another --output")


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path` that takes its name once it is written, flushed and synced.

    Whatever stood at `path` stays until then; after an error there is neither a torn nor a left-over file.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def write_json(path: Path, content: Any) -> None:
    """Write plain values as JSON; numbers that are not finite are null, as JSON has none."""
    text = json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False)
    with replacing(path) as file:
        file.write(text.encode() + b"\n")


def read_json(path: Path) -> Any:
    """Give what `write_json` wrote, None where there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not abs(content) < float("inf"):
        return None
    return content


def sha256(path: Path) -> str:
    """Give the file's SHA-256, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
