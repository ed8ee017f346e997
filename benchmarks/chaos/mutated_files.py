"""Mutations of a table's bytes: compression, Parquet, special files, file names and excessive sizes."""

import gzip
import io
import os
import random
from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.chaos.bench import FINITE, REFUSE, SAME, Bench, Malformed


def binary(bench: Bench) -> Malformed:
    """Insert bytes that are not text."""
    raw = bytearray(bench.text.encode())
    kind = bench.random.choice(["zero", "invalid", "flip", "all", "image", "escape"])
    if kind == "all":
        return bench.write(bench.random.randbytes(5000), "random bytes", REFUSE)
    if kind == "image":
        return bench.write(b"\x89PNG\r\n\x1a\n" + bytes(100), "an image", REFUSE)
    place = bench.random.randrange(len(raw))
    piece = {"zero": b"\0", "invalid": b"\xff\xfe", "escape": b"\x1b[31m", "flip": b"?"}[kind]
    raw[place : place + 1] = piece
    return bench.write(bytes(raw), f"{piece!r} at byte {place}", FINITE if place < raw.index(b"\n") else REFUSE)


def line_ends(bench: Bench) -> Malformed:
    """Use other line endings."""
    mark = bench.random.choice(["\r\n", "\r", "\n\n", "\r\r\n", "\x0b", "\u2028"])
    return bench.write(bench.text.replace("\n", mark), f"lines end in {mark!r}", SAME)


def packed(bench: Bench) -> Malformed:
    """Compress the table, correctly or not."""
    raw = gzip.compress(bench.text.encode())
    kind = bench.random.choice(
        ["good", "cut", "garbage behind", "not packed", "twice", "two members", "flipped", "bomb"]
    )
    half = len(bench.text) // 2
    contents: dict[str, Callable[[], bytes]] = {
        "good": lambda: raw,
        "cut": lambda: raw[: bench.random.randrange(len(raw))],
        "garbage behind": lambda: raw + b"garbage",
        "not packed": lambda: bench.text.encode(),
        "twice": lambda: gzip.compress(raw),
        "two members": lambda: gzip.compress(bench.text[:half].encode()) + gzip.compress(bench.text[half:].encode()),
        "flipped": lambda: _flipped(raw, bench.random),
        "bomb": lambda: gzip.compress(bench.text.encode() + b"0" * (1 << 28), 1),
    }
    expected = REFUSE if kind in ("bomb", "twice", "cut") else SAME
    return bench.write(contents[kind](), f"gzip: {kind}", expected, name="bad.csv.gz")


def huge(bench: Bench) -> Malformed:
    """Write cells, names or rows that are much too long."""
    kind = bench.random.choice(["cell", "name", "columns", "digits"])
    if kind == "cell":
        return bench.planted("x" * 10**7, REFUSE)
    if kind == "digits":
        return bench.planted("1." + "3" * 10**6, FINITE)
    if kind == "name":
        return bench.table(bench.frame.assign(**{"n" * 10**6: 1.0}), "a name of 1,000,000 characters", FINITE)
    more = pd.DataFrame(1, index=bench.frame.index[-50:], columns=[f"x{n}" for n in range(10_000)])
    frame = pd.concat([bench.frame.iloc[-50:], more], axis=1)
    return bench.table(frame, "10,000 more columns", FINITE)


def special(bench: Bench) -> Malformed:
    """Replace the file by a pipe, a folder, a device or a link."""
    kind = bench.random.choice(["pipe", "folder", "itself", "zeros", "nothing"])
    path = bench.folder / "bad.csv"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind != "nothing":
        path.symlink_to({"itself": "bad.csv", "zeros": "/dev/zero"}[kind])
    return Malformed(path, f"a table that is {kind}", REFUSE)


def file_name(bench: Bench) -> Malformed:
    """Use an unusual file name."""
    name = bench.random.choice(
        ["=cmd.csv", "a b.csv", "a\nb.csv", "x.CSV", "\x1b[31m.csv", "ü.csv", "'.csv", "x.csv.csv", "-.csv"]
    )
    return bench.write(bench.text, f"called {name!r}", SAME, name=name)


def formula_names(bench: Bench) -> Malformed:
    """Use a column name that a spreadsheet would execute."""
    name = bench.random.choice(["=cmd|' /C calc'!A0", "+1+1", "@SUM(1)", "-2+3", "\t=1", "\x1b[31mx", "=1,2", '="x"'])
    return bench.table(bench.frame.rename(columns={"load": name}), f"a column called {name!r}", FINITE)


def parquet(bench: Bench) -> Malformed:
    """Write the table as Parquet, with other types, or damaged."""
    frame, rng = bench.frame, bench.random
    changes: dict[str, tuple[Callable[[], pd.DataFrame], str]] = {
        "sound": (lambda: frame, SAME),
        "text": (lambda: frame.astype(str), SAME),
        "seconds": (lambda: frame.assign(date=frame["date"].astype("datetime64[s]")), SAME),
        "a zone": (lambda: frame.assign(date=frame["date"].dt.tz_localize("UTC")), REFUSE),
        "an index": (lambda: frame.set_index("date"), SAME),
        "two levels": (lambda: frame.set_index(["date", "air"]), REFUSE),
        "categories": (lambda: frame.assign(load=frame["load"].astype("category")), SAME),
        "float16": (lambda: frame.assign(oil=frame["oil"].astype("float16")), FINITE),
        "booleans": (lambda: frame.assign(load=True), REFUSE),
        "lists": (lambda: frame.assign(load=pd.Series([[1.0]] * len(frame), dtype=object)), REFUSE),
        "objects": (lambda: frame.assign(load=pd.Series([{"a": 1.0}] * len(frame), dtype=object)), REFUSE),
        "bytes": (lambda: frame.assign(load=[b"1"] * len(frame)), FINITE),
        "large integers": (lambda: frame.assign(load=2**62), REFUSE if bench.look_back < 100 else FINITE),
        "durations": (lambda: frame.assign(load=pd.to_timedelta(frame["load"], unit="s")), REFUSE),
        "dates twice": (lambda: frame.assign(load=frame["date"]), REFUSE),
        "no rows": (lambda: frame.iloc[:0], REFUSE),
        "NaN": (lambda: frame.mask(frame.index.to_series() == bench.row()), FINITE),
        "infinity": (lambda: frame.assign(load=np.inf), REFUSE),
    }
    kind = rng.choice([*changes, "cut", "flipped", "not Parquet"])
    buffer = io.BytesIO()
    change, expected = changes.get(kind, (lambda: frame, REFUSE))
    change().to_parquet(buffer)
    raw = buffer.getvalue()
    if kind == "cut":
        raw = raw[: rng.randrange(len(raw))]
    elif kind == "flipped":
        raw, expected = _flipped(raw, rng), FINITE
    elif kind == "not Parquet":
        raw = bench.text.encode()
    return bench.write(raw, f"Parquet: {kind}", expected, name="bad.parquet")


def bomb(bench: Bench) -> Malformed:
    """Write a small Parquet file with an enormous table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows, block = 2 * 10**8, 10**6
    path = bench.folder / "bad.parquet"
    index = pa.array(np.zeros(block, np.int32))
    column = pa.DictionaryArray.from_arrays(index, pa.array([5.0]))
    date = pa.DictionaryArray.from_arrays(index, pa.array(["2016-07-01"]))
    table = pa.table({"date": date, "load": column, "oil": column, "air": column})
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(rows // block):
            writer.write_table(table)
    return Malformed(path, f"Parquet: {rows:,} rows in {path.stat().st_size:,} bytes", REFUSE)


MUTATIONS: dict[Callable[[Bench], Malformed], float] = {
    binary: 3, line_ends: 1, packed: 3, huge: 1, special: 1, file_name: 1, formula_names: 2, parquet: 5, bomb: 0.15,
}  # fmt: skip
"""Mutations of files, with their weights."""


def _flipped(raw: bytes, rng: random.Random) -> bytes:
    changed = bytearray(raw)
    place = rng.randrange(8 * len(raw))
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)
