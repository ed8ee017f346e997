"""A column of dates and one of hours make the time."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data.settings import DataSettings
from forecast.data.sources import load_source
from forecast.tables.series import Series
from forecast.tables.times.time_format import TimeFormat
from tests.support.examples import real_file
from tests.support.reading import series_from_frame
from tests.support.small import compose, write

BOTH = TimeFormat(("Date", "Hour"))


def table(first: int = 0, rows: int = 96, start: str = "2004-02-27") -> pd.DataFrame:
    """Return hours from midnight on, numbered from `first`, with their dates as text."""
    times = pd.date_range(start, periods=rows, freq="h")
    return pd.DataFrame(
        {"Date": times.strftime("%Y-%m-%d"), "Hour": times.hour + first, "load": np.arange(rows) + 0.5, "T": 20.0}
    )


def refused(given: pd.DataFrame, time_format: TimeFormat = BOTH) -> str:
    with pytest.raises(InputError) as caught:
        series_from_frame(given, source="mine.csv", time_format=time_format)
    assert "\n" not in str(caught.value)
    return str(caught.value)


DATES: dict[str, tuple[str | None, Callable[[pd.Series], object]]] = {
    "text": (None, lambda day: day),
    "American": ("%m/%d/%y", lambda day: pd.to_datetime(day).dt.strftime("%m/%d/%y")),
    "German": ("%d.%m.%Y", lambda day: pd.to_datetime(day).dt.strftime("%d.%m.%Y")),
    "numbers": ("%Y%m%d", lambda day: pd.to_datetime(day).dt.strftime("%Y%m%d").astype(int)),
    "datetimes": (None, pd.to_datetime),
    "dates": (None, lambda day: pd.to_datetime(day).dt.date),
}


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("hours", ["int64", "float64", "str"])
@pytest.mark.parametrize("name", DATES)
def test_dates_and_hours_are_the_same_as_one_column_of_times(name: str, hours: str, first: int) -> None:
    date_format, write_dates = DATES[name]
    given = table(first)
    given["Date"], given["Hour"] = write_dates(given["Date"]), given["Hour"].astype(hours)
    series = series_from_frame(given, time_format=TimeFormat(("Date", "Hour"), date_format))
    times = pd.date_range("2004-02-27", periods=96, freq="h", name="Date")
    expected = series_from_frame(table()[["load", "T"]].set_index(times))
    pd.testing.assert_frame_equal(series.frame, expected.frame, check_exact=True)
    words = "hours 1 to 24: hour 1 begins at 00:00" if first else "hours 0 to 23"
    assert series.notes == (f"times were made of 'Date' and 'Hour' ({words})",)
    assert series.time_format == TimeFormat(("Date", "Hour"), date_format, first)


def test_the_last_hour_of_1_to_24_is_on_its_own_date() -> None:
    given = table(1).iloc[23:]
    assert (given["Date"].iloc[0], given["Hour"].iloc[0]) == ("2004-02-27", 24)
    assert series_from_frame(given, time_format=BOTH).frame.index[0] == pd.Timestamp("2004-02-27 23:00")


@pytest.mark.parametrize("order", [1, -1])
def test_one_hour_of_all_decides_the_numbering(order: int) -> None:
    morning = table(1).iloc[23:40].iloc[::order]
    assert series_from_frame(morning, time_format=BOTH).time_format.first_hour == 1
    assert "holds neither 0 nor 24" in refused(morning[morning["Hour"] != 24])


def test_rows_that_are_left_out_decide_the_numbering_as_well() -> None:
    given = table(1)
    given.loc[90:, "load"] = np.nan  # hour 24 of the last day has no value
    given.loc[given["Hour"].eq(24) & (given.index < 90), "Hour"] = 23
    given = given.drop_duplicates(["Date", "Hour"])
    series = series_from_frame(given, columns=["load"], frequency="h", time_format=BOTH, last_rows=10)
    assert series.frame.index[-1] == pd.Timestamp("2004-03-01 17:00")


def test_a_known_first_hour_reads_a_part_of_a_day_and_refuses_the_other_numbering() -> None:
    known = TimeFormat(("Date", "Hour"), first_hour=1)
    assert series_from_frame(table(1).iloc[3:9], time_format=known).frame.index[0] == pd.Timestamp("2004-02-27 03:00")
    text = refused(table(0), known)
    assert text == (
        "mine.csv, column 'Hour', row 2: '0' is not an hour (4 such cells): write whole numbers from 1 to 24, as in "
        "training"
    )


WRONG: dict[str, tuple[str, int, object, str]] = {
    "fraction": ("Hour", 5, 2.5, r"column 'Hour', row 5: '2.5' is not an hour .1 such cells.*0 to 23 or from 1 to 24"),
    "above": ("Hour", 40, 25, "column 'Hour', row 40: '25' is not an hour"),
    "below": ("Hour", 40, -1, "column 'Hour', row 40: '-1' is not an hour"),
    "infinite": ("Hour", 40, np.inf, "column 'Hour', row 40: 'inf' is not an hour"),
    "clock": ("Hour", 7, "05:00", "column 'Hour', row 7: '05:00' is not an hour"),
    "empty": ("Hour", 7, np.nan, "column 'Hour', row 7: no hour"),
    "blank": ("Hour", 7, " ", "column 'Hour', row 7: no hour"),
    "both": ("Hour", 25, 24, "column 'Hour': holds both 0 and 24: number the hours"),
    "no date": ("Date", 7, "", "column 'Date', row 7: no date"),
    "time of day": ("Date", 7, "2004-02-27 05:00", "column 'Date', row 7: 2004-02-27 05:00:00 has a time of day"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_cell_is_refused_by_its_row(name: str) -> None:
    column, row, cell, message = WRONG[name]
    given = table().astype(object)
    given.loc[row - 2, column] = cell
    with pytest.raises(InputError, match=f"^mine.csv, {message}"):
        series_from_frame(given, source="mine.csv", time_format=BOTH)


def test_rows_keep_their_numbers_below_blank_rows() -> None:
    given = table().astype(object)
    given.loc[3] = np.nan
    given.loc[9, "Hour"] = 30
    assert refused(given).startswith("mine.csv, column 'Hour', row 11: '30'")
    given = given.drop(index=9)
    given.loc[96] = ["2004-02-27", 3, 3.5, 20.0]
    series = series_from_frame(given, frequency="h", time_format=BOTH, last_rows=80)
    assert series.notes[:2] == (
        "1 blank rows were left out",
        "the first 15 rows were left out: data.last_rows=80 begins at 2004-02-27 16:00:00",
    )


def test_a_column_without_a_name_is_left_out_beside_two_of_the_time() -> None:
    given = table().assign(**{"Unnamed: 4": np.nan})
    assert list(series_from_frame(given, time_format=BOTH).frame) == ["load", "T"]


def test_a_missing_column_is_refused_with_the_nearest_name() -> None:
    text = refused(table().rename(columns={"Hour": "hour"}))
    assert (
        text
        == "mine.csv has no column 'Hour' (did you mean 'hour'?), only Date, hour, load, T: correct data.time_columns"
    )
    assert "has no column 'Date'" in refused(table().drop(columns="Date"))


def test_a_doubled_hour_and_a_missing_one_are_found_in_the_joined_times() -> None:
    assert "rows 5 and 6: both are at 2004-02-27 03:00:00" in refused(table().replace({"Hour": {4: 3}}).iloc[:20])
    assert "after 2004-02-27 03:00:00 the row for 2004-02-27 04:00:00 is missing" in refused(table().drop(index=4))


# --- the options


def parse(*words: str) -> DataSettings:
    return DataSettings.parse(compose("data=csv", *words)["data"])


def load(path: Path, *words: str) -> Series:
    return load_source(parse(f"data.path={path}", *words)).series


@pytest.mark.parametrize("columns", ["[Date]", "[]", "[Date,Date]", "[Date,Date,Hour]"])
def test_time_columns_are_two_names_or_more(columns: str) -> None:
    with pytest.raises(InputError, match=r"^data\.time_columns=\[.*: name two columns or more, such as \[Date,Hour\]"):
        parse("data.path=my.csv", f"data.time_columns={columns}")


def test_time_columns_and_a_time_column_exclude_each_other() -> None:
    for words in (["data=csv", "data.path=my.csv", "data.time_column=date"], ["data=weather"]):
        with pytest.raises(
            InputError, match=r"^data\.time_column and data\.time_columns are both set: set one of them"
        ):
            DataSettings.parse(compose(*words, "data.time_columns=[Date,Hour]")["data"])
    DataSettings.parse(compose("data=weather", "data.time_column=null", "data.time_columns=[Date,Hour]")["data"])


@pytest.mark.parametrize("role", ["targets", "past_covariates", "known_covariates"])
def test_a_column_of_the_time_has_no_other_role(role: str) -> None:
    with pytest.raises(InputError, match=rf"^data\.{role} and data\.time_columns both name Hour: choose one role"):
        parse("data.path=my.csv", "data.time_columns=[Date,Hour]", f"data.{role}=[T,' Hour']")


def test_an_hour_in_a_separate_column_is_found_and_its_option_reads_the_same(tmp_path: Path) -> None:
    given = table(1, rows=40 * 24)
    given["load"] += np.arange(len(given)) % 7
    path = write(tmp_path / "my.csv", given)
    found, named = load(path), load(path, "data.time_columns=[Date,Hour]")
    assert found.notes[0] == "the time is in 2 columns (data.time_columns=[Date,Hour])"
    assert named.frame.shape == (960, 2)
    pd.testing.assert_frame_equal(found.frame, named.frame)


def test_a_date_format_acts_or_is_refused(tmp_path: Path) -> None:
    given = table()
    given["Date"] = pd.to_datetime(given["Date"]).dt.strftime("%m/%d/%y")
    words = ["data.time_columns=[Date,Hour]", "data.date_format=%m/%d/%y"]
    assert load(write(tmp_path / "my.csv", given), *words).time_format.date_format == "%m/%d/%y"
    given["Date"] = pd.to_datetime(given["Date"], format="%m/%d/%y")
    given.to_parquet(tmp_path / "my.parquet")
    with pytest.raises(
        InputError, match=r"my\.parquet, column 'Date': holds dates, not text: set data\.date_format=null"
    ):
        load(tmp_path / "my.parquet", *words)
    assert load(tmp_path / "my.parquet", words[0]).frame.shape == (96, 2)


def test_the_real_file_of_dates_and_hours_is_read_from_its_first_load_on() -> None:
    path = real_file("GEFCom2014-E.csv")
    words = [
        "data.time_columns=[Date,Hour]",
        "data.date_format=%m/%d/%y",
        "data.targets=[load]",
        "data.past_covariates=[T]",
    ]
    with pytest.raises(InputError, match=r"column 'load', row 2: no value \(17544 empty in total\)"):
        load(path, *words)
    series = load(path, *words, "data.last_rows=78888")
    assert series.frame.shape == (9 * 8760 + 2 * 24, 2)
    assert (series.frequency, str(series.frame.index[0])) == ("h", "2006-01-01 00:00:00")
    assert str(series.frame.index[-1]) == "2014-12-31 23:00:00"
    assert series.frame.iloc[-1].tolist() == [3345, 15.33]
