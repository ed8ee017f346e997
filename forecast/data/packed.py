"""A data file that may be packed: found under either name, and known by the hash of what is in it."""

import gzip
import hashlib
import math
import zlib
from pathlib import Path

from forecast.common.errors import InputError

PACKED = ".gz"

_PIECE = 1 << 20


def find_file(folder: Path, name: str) -> Path | None:
    """Return the file of that name in the folder, or else the packed table, `name.gz`; None where neither is there."""
    names = [name, name + PACKED] if name.lower().endswith(".csv") else [name]
    return next((folder / each for each in names if (folder / each).is_file()), None)


def content_sha256(path: Path) -> str:
    """Return the sha256 of the content: of what a .gz file unpacks to, of any other file as it is.

    It is read a piece at a time, and a packed one as far as the limit of unpacked tables.

    Raises
    ------
    InputError
        If a .gz file is damaged, or larger than that.
    """
    from forecast.data.unpacking import limit_bytes, refuse_large  # it imports pyarrow

    digest, length = hashlib.sha256(), 0
    packed = path.name.lower().endswith(PACKED)
    most = limit_bytes() if packed else math.inf
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
                length += len(piece)
                if length > most:
                    raise refuse_large(path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is no whole gzip file ({error}): pack or fetch it again") from error
    return digest.hexdigest()
