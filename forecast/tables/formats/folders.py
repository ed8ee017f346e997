"""A folder of Parquet files, read in batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd
import pyarrow
import pyarrow.dataset

from forecast.common.errors import InputError, first_line
from forecast.common.files import PARQUET
from forecast.tables.formats.unpacking import CELL, check_columns, check_kinds

BATCH_BYTES = 2**24
"""Bytes of a batch of rows, 8 for each cell; reading holds a few of them at a time."""


@dataclass(frozen=True)
class Folder:
    """The Parquet files in a folder and the folders below it, also partitioned by columns as in `store=7/`."""

    path: Path

    @cached_property
    def files(self) -> list[Path]:
        """The files, in the order of their names; raise InputError if there is none."""
        found = sorted(file for file in self.path.rglob("*") if file.name.lower().endswith(PARQUET))
        found = [file for file in found if not any(part[0] in "._" for part in file.relative_to(self.path).parts)]
        if not found:
            raise InputError(f"{self.path} is a folder without .parquet files: name a file, or a folder with some")
        return found

    @cached_property
    def dataset(self) -> pyarrow.dataset.FileSystemDataset:
        """The data set; raise InputError for damaged files, or files whose columns differ."""
        try:
            data = self._open(None)
            schemas = {fragment.path: fragment.physical_schema for fragment in data.get_fragments()}
            expected = sorted(schemas[str(self.files[0])].names)
            for path, schema in schemas.items():
                check_kinds(schema, Path(path))
                if sorted(schema.names) != expected:
                    raise InputError(f"{path}: its columns are not those of {self.files[0]}: write all files alike")
            # a column of whole numbers in one file may have decimals in another
            data = self._open(pyarrow.unify_schemas([data.schema, *schemas.values()], promote_options="permissive"))
        except (pyarrow.ArrowException, OSError) as error:
            raise self._damaged(error) from error
        check_columns(len(data.schema), self.path)
        return data

    def _open(self, schema: pyarrow.Schema | None) -> pyarrow.dataset.FileSystemDataset:
        return pyarrow.dataset.dataset(
            [str(file) for file in self.files],
            schema=schema,
            format="parquet",
            partitioning=pyarrow.dataset.partitioning(flavor="hive"),
            partition_base_dir=str(self.path),
        )

    @cached_property
    def num_rows(self) -> int:
        """Number of rows of all files."""
        return sum(fragment.metadata.num_rows for fragment in self.dataset.get_fragments())

    @property
    def bytes(self) -> int:
        """The size of the table in memory, 8 bytes for each cell."""
        return self.num_rows * len(self.dataset.schema) * CELL

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows in the order of the files, at most `BATCH_BYTES` at a time."""
        rows = max(1, BATCH_BYTES // (CELL * len(self.dataset.schema)))
        try:
            yield from self.dataset.to_batches(
                columns=None if columns is None else list(columns),
                batch_size=rows,
                batch_readahead=1,
                fragment_readahead=1,
                use_threads=False,
                fragment_scan_options=pyarrow.dataset.ParquetFragmentScanOptions(
                    use_buffered_stream=True, pre_buffer=False
                ),
            )
        except (pyarrow.ArrowException, OSError) as error:
            raise self._damaged(error) from error

    def frame(self) -> pd.DataFrame:
        """Return the whole table."""
        table: pd.DataFrame = pyarrow.Table.from_batches(self.batches(), self.dataset.schema).to_pandas()
        return table

    def fingerprint(self) -> list[list[str | int]]:
        """Return the name, size and time of change of each file."""
        facts = [(file, file.stat()) for file in self.files]
        return [[str(file.relative_to(self.path)), fact.st_size, fact.st_mtime_ns] for file, fact in facts]

    def _damaged(self, error: Exception) -> InputError:
        return InputError(f"{self.path} cannot be read as Parquet ({first_line(error)}): write the files again")
