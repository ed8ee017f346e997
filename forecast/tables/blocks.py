"""The rows of a folder of Parquet files, sorted into blocks of series on disk."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.ipc

from forecast.tables.draft import check_present
from forecast.tables.formats.folders import Folder
from forecast.tables.panel import Id, read_ids, sorted_ids

MOST_FILES = 512
"""Blocks that are written side by side; a process may have 1,024 open files."""


def count_rows(folder: Folder, ids: Sequence[str]) -> dict[Id, int]:
    """Return the number of rows of each series, in the order of the ids."""
    check_present(ids, folder.dataset.schema.names, str(folder.path), "data.id_columns")
    counts: dict[Id, int] = {}
    for batch, first in _numbered(folder.batches(ids)):
        coded = read_ids(batch.to_pandas(), ids, np.arange(first, first + len(batch)), str(folder.path))
        for name, count in zip(coded.names, np.bincount(coded.codes).tolist(), strict=True):
            counts[name] = counts.get(name, 0) + count
    return {name: counts[name] for name in sorted_ids(counts)}


def sort_into(
    folder: Folder, target: Path, ids: Sequence[str], blocks: Mapping[Id, int], wanted: Sequence[int]
) -> None:
    """Write the rows of each wanted block to a file in `target`; `blocks` are the numbers of the series."""
    schema, source = folder.dataset.schema.remove_metadata(), str(folder.path)
    with ExitStack() as stack:
        writers = {
            number: stack.enter_context(pyarrow.ipc.new_stream(str(block_file(target, number)), schema))
            for number in wanted
        }
        for batch, first in _numbered(folder.batches()):
            coded = read_ids(batch.select(list(ids)).to_pandas(), ids, np.arange(first, first + len(batch)), source)
            numbers = np.array([blocks[name] for name in coded.names])[coded.codes]
            order = np.argsort(numbers, kind="stable")
            borders = np.flatnonzero(np.diff(numbers[order], prepend=-1, append=-1))
            for begin, end in pairwise(borders):
                if (writer := writers.get(int(numbers[order[begin]]))) is not None:
                    writer.write_batch(batch.take(pyarrow.array(order[begin:end])).replace_schema_metadata(None))


def block_file(folder: Path, number: int) -> Path:
    """Return the file of the rows of a block."""
    return folder / f"block-{number:05d}.arrow"


def read_block(folder: Path, number: int) -> pd.DataFrame:
    """Return the rows of a block that `sort_into` wrote."""
    with pyarrow.OSFile(str(block_file(folder, number))) as file:
        table: pd.DataFrame = pyarrow.ipc.open_stream(file).read_all().to_pandas()
    return table


def _numbered(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[tuple[pyarrow.RecordBatch, int]]:
    """Yield the batches that have rows, with the row number of each first row; the first row of all is row 2."""
    first = 2
    for batch in batches:
        if len(batch):
            yield batch, first
            first += len(batch)
