"""Feather and Arrow files as plain Arrow. This module runs in a process of its own, within limits."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forecast.common.processes import limit_memory
from forecast.tables.formats.unpacking import CELL, MOST_COLUMNS, OBJECT, is_text

_FILE, _OLD = b"ARROW1", b"FEA1"


def write_table(path: str, output: str, memory_bytes: int, most_bytes: int) -> dict[str, Any]:
    """Write the table of a Feather or Arrow file to `output`, unpacked and checked, as a stream of Arrow.

    Return `large`, whether the table is over `most_bytes`, and `problem`, why it is no table of a series.
    """
    limit_memory(memory_bytes)
    with open(path, "rb") as file:
        start = file.read(len(_FILE))
    if start.startswith(_OLD):
        return {"large": False, "problem": " is Feather of version 1: write it again with a newer package"}
    source = pa.OSFile(path)
    reader = pa.ipc.open_file(source) if start == _FILE else pa.ipc.open_stream(source)
    if problem := _problem(reader.schema):
        return {"large": False, "problem": problem}
    table = reader.read_all()
    if _size(table) > most_bytes:
        return {"large": True, "problem": ""}
    table.validate(full=True)
    with pa.OSFile(output, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return {"large": False, "problem": ""}


def _problem(schema: pa.Schema) -> str:
    """Return why a table of these columns is refused, empty if it is not."""
    if len(schema) > MOST_COLUMNS:
        return f": has {len(schema):,} columns, the limit is {MOST_COLUMNS:,}: leave some out"
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        simple = is_text(kind) or pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)
        if not simple:
            return f", column {field.name!r}: holds {field.type}: remove it from the file, or write numbers"
    return ""


def _size(table: pa.Table) -> int:
    """Return the bytes of a table in pandas: a number takes 8 bytes, and each text its length and an object."""
    size = 0
    for column in table.columns:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if is_text(kind):
            size += CELL * len(column) + sum(map(_text_bytes, column.chunks))
        else:
            plain = pa.types.is_timestamp(kind) or not (pa.types.is_temporal(kind) or pa.types.is_decimal(kind))
            size += (CELL if plain else OBJECT) * len(column)
    return size


def _text_bytes(chunk: pa.Array) -> int:
    """Return the bytes of the texts of a chunk, with repetitions."""
    if pa.types.is_dictionary(chunk.type):
        return pc.sum(pc.take(pc.binary_length(chunk.dictionary), chunk.indices)).as_py() or 0
    if pa.types.is_string_view(chunk.type) or pa.types.is_binary_view(chunk.type):
        chunk = chunk.cast(pa.large_binary())
    return pc.sum(pc.binary_length(chunk)).as_py() or 0
