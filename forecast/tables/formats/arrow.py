"""Feather and Arrow files as plain Arrow. This module runs in a process of its own, within limits."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forecast.common.errors import InputError
from forecast.common.processes import limit_memory
from forecast.tables.formats.unpacking import cell_bytes, check_columns, check_kinds, dictionary_bytes, is_text

_FILE, _OLD = b"ARROW1", b"FEA1"


def write_table(path: str, output: str, memory_bytes: int, most_bytes: int) -> dict[str, Any]:
    """Write the table of a Feather or Arrow file to `output`, unpacked and checked, as a stream of Arrow.

    Return `large`, whether the table is over `most_bytes`, and `problem`, why it is no table of a series.
    """
    limit_memory(memory_bytes)
    with open(path, "rb") as file:
        start = file.read(len(_FILE))
    if start.startswith(_OLD):
        return {"large": False, "problem": f"{path} is Feather of version 1: write it again with a newer package"}
    source = pa.OSFile(path)
    reader = pa.ipc.open_file(source) if start == _FILE else pa.ipc.open_stream(source)
    try:
        check_columns(len(reader.schema), Path(path))
        check_kinds(reader.schema, Path(path))
    except InputError as error:
        return {"large": False, "problem": str(error)}
    table = reader.read_all()
    if _size(table) > most_bytes:
        return {"large": True, "problem": ""}
    table.validate(full=True)
    with pa.OSFile(output, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return {"large": False, "problem": ""}


def _size(table: pa.Table) -> int:
    size = 0
    for column in table.columns:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        size += cell_bytes(kind) * len(column) + (sum(map(_text_bytes, column.chunks)) if is_text(kind) else 0)
    return size


def _text_bytes(chunk: pa.Array) -> int:
    """Return the bytes of the texts of a chunk, with repetitions."""
    if pa.types.is_dictionary(chunk.type):
        return dictionary_bytes(chunk)
    if pa.types.is_string_view(chunk.type) or pa.types.is_binary_view(chunk.type):
        chunk = chunk.cast(pa.large_binary())
    return pc.sum(pc.binary_length(chunk)).as_py() or 0
