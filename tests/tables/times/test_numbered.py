import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.tables.times.numbered import find_numbered_column, number_formats, read_numbers
from tests.support.reading import series_from_frame

HOURS = pd.date_range("2021-01-30", periods=100, freq="h").as_unit("ns")
DAYS = pd.date_range("2021-01-30", periods=100, freq="D").as_unit("ns")
MONTHS = pd.date_range("1990-01-01", periods=100, freq="MS").as_unit("ns")

WRITTEN: dict[str, tuple[pd.DatetimeIndex, np.ndarray]] = {
    "%Y": (pd.date_range("1900-01-01", periods=100, freq="YS"), np.arange(1900, 2000)),
    "%Y%m": (MONTHS, np.asarray(MONTHS.strftime("%Y%m").astype(int))),
    "%m.%Y": (MONTHS, np.asarray(MONTHS.strftime("%m.%Y").astype(float))),
    "%Y%m%d": (DAYS, np.asarray(DAYS.strftime("%Y%m%d").astype(int))),
    "%Y%m%d%H": (HOURS, np.asarray(HOURS.strftime("%Y%m%d%H").astype(int))),
    "%Y%m%d%H%M": (HOURS, np.asarray(HOURS.strftime("%Y%m%d%H%M").astype(int))),
    "%Y%m%d%H%M%S": (HOURS, np.asarray(HOURS.strftime("%Y%m%d%H%M%S").astype(int))),
    "epoch_s": (HOURS, HOURS.asi8 // 10**9),
    "epoch_ms": (HOURS, HOURS.asi8 // 10**6),
    "epoch_us": (HOURS, HOURS.asi8 // 10**3),
    "epoch_ns": (HOURS, HOURS.asi8),
    "excel": (HOURS, np.asarray((HOURS - pd.Timestamp("1899-12-30")) / pd.Timedelta("1D"))),
}


def table(numbers: np.ndarray, name: str = "time") -> pd.DataFrame:
    return pd.DataFrame({name: numbers, "load": np.arange(len(numbers)) % 7.0})


@pytest.mark.parametrize("word", WRITTEN)
def test_numbers_are_found_by_their_range_and_the_option_in_the_note_reads_the_same(word: str) -> None:
    times, numbers = WRITTEN[word]
    found = series_from_frame(table(numbers))
    assert found.frame.index.tolist() == times.tolist()
    assert f"(data.date_format={word})" in found.notes[-1]
    assert found.time_format.date_format == word
    named = series_from_frame(table(numbers, "n"), time_column="n", date_format=word)
    assert named.frame.index.tolist() == times.tolist()


def test_newest_rows_first_and_seconds_with_a_fraction_are_read() -> None:
    numbers = HOURS.asi8[::-1] / 10**9 + 0.5
    assert series_from_frame(table(numbers)).frame.index[0] == HOURS[0] + pd.Timedelta("500ms")


COUNTS = {
    "a counter": np.arange(20190101, 20190201),
    "counts": 20190101 + 3 * np.arange(100) ** 2,
    "a counter from 1,900": np.arange(1900, 2000),
    "serial numbers": np.arange(40000, 40100),
    "small numbers": np.arange(100),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_never_become_times(name: str) -> None:
    assert find_numbered_column(table(COUNTS[name], "visitors"), (), None) is None
    with pytest.raises(InputError, match="no column holds dates"):
        series_from_frame(table(COUNTS[name], "visitors"))


def test_a_first_column_without_a_name_of_time_is_read_if_only_a_calendar_explains_it() -> None:
    _, numbers = WRITTEN["%Y%m%d"]
    assert find_numbered_column(table(numbers, "x"), (), None) == "x"
    assert find_numbered_column(table(numbers, "x")[["load", "x"]], (), None) is None


def test_a_refusal_of_numbers_names_both_options_and_they_read_the_file() -> None:
    times, numbers = WRITTEN["%Y%m%d"]
    given = table(numbers, "key")[["load", "key"]]
    with pytest.raises(InputError, match=r"set data\.time_column=key data\.date_format=%Y%m%d, else"):
        series_from_frame(given)
    series = series_from_frame(given, time_column="key", date_format="%Y%m%d")
    assert series.frame.index.tolist() == times.tolist()


def test_numbers_that_may_be_two_kinds_of_dates_are_refused_with_both() -> None:
    numbers = np.array([200001010100, 200001010200, 200001010300])  # one day: nothing shows the calendar
    assert number_formats(pd.Series(numbers)) == ["%Y%m%d%H%M", "epoch_ms"]
    with pytest.raises(InputError, match=r"data\.date_format=%Y%m%d%H%M or data\.date_format=epoch_ms"):
        series_from_frame(table(numbers), time_column="time")


def test_a_date_format_alone_finds_the_column_of_numbers() -> None:
    _, numbers = WRITTEN["%Y%m%d"]
    assert series_from_frame(table(numbers, "date"), date_format="%Y%m%d").frame.index.tolist() == DAYS.tolist()


def test_a_number_that_does_not_fit_is_no_time() -> None:
    assert read_numbers(pd.Series([20190230, 20190228]), "%Y%m%d").isna().tolist() == [True, False]
    assert read_numbers(pd.Series([2.0**62, 0.0]), "epoch_s").isna().tolist() == [True, False]
    assert read_numbers(pd.Series([59, 44197.5]), "excel").tolist()[1] == pd.Timestamp("2021-01-01 12:00")
