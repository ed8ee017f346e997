"""Tables larger than memory: read in blocks by the reader of all tables, and stored in a memory-mapped file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet

from forecast.common.errors import InputError
from forecast.common.files import TEXTS, temporary_folder
from forecast.data.calendar import future_index
from forecast.tables.blocks import MOST_FILES, block_file, count_rows, read_block, sort_into
from forecast.tables.files import check_acts
from forecast.tables.flaws import refuse
from forecast.tables.formats.encoding import as_utf8
from forecast.tables.formats.folders import Folder
from forecast.tables.formats.text import ORIGIN, table_of_text
from forecast.tables.formats.unpacking import CELL, LIMIT, limit_bytes
from forecast.tables.labels import label_of
from forecast.tables.panel import Id, Ids
from forecast.tables.reading import Reading
from forecast.tables.roles import USUAL_IDS, Roles
from forecast.tables.series import Series, series_from_frame
from forecast.tables.times.frequency import grid_places

BLOCK_BYTES = 2**24
"""Bytes of a block in memory, 8 for each cell; the last one may have twice as many."""

MOST_NOTES = 12
"""Largest number of notes on the blocks that are kept."""


def is_large(path: Path, roles: Roles, reading: Reading) -> bool:
    """Return whether a table is read in blocks: a folder or a text file above the limit of a table in memory.

    A text file that needs the whole table is read as a whole.
    """
    if path.is_dir():
        return Folder(path).bytes > limit_bytes()
    if not path.name.lower().endswith(TEXTS) or not path.is_file() or path.stat().st_size <= limit_bytes():
        return False
    return _needs_whole(roles, reading) is None


def _needs_whole(roles: Roles, reading: Reading) -> str | None:
    """Return the option that needs the whole table, with its cure; None if blocks are enough."""
    if roles.targets is None:
        return "data.targets=null: name the targets"
    if reading.last_rows is not None:
        return f"data.last_rows={reading.last_rows}: set it to null, or cut the table"
    if reading.merges_by is not None:
        return "data.duplicates merges series: name data.id_columns"
    return None


def read_large(path: Path, roles: Roles, reading: Reading) -> Series:
    """Return the series of a folder or a text file whose values stay in a file.

    The blocks are series of a long table, or else stretches of time; each is checked and repaired as a table of its
    own. The first block settles the step and the format of the times.
    """
    if (needed := _needs_whole(roles, reading)) is not None:
        raise InputError(f"{path}: larger than {LIMIT}, so it is read in parts. {needed}, or raise {LIMIT}")
    if path.is_dir():
        check_acts(reading.layout, (), path)
    with temporary_folder() as name:
        place = Path(name)
        if not path.is_dir():
            _convert_text(path, roles, reading, place / "table")
        folder = Folder(path if path.is_dir() else place / "table")
        found = [
            name for name in USUAL_IDS if name in folder.dataset.schema.names and name not in (roles.columns or ())
        ]
        ids = roles.ids or found[:1]
        reader = _Reader(place, str(path), replace(roles, ids=list(ids)), reading)
        if ids:
            _read_panel(reader, folder, ids)
        else:
            _read_stretches(reader, folder)
        pyarrow.default_memory_pool().release_unused()  # else the reader's batches stay in it
        return reader.stored()


class _Reader:
    """Reader of blocks, which stores the series of each in files below `place` until `stored` joins them."""

    def __init__(self, place: Path, source: str, roles: Roles, reading: Reading) -> None:
        self.place, self.source, self.roles, self.reading = place, source, roles, reading
        self.blocks: dict[int, Series] = {}
        self.firsts: dict[int, pd.DatetimeIndex] = {}

    def read(self, frame: pd.DataFrame, number: int) -> Series:
        """Read a block, and store its values; the first one that is read settles the step and the format of times."""
        settled = replace(self.reading, too_few=Reading().too_few)
        if self.blocks:
            first = next(iter(self.blocks.values()))
            step = settled.frequency if settled.resampling.resample else first.frequency
            column = settled.time_column if first.time_format.columns else str(first.frame.index.name)
            settled = replace(settled, time_column=column, frequency=step, time_format=first.time_format)
        series = series_from_frame(frame, self.roles, settled, self.source, keeps_ids=True)
        index = pd.DatetimeIndex(series.frame.index)
        np.save(self._file(number, "values"), np.asfortranarray(series.frame.to_numpy(np.float64)))
        np.save(self._file(number, "times"), index.as_unit("ns").asi8[:, None])
        seen = np.ones((len(index), 0), dtype=bool) if series.observed is None else np.asfortranarray(series.observed)
        np.save(self._file(number, "seen"), seen)
        self.firsts[number] = index[[0]] if series.ids is None else index[series.ids.offsets[:-1]]
        self.blocks[number] = replace(
            series, frame=series.frame.iloc[:0].copy(), observed=None
        )  # a view would hold the values
        return series

    def stored(self) -> Series:
        """Return one series with the values of all blocks, in the order of their numbers, in a mapped file."""
        numbers = sorted(self.blocks)
        first = self.blocks[numbers[0]]
        names, labels = list(first.frame.columns), self._labels(numbers)
        seen = any(self._load(number, "seen").shape[1] for number in numbers)
        rows = sum(len(self._load(number, "times")) for number in numbers)
        kinds = [("values", len(names), np.float64), ("times", 1, np.int64), ("seen", len(names) * seen, np.bool_)]
        from forecast.data.mapped import MappedFile, Recipe  # here: it imports torch

        recipes = [
            Recipe(width, rows, kind, partial(self._columns, numbers, name, names, labels))
            for name, width, kind in kinds
            if width
        ]
        values, times, *observed = (tensor.numpy().T for tensor in MappedFile.write(recipes, self.place.parent).tensors)
        index = pd.DatetimeIndex(times[:, 0].view("M8[ns]"), name=first.frame.index.name)
        if (zone := pd.DatetimeIndex(first.frame.index).tz) is not None:
            index = index.tz_localize("UTC").tz_convert(zone)
        series = replace(
            first,
            frame=pd.DataFrame(values, index=index, columns=names, copy=False),
            observed=observed[0] if observed else None,
            stored=True,
            labels=labels,
            notes=self._notes(numbers),
            ahead=tuple(table for number in numbers for table in self.blocks[number].ahead),
        )
        if first.ids is not None:
            return replace(series, ids=self._ids(numbers, first.frequency))
        refuse([], self.reading.too_few(rows))
        return series

    def _file(self, number: int, kind: str) -> Path:
        return self.place / f"{kind}-{number:05d}.npy"

    def _load(self, number: int, kind: str) -> np.ndarray:
        return np.asarray(np.load(self._file(number, kind), mmap_mode="r"))

    def _columns(
        self, numbers: Sequence[int], kind: str, names: Sequence[str], labels: Mapping[str, Sequence[str]], piece: slice
    ) -> np.ndarray:
        """Return some columns of all blocks as rows (k, N)."""
        parts = []
        for number in numbers:
            part = self._load(number, kind)
            part = part[:, piece] if part.shape[1] else np.ones((len(part), len(names)), dtype=bool)[:, piece]
            for place, name in enumerate(names[piece] if kind == "values" else ()):
                if name in labels:
                    part = part.copy()
                    new = np.array([labels[name].index(label) for label in self.blocks[number].labels[name]], float)
                    known = ~np.isnan(part[:, place])
                    part[known, place] = new[part[known, place].astype(np.int64)]
            parts.append(part.T)
        return np.concatenate(parts, axis=1)

    def _labels(self, numbers: Sequence[int]) -> dict[str, tuple[str, ...]]:
        """Return the labels of all blocks; raise InputError for a column with labels in some blocks only."""
        every = [self.blocks[number].labels for number in numbers]
        for name in {name for labels in every for name in labels}:
            if not all(name in labels for labels in every):
                raise InputError(f"{self.source}, column {name!r}: holds text in some parts only: correct the file")
        return {name: tuple(dict.fromkeys(label for labels in every for label in labels[name])) for name in every[0]}

    def _ids(self, numbers: Sequence[int], frequency: str) -> Ids:
        """Return the series of all blocks on one grid of times."""
        each = [ids for number in numbers if (ids := self.blocks[number].ids) is not None]
        firsts = self.firsts[numbers[0]].append([self.firsts[number] for number in numbers[1:]])
        unique = pd.DatetimeIndex(firsts.unique().sort_values())
        places = grid_places(unique, frequency, np.arange(2, len(unique) + 2), self.source)
        lengths = np.concatenate([ids.lengths for ids in each])
        regions = [ids.regions for ids in each if ids.regions is not None]
        return Ids(
            each[0].columns,
            tuple(name for ids in each for name in ids.names),
            np.concatenate([[0], np.cumsum(lengths)]),
            places[unique.get_indexer(firsts)],
            empty=tuple(name for ids in each for name in ids.empty),
            static=pd.DataFrame(index=range(len(lengths))),
            regions=pd.concat(regions) if regions else None,
        )

    def _notes(self, numbers: Sequence[int]) -> tuple[str, ...]:
        """Return the notes of the blocks, each once, and how many more there are."""
        series = sum(len(ids) for number in numbers if (ids := self.blocks[number].ids) is not None)
        first = f"read in {len(numbers):,} parts" + (f" of {series:,} series in total" if series else "")
        notes = list(dict.fromkeys(note for number in numbers for note in self.blocks[number].notes))
        more = [f"and {len(notes) - MOST_NOTES:,} more lines on parts"] if len(notes) > MOST_NOTES else []
        return (first, *notes[:MOST_NOTES], *more)


def _read_panel(reader: _Reader, folder: Folder, ids: Sequence[str]) -> None:
    """Read the series of a long table in blocks, the block of the longest series first, as its step is that of all."""
    counts = count_rows(folder, ids)
    rows = max(BLOCK_BYTES // (CELL * len(folder.dataset.schema)), folder.num_rows // MOST_FILES)
    starts = np.cumsum([0, *counts.values()])[:-1]
    blocks: dict[Id, int] = dict(zip(counts, (starts // rows).tolist(), strict=True))
    sort_into(folder, reader.place, ids, blocks, sorted(set(blocks.values())))
    longest = blocks[max(counts, key=counts.__getitem__)]
    for number in sorted(set(blocks.values()), key=lambda number: (number != longest, number)):
        reader.read(read_block(reader.place, number), number)
        block_file(reader.place, number).unlink()


def _read_stretches(reader: _Reader, folder: Folder) -> None:
    """Read one series in stretches of time; refuse what a border between two of them could change."""
    reading = reader.reading
    acting = {"missing": reading.policies.missing, "duplicates": reading.policies.duplicates}
    acting = {name: value for name, value in acting.items() if value != "error"}
    if reading.resampling.resample is not None:
        acting["resample"] = reading.resampling.resample
    for name, value in acting.items():
        raise InputError(
            f"{reader.source}: one series larger than {LIMIT} is read in stretches of time, without "
            f"data.{name}={value}: repair the table before, or raise {LIMIT}"
        )
    expected: pd.Timestamp | None = None
    for number, frame in enumerate(_stretches(folder)):
        series = reader.read(frame, number)
        index = pd.DatetimeIndex(series.frame.index)
        if expected is not None and index[0] != expected:
            raise InputError(
                f"{reader.source}: part {number + 1} begins at {index[0]}, and {expected} is next: sort the rows and "
                "the names of the files by time, and fill gaps"
            )
        expected = future_index(index[-1:], series.frequency, 1)[0]


def _stretches(folder: Folder) -> Iterator[pd.DataFrame]:
    """Yield the rows in blocks; the last one has what is left."""
    held: list[pyarrow.RecordBatch] = []
    most = BLOCK_BYTES // (CELL * len(folder.dataset.schema))
    for batch in folder.batches():
        if sum(map(len, held)) >= 2 * most:
            table = pyarrow.Table.from_batches(held)
            yield table[:most].to_pandas()
            held = table[most:].to_batches()
        held.append(batch)
    yield pyarrow.Table.from_batches(held, folder.dataset.schema).to_pandas()


def _convert_text(path: Path, roles: Roles, reading: Reading, target: Path) -> None:
    """Write a text file as Parquet files, one for each piece of it; each piece is read with the header of the file."""
    target.mkdir()
    number, header, schema = 0, b"", None
    with path.open("rb") as file:
        while piece := file.read(BLOCK_BYTES):
            piece += file.readline()
            content, notes = as_utf8(header + piece, reading.layout.encoding, path)
            if b"\0" in piece or content.count(b'"') % 2:
                raise InputError(
                    f"{path}: a text file larger than {LIMIT} is UTF-8, and no cell has a line break: convert it to "
                    f"Parquet, or raise {LIMIT}"
                )
            last = file.tell() == path.stat().st_size
            layout = reading.layout if last else replace(reading.layout, skip_footer=0)
            frame = table_of_text(content, layout, path, notes)
            if not number:
                header = b"\n".join(content.split(b"\n", frame.attrs[ORIGIN][0] - 1)[:-1]) + b"\n"
            table = pyarrow.Table.from_pandas(
                _steady(frame, roles, reading.region), schema=schema, preserve_index=False
            )
            schema = schema or table.schema.remove_metadata()
            pyarrow.parquet.write_table(table.cast(schema), target / f"{number:06d}.parquet")
            number += 1


def _steady(frame: pd.DataFrame, roles: Roles, region: str | None) -> pd.DataFrame:
    """Return a piece of a text file with types that all pieces have: ids and regions as text, values as numbers."""
    frame = frame.copy(deep=False)
    for name in frame.columns:
        if name in (roles.ids or USUAL_IDS) or name == region:
            frame[name] = frame[name].map(label_of, na_action="ignore")
        elif name in (roles.columns or ()) and pd.api.types.is_numeric_dtype(frame[name].dtype):
            frame[name] = frame[name].astype(np.float64)
    return frame
