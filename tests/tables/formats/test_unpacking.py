"""Compressed tables are refused before they exceed the limit, even with false metadata."""

import gzip
import struct
import time
import tracemalloc
import zlib
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest

from forecast.common.errors import InputError
from forecast.predict.__main__ import main as predict
from forecast.tables.files import read_table
from forecast.tables.formats.parquet_pages import rows_and_bytes
from forecast.tables.formats.unpacking import LIMIT, MOST_COLUMNS
from forecast.tables.repair import Policies
from tests.conftest import TinyRun
from tests.support.reading import series_from_frame
from tests.support.small import snapshot

MIB = 2**20


def refused(path: Path, words: str = "unpacked, it exceeds the limit of") -> None:
    """Expect one line that names the option, in a moment and without the memory."""
    tracemalloc.start()
    begun = time.process_time()
    with pytest.raises(InputError, match=words) as caught:
        read_table(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert (LIMIT in str(caught.value)) == (words.startswith("unpacked"))
    assert peak < 40 * MIB
    assert pyarrow.total_allocated_bytes() < 40 * MIB
    assert time.process_time() - begun < 5


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, "8")


def test_a_gzip_file_of_one_long_cell_is_refused(tmp_path: Path, limit: None) -> None:
    pack = zlib.compressobj(9, zlib.DEFLATED, 31)
    pieces = [pack.compress(b"date,load\n"), *(pack.compress(bytes(MIB).replace(b"\0", b"1")) for _ in range(40))]
    (tmp_path / "my.csv.gz").write_bytes(b"".join([*pieces, pack.flush()]))
    assert (tmp_path / "my.csv.gz").stat().st_size < MIB / 8
    refused(tmp_path / "my.csv.gz")


def test_a_gzip_file_of_very_many_empty_cells_or_members_is_refused(tmp_path: Path, limit: None) -> None:
    (tmp_path / "commas.csv.gz").write_bytes(gzip.compress(b"date,load\n" + b"," * (2 * MIB)))
    (tmp_path / "members.csv.gz").write_bytes(gzip.compress(b"1" * MIB) * 100)
    refused(tmp_path / "commas.csv.gz")
    refused(tmp_path / "members.csv.gz")


def parquet(path: Path, table: pyarrow.Table, times: int = 1, **options: object) -> Path:
    with pyarrow.parquet.ParquetWriter(path, table.schema, compression="zstd", **options) as writer:
        for _ in range(times):
            writer.write_table(table)
    return path


def test_a_parquet_file_of_very_many_rows_is_refused_from_its_metadata(tmp_path: Path, limit: None) -> None:
    table = pyarrow.table({"date": np.zeros(400_000, "M8[ns]"), "load": np.zeros(400_000)})
    path = parquet(tmp_path / "my.parquet", table, 5)
    assert path.stat().st_size < MIB / 4
    refused(path)


@pytest.mark.parametrize("kind", [pyarrow.string(), pyarrow.large_string(), pyarrow.binary()])
def test_a_parquet_file_of_one_long_text_many_times_is_refused(tmp_path: Path, kind: object, limit: None) -> None:
    text = pyarrow.array(["x" * 20_000] * 2_000).cast(kind) if kind != pyarrow.binary() else None
    text = text if text is not None else pyarrow.array([b"x" * 20_000] * 2_000)
    path = parquet(tmp_path / "my.parquet", pyarrow.table({"date": text, "load": np.zeros(2_000)}))
    del text
    assert path.stat().st_size < MIB / 4
    refused(path)


def test_a_parquet_file_of_lists_is_refused_by_the_column(tmp_path: Path) -> None:
    table = pyarrow.table({"date": np.zeros(3, "M8[ns]"), "load": [[1.0] * 1000] * 3})
    refused(parquet(tmp_path / "my.parquet", table), "column 'load': holds list")


def test_decimals_are_numbers(tmp_path: Path) -> None:
    dates = pd.date_range("2024-01-01", periods=4, freq="h")
    load = pyarrow.array([Decimal("1.25"), None, Decimal("2.50"), Decimal(3)], pyarrow.decimal128(6, 2))
    table = read_table(parquet(tmp_path / "my.parquet", pyarrow.table({"date": dates, "load": load})))
    series = series_from_frame(table, columns=["load"], policies=Policies(missing="ffill"))
    assert series.frame["load"].tolist() == [1.25, 1.25, 2.5, 3]


def number(value: int, width: int = 0) -> bytes:
    """Return a number as Thrift's compact protocol writes it, drawn out to a width."""
    value <<= 1
    parts = []
    while value > 127 or len(parts) + 1 < width:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def test_pages_are_counted_despite_false_metadata(tmp_path: Path, limit: None) -> None:
    rows = 4 * MIB
    table = pyarrow.table({"date": np.zeros(rows, "M8[ns]")})
    honest = parquet(tmp_path / "honest.parquet", table, use_dictionary=False, data_page_size=2**30)
    content = honest.read_bytes()
    length = struct.unpack("<I", content[-8:-4])[0]
    footer = content[-8 - length : -8]
    metadata = pyarrow.parquet.ParquetFile(honest).metadata
    for place in range(metadata.num_row_groups):
        group = metadata.row_group(place)
        column = group.column(0)
        for count in (rows, group.num_rows, group.total_byte_size, column.total_uncompressed_size):
            footer = footer.replace(number(count), number(10, len(number(count))))
    lying = tmp_path / "lying.parquet"
    lying.write_bytes(content[: -8 - length] + footer + content[-8:])
    metadata = pyarrow.parquet.ParquetFile(lying).metadata
    assert metadata.num_rows <= 1000
    assert metadata.row_group(0).column(0).total_uncompressed_size == 10
    refused(lying)


def test_the_count_of_pages_matches_correct_metadata(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    table = pyarrow.table({"a": draw.standard_normal(9999), "b": [str(n % 7) for n in range(9999)]})
    path = parquet(tmp_path / "my.parquet", table, 2, data_page_size=4096)
    content, metadata = path.read_bytes(), pyarrow.parquet.ParquetFile(path).metadata
    rows, found = rows_and_bytes(content)
    columns = [metadata.row_group(group).column(place) for group in range(2) for place in range(2)]
    declared = sum(column.total_uncompressed_size for column in columns)  # which counts the headers
    assert rows == 2 * len(table)
    assert 0.9 * declared < found < declared
    for spoilt in (content[:-9], content[:-1] + b"2", content[-100:], b"PAR1"):
        with pytest.raises(ValueError, match=r"its metadata|a section is outside|does not end"):
            rows_and_bytes(spoilt)


def test_a_damaged_page_is_an_error_of_one_line(tmp_path: Path) -> None:
    table = pyarrow.table({"date": np.arange(99).astype("M8[h]").astype("M8[ns]"), "load": np.arange(99.0)})
    content = bytearray(parquet(tmp_path / "my.parquet", table).read_bytes())
    errors = []
    for place in range(4, 40):
        spoilt = bytearray(content)
        spoilt[place] ^= 0xFF
        (tmp_path / "my.parquet").write_bytes(spoilt)
        try:  # nothing else may be raised
            read_table(tmp_path / "my.parquet")
        except InputError as error:
            errors.append(str(error))
    assert errors
    assert not any("\n" in error for error in errors)


def test_too_many_columns_are_refused_before_they_are_parsed(tmp_path: Path) -> None:
    names = ",".join(f"c{place}" for place in range(MOST_COLUMNS + 1))
    (tmp_path / "my.csv").write_text(f"{names}\n{',' * MOST_COLUMNS}\n")
    refused(tmp_path / "my.csv", f"has {MOST_COLUMNS + 1:,} columns")


def test_a_mostly_sparse_file_counts_as_compressed(tmp_path: Path) -> None:
    with (tmp_path / "my.csv").open("wb") as file:
        file.truncate(2**33)
    refused(tmp_path / "my.csv")


def test_the_limit_can_be_set_and_does_not_apply_to_a_plain_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_run: TinyRun, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tiny_run.table
    table.to_csv(tmp_path / "my.csv", index=False)
    (tmp_path / "my.csv.gz").write_bytes(gzip.compress((tmp_path / "my.csv").read_bytes()))
    table.to_parquet(tmp_path / "my.parquet")
    monkeypatch.setenv(LIMIT, "0.01")
    assert len(read_table(tmp_path / "my.csv")) == len(table)
    output = tmp_path / "next.csv"
    before = snapshot(tmp_path)
    for name in ("my.csv.gz", "my.parquet"):
        words = ["--run", str(tiny_run.path), "--input", str(tmp_path / name), "--output", str(output)]
        assert predict(words) == 2
        assert f"increase the environment variable {LIMIT}" in capsys.readouterr().err
        assert snapshot(tmp_path) == before
    monkeypatch.setenv(LIMIT, "0.1")
    assert len(read_table(tmp_path / "my.csv.gz")) == len(read_table(tmp_path / "my.parquet")) == len(table)
    for text in ("much", "-1", "nan", "inf", "0"):
        monkeypatch.setenv(LIMIT, text)
        with pytest.raises(InputError, match=f"{LIMIT}='{text}': must be a number of MiB above 0"):
            read_table(tmp_path / "my.parquet")


def test_frames_with_every_kind_of_plain_column_are_still_read(tmp_path: Path) -> None:
    index = pd.date_range("2024-01-01", periods=5, freq="D", tz="Europe/Berlin", name="date")
    table = pd.DataFrame(
        {
            "text": list("abcde"),
            "kind": pd.Categorical(list("ababa")),
            "truth": [True] * 5,
            "small": np.arange(5, dtype="i1"),
            "half": np.arange(5, dtype="f4"),
            "none": [None] * 5,
            "span": pd.to_timedelta(np.arange(5), unit="h"),
            "day": [day.date() for day in index],
        },
        index=index,
    )
    table.to_parquet(tmp_path / "my.parquet")
    pd.testing.assert_frame_equal(
        read_table(tmp_path / "my.parquet"), pd.read_parquet(tmp_path / "my.parquet"), check_freq=False
    )
