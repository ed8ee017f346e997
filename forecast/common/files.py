"""Files that are written whole or not at all, the lock of a folder, and nested mappings."""

import fcntl
import hashlib
import json
import os
import struct
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from forecast.common.errors import InputError, first_line

DIGEST, BLANK = "digest", "0" * 64
"""The last key of a sealed file, and its placeholder while the SHA-256 is computed."""


MOST_BYTES, DEEPEST = 2**24, 40
"""Length of the longest JSON text that is read, and its deepest nesting."""

DEEP = f"it is nested more than {DEEPEST} deep"


def check_place(*paths: Path) -> None:
    """Refuse files that cannot be written where `--output` puts them."""
    for path in paths:
        if not path.parent.is_dir():
            raise InputError(f"{path.parent}: no such folder: make it, or choose another --output")
        if path.is_dir():
            raise InputError(f"{path}: is a folder: choose another --output")


def gone(folder: Path) -> InputError:
    """Return the error for an output folder that no longer exists."""
    return InputError(f"{folder}: is no longer there: it was removed or renamed while the program wrote to it")


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` once written and synced; after an error `path` is unchanged."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.", suffix=".tmp")
    except FileNotFoundError:
        raise gone(path.parent) from None
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


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Write plain values as `write_json` does, with a digest of the whole text, which `read_json` checks."""
    text = json.dumps(_finite({**content, DIGEST: BLANK}), indent=2, ensure_ascii=False, allow_nan=False).encode()
    head, _, tail = text.rpartition(BLANK.encode())
    with replacing(path) as file:
        file.write(head + hashlib.sha256(text + b"\n").hexdigest().encode() + tail + b"\n")


def read_json(path: Path) -> Any:
    """Return what `write_json` or `write_sealed` wrote, None where there is no file."""
    return read_with_digest(path)[0] if path.is_file() else None


def read_with_digest(path: Path) -> tuple[Any, bool]:
    """Return the content of a JSON file without its digest, and whether it had one; raise as `read_json` does."""
    try:
        if path.is_symlink():
            raise ValueError("it is a link")
        if path.is_file() and path.stat().st_size > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
        raw = path.read_bytes()
        content = parse_json(raw)
        if not isinstance(content, dict) or DIGEST not in content:
            return content, False
        _check_digest(raw, content.pop(DIGEST))
    except ValueError as error:
        raise InputError(f"{path}: not readable ({first_line(error)}): the file is damaged") from None
    return content, True


def parse_json(raw: bytes) -> Any:
    """Parse JSON text, bounded in length and nesting."""
    if len(raw) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    try:
        content = json.loads(raw)
        if b"\\u" in raw:
            json.dumps(content, ensure_ascii=False).encode()  # half a letter can be written nowhere
    except RecursionError:
        raise ValueError(DEEP) from None
    level = [content]
    for _ in range(DEEPEST + 1):
        groups = [node.values() if isinstance(node, dict) else node for node in level if isinstance(node, (dict, list))]
        if not groups:
            return content
        level = [node for group in groups for node in group]
    raise ValueError(DEEP)


def _check_digest(raw: bytes, digest: Any) -> None:
    if not isinstance(digest, str) or len(digest) != len(BLANK):
        raise ValueError("its digest is none")
    head, _, tail = raw.rpartition(digest.encode())
    if hashlib.sha256(head + BLANK.encode() + tail).hexdigest() != digest:
        raise ValueError("its digest differs from what was written")


def check_stored(content: bytes) -> None:
    """Refuse a zip archive with compressed parts or parts that claim more bytes than it has; ours are uncompressed."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, LookupError, NotImplementedError, struct.error) as error:
        raise ValueError(f"it holds no archive ({first_line(error)})") from None
    if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
        raise ValueError("its parts are packed")
    if sum(max(part.file_size, part.compress_size) for part in parts) > len(content):
        raise ValueError("its parts are larger than the file")


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not abs(content) < float("inf"):
        return None
    return content


def sha256(path: Path) -> str:
    """Return the file's SHA-256, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flatten(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values under dotted paths; a list is a value."""
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def look_up(content: Any, path: str) -> Any:
    """Return the value at a dotted path, None where there is none."""
    for part in path.split("."):
        content = content.get(part) if isinstance(content, Mapping) else None
    return content


@contextmanager
def folder_lock(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Lock `folder` until the block or the process ends; no file is left in it.

    If another process holds it, `wait` for that one, else raise InputError.
    """
    # not filelock: it needs a file of its own, which it leaves behind and cannot make in a read-only folder
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{folder}: another process is training there: wait for it, or begin another run"
            ) from None
        yield
    finally:
        os.close(handle)
