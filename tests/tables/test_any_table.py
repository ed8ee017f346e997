"""Any file becomes a series of finite values or is refused in one line."""

import gzip
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecast.common.errors import InputError
from forecast.common.text import is_plain
from forecast.tables.repair import DUPLICATES, MISSING, Policies
from tests.support.reading import read_series, series_from_frame

STRANGE = [
    *("", " ", "nan", "NaN", "null", "None", "inf", "-inf", "1e39", "1e400", "-0", "0x1F", "1_000", "1,5", "12 kW"),
    *(
        "now",
        "today",
        "NaT",
        "True",
        "false",
        "=1+1",
        "'=1",
        "\x1b[31m",
        "\u202e",
        "\ufeff",
        "é",
        "½",
        "\uff11",
        "1e-320",
    ),
    *("2016-07-01", "2016-13-01", "0000-00-00", "9999-12-31", "1677-01-01", "2016-07-01 24:00", "01/02/03", "5/6/2016"),
    *("2016-07-01T00:00:00Z", "2016-07-01 00:00:00+25:00", "2016-02-30", "1467331200", '"', '""', "a\nb", "a;b", "\t"),
]
CELLS = st.sampled_from(STRANGE) | st.floats().map(repr) | st.text(max_size=6)
POLICIES = st.builds(Policies, st.sampled_from(DUPLICATES), st.sampled_from(MISSING))
NAMES = st.lists(st.sampled_from(["date", "load", "oil", "air", "", "=a", "date "]) | CELLS, min_size=1, max_size=4)


def finite_or_refused(path: Path, policies: Policies) -> None:
    """Read the file; any other error fails the test."""
    try:
        series = read_series(path, policies=policies)
    except InputError:
        return
    values = series.frame.to_numpy()
    assert values.dtype == np.float64
    assert values.size
    assert np.isfinite(values).all()
    index = pd.DatetimeIndex(series.frame.index)
    assert index.is_monotonic_increasing
    assert index.is_unique
    assert not index.hasnans
    assert all(map(is_plain, map(str, series.frame)))
    assert series.observed is None or series.observed.shape == values.shape


def in_file(content: bytes, name: str, policies: Policies) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        finite_or_refused(path, policies)


@st.composite
def nearly_tables(draw: st.DrawFn) -> bytes:
    """Draw a CSV file of hours of which some cells, rows and bytes are something else."""
    rows = draw(st.integers(1, 12))
    hours = pd.date_range("2016-07-01", periods=rows, freq=draw(st.sampled_from(["h", "D", "15min", "MS", "W"])))
    cells = [[str(hour), str(place), str(place**2 / 7)] for place, hour in enumerate(hours)]
    for _ in range(draw(st.integers(0, 4))):
        cells[draw(st.integers(0, rows - 1))][draw(st.integers(0, 2))] = draw(CELLS)
    if draw(st.booleans()):
        cells[draw(st.integers(0, rows - 1))] = draw(st.lists(CELLS, max_size=5))
    order = draw(st.permutations(cells)) if draw(st.booleans()) else cells
    header = draw(NAMES) if draw(st.booleans()) else ["date", "load", "oil"]
    text = "\n".join(",".join(line) for line in [header, *order])
    return text.encode(draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])), "surrogatepass")


@given(nearly_tables(), POLICIES, st.booleans())
def test_any_csv_file_is_finite_or_refused(content: bytes, policies: Policies, packed: bool) -> None:
    in_file(gzip.compress(content, 1) if packed else content, "my.csv.gz" if packed else "my.csv", policies)


@given(st.binary(max_size=200), st.sampled_from(["my.csv", "my.csv.gz", "my.parquet"]))
def test_any_bytes_are_finite_or_refused(content: bytes, name: str) -> None:
    in_file(content, name, Policies())


KINDS = ["f8", "f4", "i8", "bool", "text", "dates", "zoned", "days", "spans", "kinds", "mixed", "none"]


def column(kind: str, rows: int, draw: st.DrawFn) -> object:
    """Draw a column of a kind; numbers have strange ones among them."""
    if kind in ("f8", "f4"):
        numbers = draw(st.lists(st.floats(width=64 if kind == "f8" else 32), min_size=rows, max_size=rows))
        return np.array(numbers, dtype=kind)
    if kind == "text":
        return draw(st.lists(CELLS, min_size=rows, max_size=rows))
    hours = pd.date_range("2016-07-01", periods=rows, freq="h")
    columns: dict[str, object] = {
        "i8": np.arange(rows) * draw(st.sampled_from([1, -(2**60)])),
        "bool": np.arange(rows) % 2 == 0,
        "dates": hours,
        "zoned": hours.tz_localize("Europe/Berlin"),
        "days": [hour.date() for hour in hours],
        "spans": pd.to_timedelta(np.arange(rows), unit="h"),
        "kinds": pd.Categorical([str(place % 3) for place in range(rows)]),
        "mixed": [None if place % 3 else 1.5 for place in range(rows)],
        "none": [None] * rows,
    }
    return columns[kind]


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    """Draw a frame with columns of any kind, and the times in one or in its index."""
    rows = draw(st.integers(0, 9))
    names = draw(st.lists(st.text(max_size=3) | st.sampled_from(["load", "a\x1bb"]), max_size=3, unique=True))
    table = pd.DataFrame({name: column(draw(st.sampled_from(KINDS)), rows, draw) for name in names}, index=range(rows))
    if draw(st.booleans()):
        return table.set_index(
            pd.date_range("2016-07-01", periods=rows, freq="h", name=draw(st.sampled_from(["t", None])))
        )
    return table.assign(date=pd.date_range("2016-07-01", periods=rows, freq="D"))


@pytest.mark.slow
@given(frames(), POLICIES, st.data())
def test_any_parquet_file_and_any_frame_is_finite_or_refused(
    table: pd.DataFrame, policies: Policies, data: st.DataObject
) -> None:
    with suppress(InputError):
        assert np.isfinite(series_from_frame(table, policies=policies).frame.to_numpy()).all()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "my.parquet"
        try:
            table.to_parquet(path)
        except (ValueError, UnicodeEncodeError):
            return  # not every frame can be written
        finite_or_refused(path, policies)
        content = bytearray(path.read_bytes())
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
        finite_or_refused(path, policies)


@pytest.mark.parametrize("name", ["my.csv", "my.csv.gz", "my.parquet"])
def test_the_files_that_are_drawn_can_be_read_at_all(name: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"load": np.arange(9.0)}, index=pd.date_range("2016-07-01", periods=9, freq="h", name="date"))
    table.to_parquet(tmp_path / name) if name.endswith("parquet") else table.to_csv(tmp_path / name)
    assert len(read_series(tmp_path / name).frame) == 9
