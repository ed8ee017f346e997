"""Atomic writes, folder locks, JSON files and nested mappings."""

import errno
import fcntl
import hashlib
import json
import os
import stat
import struct
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from forecast.common.errors import InputError, first_line

PACKED, TEXT, PARQUET = ".gz", ".csv", (".parquet", ".pq")
TEXTS = (TEXT, ".tsv", ".txt", ".dat")
WORKBOOK, ARROW = (".xlsx", ".xlsm", ".ods", ".xls"), (".feather", ".arrow")
ENDINGS = (PACKED, *TEXTS, *PARQUET, *WORKBOOK, *ARROW)
"""Endings of the tables that are read; text may be packed, .csv.gz."""

DIGEST, BLANK = "digest", "0" * 64
"""Last key of a sealed file, and its placeholder while the SHA-256 is computed."""

MOST_BYTES, DEEPEST = 2**24, 40
"""Limits of a JSON text: size in bytes and depth of nesting."""

DEEP = f"it is nested more than {DEEPEST} levels deep"


def check_place(*paths: Path) -> None:
    """Raise InputError if files cannot be written to the paths of `--output`."""
    for path in paths:
        if not path.parent.is_dir():
            raise InputError(f"{path.parent}: no such folder: create it, or choose another --output")
        if path.is_dir():
            raise InputError(f"{path}: is a folder: choose another --output")
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: is a pipe or a device, which a file would replace: choose another --output")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise InputError(f"{path.parent}: you may not write there: choose another --output")


def gone(folder: Path) -> InputError:
    """Return the error for an output folder that no longer exists."""
    return InputError(f"{folder}: no longer exists: it was removed or renamed while the program wrote to it")


def no_temporary_folder() -> OSError:
    """Return the error for a system without a folder for temporary files."""
    return OSError(errno.ENOSPC, "no temporary folder can be written (TMPDIR)")


@contextmanager
def temporary_folder() -> Iterator[str]:
    """Make a temporary folder, which is removed afterwards."""
    try:
        folder = tempfile.TemporaryDirectory()
    except FileNotFoundError:  # from Python's search for a place that can be written
        raise no_temporary_folder() from None
    with folder as name:
        yield name


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` once it is written; after an error `path` is unchanged.

    A symbolic link is replaced too, not followed: a link in a folder of someone else's must lead to no write elsewhere.
    """
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
        temporary.chmod(stat.S_IMODE(path.stat().st_mode) if path.is_file() else 0o666 & ~_umask())
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
    """Write plain values as JSON, non-finite numbers as null."""
    text = json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False)
    with replacing(path) as file:
        file.write(text.encode() + b"\n")


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Write plain values as `write_json` does, with a digest of the text that `read_json` checks."""
    text = json.dumps(_finite({**content, DIGEST: BLANK}), indent=2, ensure_ascii=False, allow_nan=False).encode()
    head, _, tail = text.rpartition(BLANK.encode())
    with replacing(path) as file:
        file.write(head + hashlib.sha256(text + b"\n").hexdigest().encode() + tail + b"\n")


def read_json(path: Path) -> Any:
    """Return the content that `write_json` or `write_sealed` wrote, None if there is no file."""
    return read_with_digest(path)[0] if path.is_file() else None


def read_with_digest(path: Path) -> tuple[Any, bool]:
    """Return the content of a JSON file without its digest, and whether it had one."""
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
    """Parse JSON text, bounded in length, nesting and numbers."""
    if len(raw) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    try:
        content = json.loads(raw, parse_int=_whole_number)
        if b"\\u" in raw:
            json.dumps(content, ensure_ascii=False).encode()  # a lone surrogate cannot be encoded
    except RecursionError:
        raise ValueError(DEEP) from None
    level = [content]
    for _ in range(DEEPEST + 1):
        groups = [node.values() if isinstance(node, dict) else node for node in level if isinstance(node, (dict, list))]
        if not groups:
            return content
        level = [node for group in groups for node in group]
    raise ValueError(DEEP)


def _whole_number(text: str) -> int:
    number = int(text)
    if abs(number) > sys.float_info.max:  # it becomes a float in a report, a scaler or a table of TensorBoard
        raise ValueError("it has a whole number that is too large for a float")
    return number


def _check_digest(raw: bytes, digest: Any) -> None:
    if not isinstance(digest, str) or len(digest) != len(BLANK):
        raise ValueError("its digest is not a SHA-256")
    head, _, tail = raw.rpartition(digest.encode())
    if hashlib.sha256(head + BLANK.encode() + tail).hexdigest() != digest:
        raise ValueError("its digest does not match its content")


def check_stored(content: bytes) -> None:
    """Raise ValueError for a zip archive with compressed members, or members that claim more bytes than it has."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, LookupError, NotImplementedError, struct.error) as error:
        raise ValueError(f"it is not a zip archive ({first_line(error)})") from None
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("its members are compressed")
    if sum(max(member.file_size, member.compress_size) for member in members) > len(content):
        raise ValueError("its members are larger than the file")


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not abs(content) < float("inf"):
        return None
    return content


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flatten(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values by dotted path; a list is a value."""
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def look_up(content: Any, path: str) -> Any:
    """Return the value at a dotted path, None if it is absent."""
    for part in path.split("."):
        content = content.get(part) if isinstance(content, Mapping) else None
    return content


@contextmanager
def folder_lock(folder: Path, *, wait: bool = False, shared: bool = False, doing: str = "training") -> Iterator[None]:
    """Lock `folder` until the block or the process ends, without a lock file.

    If another process holds the lock, `wait` for it or raise InputError. A `shared` lock lets others read as well.
    `doing` is the word for the work of the others.
    """
    # not filelock: its lock file stays behind and cannot be created in a read-only folder
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            fcntl.flock(handle, kind if wait else kind | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder}: another process is {doing} there: wait for it, or start another run") from None
        yield
    finally:
        os.close(handle)
