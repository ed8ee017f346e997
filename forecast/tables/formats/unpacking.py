"""Reading of compressed tables within a size limit."""

import gzip
import hashlib
import math
import os
import zlib
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from forecast.common.errors import InputError
from forecast.tables.formats.parquet_pages import rows_and_bytes

LIMIT = "FORECAST_MAX_TABLE_MIB"
"""Environment variable with the largest unpacked size of a compressed table, in MiB."""

DEFAULT_MIB = 256

MOST_COLUMNS = 20_000
"""Largest number of columns of a table."""

CELL, OBJECT = 8, 64
"""Bytes of a number, and of a Python object."""

_PIECE, _ROWS = 2**20, 2**15
_SPARSE = 8


def limit_bytes() -> int:
    """Return the largest unpacked size of a compressed table, in bytes."""
    text = os.environ.get(LIMIT, str(DEFAULT_MIB))
    try:
        size = float(text)
    except ValueError:
        size = 0.0
    if not 0 < size < 2**40:
        raise InputError(f"{LIMIT}={text!r}: must be a number of MiB above 0")
    return int(size * 2**20)


def refuse_large(path: Path) -> InputError:
    """Return the error for a table that exceeds the limit."""
    return InputError(
        f"{path}: unpacked, it exceeds the limit of {limit_bytes() / 2**20:,.3g} MiB: "
        f"if you trust its source, increase the environment variable {LIMIT}"
    )


def check_size(size: int, path: Path) -> None:
    """Raise InputError for a table whose unpacked bytes exceed the limit."""
    if size > limit_bytes():
        raise refuse_large(path)


def check_columns(count: int, path: Path) -> None:
    """Raise InputError for a table with more than `MOST_COLUMNS` columns."""
    if count > MOST_COLUMNS:
        raise InputError(f"{path}: has {count:,} columns, the limit is {MOST_COLUMNS:,}: leave some out")


def read_file(path: Path) -> bytes:
    """Return the content of an uncompressed file; a mostly sparse file counts as compressed."""
    facts = path.stat()
    if facts.st_size > limit_bytes() and facts.st_blocks * 512 * _SPARSE < facts.st_size:
        raise refuse_large(path)
    return path.read_bytes()


def read_gzip(path: Path) -> bytes:
    """Return the text of a gzip file; its size is counted while unpacking, and each cell counts at least 8 bytes."""
    pieces, size, cells = [], 0, 0
    with path.open("rb") as file, gzip.GzipFile(fileobj=file) as unpacked:
        while piece := _next_piece(unpacked, path):
            size += len(piece)
            cells += piece.count(b",") + piece.count(b"\n")
            check_size(max(size, CELL * cells), path)
            pieces.append(piece)
    return b"".join(pieces)


def _next_piece(file: gzip.GzipFile, path: Path) -> bytes:
    try:
        return file.read(_PIECE)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a complete gzip file ({error}): compress or download it again") from error


def read_parquet_bytes(path: Path) -> bytes:
    """Return the content of a Parquet file whose table is within the limit.

    Rows and columns come from its metadata, page sizes from the page headers. Texts are counted in pieces: a short file
    may hold very many or very long ones.
    """
    check_size(path.stat().st_size, path)
    content = path.read_bytes()
    if not content:
        raise InputError(f"{path} is empty: choose another file")
    rows, packed = rows_and_bytes(content)
    check_size(packed, path)
    file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content))
    check_columns(file.metadata.num_columns, path)
    size, texts = 0, []
    for name, kind in check_kinds(file.schema_arrow, path):
        if is_text(kind):
            texts.append(name)
        size += rows * cell_bytes(kind)
    check_size(size, path)
    if texts:
        _count_texts(content, texts, path, limit_bytes() - size)
    return content


def check_kinds(schema: pyarrow.Schema, path: Path) -> list[tuple[str, Any]]:
    """Return the name and type of each column; raise InputError for a type that is no number, time or text."""
    kinds = []
    for field in schema:
        kind = field.type.value_type if pyarrow.types.is_dictionary(field.type) else field.type
        plain = pyarrow.types.is_primitive(kind) or pyarrow.types.is_decimal(kind) or pyarrow.types.is_null(kind)
        if not plain and not is_text(kind):
            raise InputError(
                f"{path}, column {field.name!r}: holds {field.type}: remove it from the file, or write numbers"
            )
        kinds.append((field.name, kind))
    return kinds


def is_text(kind: Any) -> bool:
    """Return whether a type of Arrow is text or bytes."""
    types = pyarrow.types
    tests = (types.is_string, types.is_large_string, types.is_string_view)
    return any(test(kind) for test in (*tests, types.is_binary, types.is_large_binary, types.is_binary_view))


def cell_bytes(kind: Any) -> int:
    """Return the bytes of a cell of a type of Arrow in pandas: a number takes 8, as the length of a text does."""
    types = pyarrow.types
    plain = types.is_timestamp(kind) or not (types.is_temporal(kind) or types.is_decimal(kind))
    return CELL if plain else OBJECT


def dictionary_bytes(column: pyarrow.DictionaryArray) -> int:
    """Return the bytes of the texts of a column of dictionaries, with repetitions."""
    lengths = pyarrow.compute.take(pyarrow.compute.binary_length(column.dictionary), column.indices)
    return pyarrow.compute.sum(lengths).as_py() or 0


def _count_texts(content: bytes, names: list[str], path: Path, left: int) -> None:
    """Raise InputError if the texts of the columns, read as dictionaries, take more than `left` bytes in total."""
    file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content), read_dictionary=names)
    for batch in file.iter_batches(batch_size=_ROWS, columns=names, use_threads=False):
        batch.validate(full=True)  # finds damaged text, which is otherwise found only on access
        for column in batch.columns:
            is_coded = pyarrow.types.is_dictionary(column.type)
            left -= dictionary_bytes(column) if is_coded else column.nbytes
        if left < 0:
            raise refuse_large(path)


PACKED = ".gz"


def find_file(folder: Path, name: str) -> Path | None:
    """Return the file of that name in the folder, else the compressed table `name.gz`; None if neither exists."""
    names = [name, name + PACKED] if name.lower().endswith(".csv") else [name]
    return next((path for path in (folder / item for item in names) if path.is_file()), None)


def content_sha256(path: Path) -> str:
    """Return the SHA-256 of the content, unpacked within the limit for a .gz file."""
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
        raise InputError(f"{path} is not a complete gzip file ({error}): compress or download it again") from error
    return digest.hexdigest()
