import gzip
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.tables.repair import Policies
from forecast.tables.series import Series
from tests.support.reading import read_series, series_from_frame

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def hourly(rows: int = 48, start: str = "2016-07-01") -> pd.DataFrame:
    """Return a table with a date column and two value columns."""
    date = pd.date_range(start, periods=rows, freq="h").strftime("%Y-%m-%d %H:%M:%S")
    return pd.DataFrame({"date": date, "load": np.arange(rows) + 0.5, "oil": np.arange(rows) ** 2 / 7})


def write(tmp_path: Path, table: pd.DataFrame, name: str = "my.csv") -> Path:
    table.to_csv(tmp_path / name, index=False)
    return tmp_path / name


def planted(tmp_path: Path, row: int, column: str, cell: object) -> Path:
    """Write the hourly table with one cell replaced; `row` as a spreadsheet counts."""
    table = hourly().astype(object)
    table.loc[row - 2, column] = cell
    return write(tmp_path, table)


def refuse(message: str, source: Path | pd.DataFrame, **arguments: object) -> None:
    """Expect one line that matches the pattern."""
    read = series_from_frame if isinstance(source, pd.DataFrame) else read_series
    with pytest.raises(InputError, match=message) as caught:
        read(source, **arguments)
    assert "\n" not in str(caught.value)
    if isinstance(source, Path):
        assert str(source) in str(caught.value)


def same(one: Series, other: Series) -> None:
    pd.testing.assert_frame_equal(one.frame, other.frame, check_exact=True, check_freq=False)
    assert one.frequency == other.frequency


def test_a_clean_file_gives_every_column_its_time_index_and_its_frequency(tmp_path: Path) -> None:
    series = read_series(write(tmp_path, hourly()))
    assert series.frame.index.name == "date"
    assert series.frame.dtypes.tolist() == [np.float64, np.float64]
    assert series.frame.index[1] == pd.Timestamp("2016-07-01 01:00")
    assert (series.frequency, series.notes) == ("h", ())
    np.testing.assert_array_equal(series.frame["oil"], hourly()["oil"])


def test_columns_have_the_requested_order(tmp_path: Path) -> None:
    assert list(read_series(write(tmp_path, hourly()), columns=["oil", "load"]).frame) == ["oil", "load"]
    assert list(read_series(write(tmp_path, hourly()), columns=["oil"]).frame) == ["oil"]


HARMLESS = {
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text,
    "carriage returns": lambda text: text.replace(b"\n", b"\r\n"),
    "quoted dates": lambda text: re.sub(rb"(?m)^(2016[^,]*)", rb'"\1"', text),
    "no newline at the end": lambda text: text.rstrip(b"\n"),
    "blank lines at the end": lambda text: text + b"\n\n",
    "blanks around the names": lambda text: text.replace(b"date,load,oil", b"date, load , oil"),
    "offset": lambda text: text.replace(b":00:00,", b":00:00+00:00,"),
    "day first, unmistakable": lambda text: re.sub(
        rb"(?m)^(\d{4})-(\d\d)-(\d\d)", rb"\3.\2.\1", text.replace(b"2016-07-0", b"2016-07-2")
    ),
    "reversed": lambda text: b"\n".join([text.split()[0], *reversed(text.rstrip().split(b"\n")[1:])]),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_variations_of_a_file_change_no_value(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, hourly())
    plain = read_series(path)
    path.write_bytes(HARMLESS[name](path.read_bytes()))
    changed = read_series(path)
    np.testing.assert_array_equal(changed.frame.to_numpy(), plain.frame.to_numpy())
    assert list(changed.frame) == list(plain.frame)
    assert changed.frequency == "h"
    assert (np.diff(changed.frame.index.asi8) == 3600 * 10**9).all()
    assert changed.frame.index[0].hour == 0


def test_gz_and_parquet_read_the_same_as_csv(tmp_path: Path) -> None:
    table = hourly(500)
    table["noise"] = np.random.default_rng(0).standard_normal(500) * 1e-7
    path = write(tmp_path, table)
    plain = read_series(path)
    (tmp_path / "my.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    table.to_parquet(tmp_path / "text.parquet")
    plain.frame.to_parquet(tmp_path / "index.parquet")
    for name in ("my.csv.gz", "text.parquet", "index.parquet"):
        same(read_series(tmp_path / name), plain)
    same(series_from_frame(plain.frame), plain)
    same(series_from_frame(table), plain)


def test_constant_and_integer_columns_are_values(tmp_path: Path) -> None:
    frame = read_series(write(tmp_path, hourly().assign(load=3, oil=7.0))).frame
    assert frame.dtypes.tolist() == [np.float64, np.float64]
    assert frame.iloc[-1].tolist() == [3.0, 7.0]


def test_unsorted_rows_are_sorted_and_a_note_says_so(tmp_path: Path) -> None:
    table = hourly()
    swapped = table.iloc[[0, 2, 1, *range(3, 48)]]
    series = read_series(write(tmp_path, swapped))
    same(series, read_series(write(tmp_path, table)))
    assert read_series(write(tmp_path, swapped)).notes == ("1 row out of order: sorted by date",)


def test_the_input_frame_is_not_changed() -> None:
    frame = hourly().iloc[::-1]
    before = frame.copy()
    series_from_frame(frame)
    pd.testing.assert_frame_equal(frame, before)


def test_an_unnamed_row_counter_is_not_a_series(tmp_path: Path) -> None:
    hourly().to_csv(tmp_path / "counted.csv")
    series = read_series(tmp_path / "counted.csv")
    assert list(series.frame) == ["load", "oil"]
    assert series.notes[0] == "column 0 has no name and only counts the rows: left out"


@pytest.mark.parametrize("first", [1, 52_110])
@pytest.mark.parametrize("direction", [1, -1])
def test_a_named_row_counter_is_not_a_series_unless_it_is_named_as_a_target(first: int, direction: int) -> None:
    counter = direction * np.arange(first, first + 300)
    counter[-1] += 500  # the logger lost rows
    table = hourly(300).assign(RECORD=counter)
    series = series_from_frame(table)
    assert list(series.frame) == ["load", "oil"]
    assert "'RECORD' only counts the rows: left out, unless data.targets names it" in series.notes
    assert list(series_from_frame(table, columns=["RECORD", "load"]).frame) == ["RECORD", "load"]
    assert list(series_from_frame(table, covariates=["RECORD"]).frame) == ["load", "oil", "RECORD"]


def test_numbers_that_rise_are_no_counter_and_a_counter_alone_is_a_series() -> None:
    rows = len(hourly())
    meter = np.random.default_rng(0).integers(0, 3, rows).cumsum()
    assert list(series_from_frame(hourly().assign(meter=meter, step=2 * np.arange(rows))).frame) == [
        *("load", "oil", "meter", "step")
    ]
    assert list(series_from_frame(hourly()[["date"]].assign(a=np.arange(rows))).frame) == ["a"]


# --- files that are no table


def test_a_path_without_a_readable_file_is_refused(tmp_path: Path) -> None:
    refuse("no such file", tmp_path / "none.csv")
    refuse("no such file", tmp_path / "none.parquet")
    refuse("is a folder", tmp_path)
    (tmp_path / "my.pages").write_bytes(b"PK")
    refuse("only .csv, .csv.gz, .tsv", tmp_path / "my.pages")


BROKEN = {
    "is empty": b"",
    "is empty: choose": b"\n\n",
    "no rows below its header": b"date,load\n",
    "no rows below its header: add": b"date,load\n\n",
    "row 2: a zero byte: the file is binary": b"date,load\n2016\0",
    "row 2: not UTF-8": b"date,load\n2016-07-01,\xe4\xf6\xfc\xdf\n",
    "row 3: not UTF-8": "date,ä\n2016-07-01,1\n".encode() + b"2016-07-02,\xe4\n",
    "row 1: '01-Jul-2016 00:00' is data, not a column name": b"01-Jul-2016 00:00,1\n01-Jul-2016 01:00,2\n",
    "row 1: '2000-01' is data, not a column name": b"2000-01,100\n2000-02,101\n",
    "row 1: one column only": b"load\n1\n2\n",
    "row 2: 3 cells under 4 column names, of which one is empty": b"date,,load,note\n2016-07-01,1,x\n2016-07-02,1,x\n",
    "row 2: 3 cells under 2": b"date,load\n2016-07-01,1,5\n2016-07-02,1,5\n",
    "row 3: 3 cells where the header has 2": b"date,load\n2016-07-01,1\n2016-07-02,1,5\n",
    "row 3: a quotation mark": b'date,load\n2016-07-01,1\n2016-07-02,"1\n2016-07-03,1\n',
    "row 1: '2016-07-01' is data": b"2016-07-01,1\n2016-07-02,2\n",
    "row 1: column 'load' appears twice": b"date,load,load\n2016-07-01,1,2\n",
    "column 'oil', row 4: no value": b"date,load,oil\n2016-07-01,1,1\n2016-07-02,2,2\n2016-07-03,3",
}


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_file_is_refused_in_one_line(tmp_path: Path, message: str) -> None:
    path = tmp_path / "b ä[r=1].csv"
    path.write_bytes(BROKEN[message])
    refuse(message, path)


def test_a_broken_gzip_file_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"date,load\n" * 100)
    for name, content in (("cut.csv.gz", whole[:-9]), ("text.csv.gz", b"date,load\n")):
        (tmp_path / name).write_bytes(content)
        refuse("not a complete gzip file", tmp_path / name)
    (tmp_path / "text.parquet").write_bytes(b"date,load\n")
    refuse("cannot be read as Parquet", tmp_path / "text.parquet")


# --- columns


def test_a_missing_column_is_named_with_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path, hourly())
    refuse(r"no column 'laod' \(did you mean 'load'\?\), only date, load, oil.*data.targets", path, columns=["laod"])
    refuse("no column 'when'.*data.time_column", path, time_column="when")
    refuse("correct data.targets or the covariates", path, columns=["date"])
    refuse("correct data.targets", path, columns=["oil", "oil"])


def test_a_duplicate_column_of_a_frame_is_refused() -> None:
    refuse("'load' appears twice", hourly().set_axis(["date", "load", "load"], axis=1))


def test_only_one_column_of_dates_is_unambiguous(tmp_path: Path) -> None:
    table = hourly()
    refuse("no column holds dates .*'load', 'oil'.*data.time_column", write(tmp_path, table[["load", "oil"]]))
    path = write(tmp_path, table.assign(read=table["date"]))
    refuse("'date', 'read' all hold dates.*data.time_column", path)
    same(read_series(path, time_column="date", columns=["load", "oil"]), series_from_frame(table))
    refuse("row 2: .* number, not a date", write(tmp_path, table.assign(date=range(48))), time_column="date")


# --- single cells


@pytest.mark.parametrize("row", [2, 17, 49])
@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("", r"no value \(1 empty in total\)"),
        ("  ", r"no value \(1 empty in total\)"),
        ("nan", r"no value \(1 empty in total\)"),
        ("inf", "an infinite value"),
        ("-inf", "an infinite value"),
        ("high", "'high' is not a number"),
        ("1,5", "'1,5' is not a number"),
        ("1,23,4.5", "'1,23,4.5' is not a number"),
        ("=A1", "'=A1' is not a number"),
        ("3 kW", "'3 kW' is not a number"),
        ("1e39", r"1e\+39 is too large for float32"),
    ],
)
def test_a_bad_number_is_named_by_row_and_column(tmp_path: Path, row: int, cell: str, message: str) -> None:
    refuse(f"column 'oil', row {row}: {message}", planted(tmp_path, row, "oil", cell))


def test_the_number_of_missing_values_is_reported(tmp_path: Path) -> None:
    table = hourly()
    table.loc[[4, 9, 10], "oil"] = np.nan
    refuse(r"column 'oil', row 6: no value \(3 empty in total\): fill", write(tmp_path, table))


def test_booleans_are_refused_as_numbers(tmp_path: Path) -> None:
    refuse("column 'oil': holds true and false", write(tmp_path, hourly().assign(oil=True)))


@pytest.mark.parametrize("row", [2, 17, 49])
@pytest.mark.parametrize("cell", ["soon", "2016-13-01 00:00:00", "", "2016-02-30 00:00:00", "1467331200"])
def test_a_bad_date_is_named_by_row(tmp_path: Path, row: int, cell: str) -> None:
    refuse(f"column 'date', row {row}: .*(is not a|no date)", planted(tmp_path, row, "date", cell))


def test_rows_keep_their_numbers_when_the_file_is_unsorted_and_has_blank_lines(tmp_path: Path) -> None:
    path = write(tmp_path, hourly().iloc[::-1])
    lines = path.read_text().splitlines()
    lines[10:10] = ["", ""]
    lines[30] = lines[30].split(",")[0] + ",x,1"
    path.write_text("\n".join(lines))
    refuse("column 'load', row 31: 'x'", path)


# --- real files


def shared(name: str) -> Path:
    if not (SHARED / name).is_file():
        pytest.skip(f"{name} is not beside the project")
    return SHARED / name


def test_etth1_is_read_completely() -> None:
    series = read_series(shared("ETTh1.csv"), frequency="h", time_column="date")
    assert series.frame.shape == (17420, 7)
    assert series.frequency == "h"
    assert series.frame.index[-1] == pd.Timestamp("2018-06-26 19:00")
    assert series.frame["OT"].iloc[0] == 30.5310001373291


def test_pjme_is_refused_with_its_duplicate_hour() -> None:
    refuse("rows 112489 and 112490: both are at 2014-11-02 02:00:00 .4 duplicate", shared("PJME_hourly.csv"))
    table = pd.read_csv(shared("PJME_hourly.csv")).drop_duplicates("Datetime")
    refuse(
        r"is missing \(30 missing in total, at one row per hour; \d\d of them where clocks move to summer time\)", table
    )


@pytest.mark.parametrize("header", ['date,"load', '"date,load'], ids=["the header", "its first name"])
def test_an_unclosed_quotation_mark_in_a_long_file_is_an_error_of_one_line(tmp_path: Path, header: str) -> None:
    rows = "".join(f"2016-07-01 00:00:00,{place}\n" for place in range(10_000))
    (tmp_path / "my.csv").write_text(f"{header}\n{rows}")
    refuse("row 1: a quotation mark is never closed, or", tmp_path / "my.csv")
    (tmp_path / "my.csv").write_text(f'date,load\n2016-07-01,"1\n{rows}')
    refuse("row 2: a quotation mark is never closed", tmp_path / "my.csv")


@pytest.mark.parametrize("frequency", [None, "h"])
def test_a_table_without_rows_is_an_error_of_one_line(tmp_path: Path, frequency: str | None) -> None:
    indexed = hourly().set_index("date").set_index(pd.date_range("2016-07-01", periods=48, freq="h"))
    for table in (hourly().iloc[:0], indexed.iloc[:0]):
        refuse("has no rows below its header: add data", table, frequency=frequency)
    indexed.iloc[:0].to_parquet(tmp_path / "my.parquet")
    refuse("has no rows", tmp_path / "my.parquet", frequency=frequency)


@pytest.mark.parametrize("zone", ["Africa/Cairo", "America/Santiago", "America/Havana", "Europe/Berlin"])
def test_days_of_a_zone_that_skips_or_repeats_a_midnight_are_regular(zone: str) -> None:
    """As `resample("D")` and a grid on the wall write them: two years, with each change of the clock."""
    hours = pd.date_range("2023-01-01", "2024-12-31 23:00", freq="h", tz=zone)
    days = pd.Series(1.0, index=hours).resample("D").sum().to_frame("load")
    series = series_from_frame(days)
    assert (series.frequency, len(series.frame)) == ("D", 731)
    assert series.frame.index.tz_convert("UTC").equals(days.index.tz_convert("UTC"))


def test_the_step_of_the_rows_is_known_if_another_frequency_is_set() -> None:
    table = hourly()
    assert series_from_frame(table).shown is None
    assert series_from_frame(table, frequency="h").shown is None
    filled = series_from_frame(table.iloc[::2], frequency="h", policies=Policies(missing="ffill"))
    assert (filled.frequency, filled.shown, len(filled.frame)) == ("h", "2h", 47)


@pytest.mark.parametrize("mark", [" UTC", "UTC", " GMT"])
def test_utc_by_name_is_utc(mark: str) -> None:
    table = hourly()
    table["date"] = table["date"] + mark
    index = series_from_frame(table).frame.index
    assert (str(index.tz), index[1]) == ("UTC", pd.Timestamp("2016-07-01 01:00", tz="UTC"))
    table.loc[5, "date"] = "2016-07-01 05:00:00"
    refuse("row 7: '2016-07-01 05:00:00' has no UTC offset", table)
