import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.tables.times.frequency import frequency_offset
from tests.support.reading import series_from_frame


def frame(times: object) -> pd.DataFrame:
    index = pd.DatetimeIndex(times, name="date")
    return pd.DataFrame({"load": np.arange(len(index)) * 1.0}, index=index)


def refuse(message: str, times: object, frequency: str | None = None) -> None:
    with pytest.raises(InputError, match=message) as caught:
        series_from_frame(frame(times), frequency=frequency)
    assert "\n" not in str(caught.value)


ALIASES = ["s", "min", "10min", "15min", "30min", "90min", "h", "2h", "6h", "D", "2D", "B", "MS", "ME", "2MS"]
ALIASES += ["W-SUN", "W-WED", "2W-FRI", "QS-JAN", "QS-FEB", "QE-OCT", "QE-DEC", "YS-JAN", "YE-DEC", "BME", "BMS", "6MS"]


@pytest.mark.parametrize("alias", ALIASES)
def test_the_frequency_of_a_regular_index_is_found(alias: str) -> None:
    times = pd.date_range("2019-01-01 00:00", periods=40, freq=alias)
    assert series_from_frame(frame(times)).frequency == alias
    assert series_from_frame(frame(times), frequency=alias).frequency == alias


@pytest.mark.parametrize("alias", ALIASES)
def test_a_missing_row_is_named_at_every_frequency(alias: str) -> None:
    times = pd.date_range("2019-01-01 00:00", periods=40, freq=alias)
    message = rf"row 20: after {times[18]} the row for {times[19]} is missing \(2 missing in total"
    refuse(message, times.delete([19, 30]))
    refuse(message, times.delete([19, 30]), alias)


@pytest.mark.parametrize(
    ("given", "found"),
    [("H", "h"), ("60min", "h"), ("60T", "h"), ("3600s", "h"), ("T", "min"), ("d", "D"), ("24h", "D"), ("M", "ME")],
)
def test_names_of_the_same_step_become_one(given: str, found: str) -> None:
    times = pd.date_range("2019-01-31 00:00", periods=40, freq=found)
    assert series_from_frame(frame(times), frequency=given).frequency == found


def test_quarters_have_one_name_wherever_they_begin() -> None:
    for start in ("2019-01-01", "2019-04-01", "2019-10-01"):
        times = pd.date_range(start, periods=9, freq="QS-JAN")
        for given in ("QS", "QS-APR", "QS-OCT", None):
            assert series_from_frame(frame(times), frequency=given).frequency == "QS-JAN"


def test_weeks_take_their_day_from_the_data() -> None:
    times = pd.date_range("2019-01-02", periods=10, freq="7D")
    for given in ("W", "w", "7D", "W-WED", None):
        assert series_from_frame(frame(times), frequency=given).frequency == "W-WED"
    refuse("row 2: 2019-01-02 00:00:00 is off the grid of one row every W-SUN", times, "W-SUN")


@pytest.mark.parametrize("word", ["hourly", "", "0h", "-1h", "12", "x"])
def test_an_invalid_frequency_is_refused(word: str) -> None:
    with pytest.raises(InputError, match=r"data\.frequency .* is not a time step"):
        frequency_offset(word)


def test_a_frequency_that_disagrees_is_refused() -> None:
    hours = pd.date_range("2019-01-01", periods=10, freq="h")
    refuse("row 3: 2019-01-01 01:00:00 is off the grid of one row every 2h", hours, "2h")
    refuse(r"row 2: after .* the row for 2019-01-01 00:15:00 is missing \(27 missing.*data.frequency", hours, "15min")
    refuse("row 3: 2019-01-01 01:00:00 is off the grid", hours, "D")
    refuse("row 3: 2019-01-01 01:00:00 is off the grid", hours, "MS")
    refuse("off the grid of one row every MS", pd.date_range("2019-01-15", periods=5, freq="7D"), "MS")


@pytest.mark.parametrize("place", [0, 5, 9])
def test_a_shifted_row_is_named(place: int) -> None:
    times = pd.date_range("2019-01-01", periods=10, freq="h").to_list()
    times[place] += pd.Timedelta("17min")
    refuse(f"row {place + 2}: {times[place]} is off the grid of one row every h", times)


def test_a_shifted_month_is_named() -> None:
    times = pd.date_range("2019-01-01", periods=24, freq="MS").to_list()
    times[7] += pd.Timedelta("1D")
    refuse("row 9: 2019-08-02 00:00:00 is off the grid of one row every MS", times)


def test_duplicate_times_are_named_by_both_rows() -> None:
    times = pd.date_range("2019-01-01", periods=10, freq="h").to_list()
    refuse(r"rows 5 and 12: both are at 2019-01-01 03:00:00 \(1 duplicate", [*times, times[3]])


def test_too_few_rows_or_irregular_ones_need_a_named_frequency() -> None:
    hours = pd.date_range("2019-01-01", periods=2, freq="h")
    refuse("has 2 row.*data.frequency", hours)
    assert series_from_frame(frame(hours), frequency="h").frequency == "h"
    steps = np.random.default_rng(0).integers(1, 10_000, 50).cumsum()
    refuse(
        "irregular steps.*: correct the times, or train with data.resample=3h",
        pd.Timestamp("2019-01-01") + pd.to_timedelta(steps, unit="s"),
    )


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "+05:30"])
@pytest.mark.parametrize("alias", ["30min", "h", "D", "MS"])
def test_clock_changes_are_no_gaps_where_the_zone_is_known(zone: str, alias: str) -> None:
    times = pd.date_range("2021-01-01", periods=400 * 48 if alias == "30min" else 400, freq=alias, tz=zone)
    series = series_from_frame(frame(times))
    assert series.frequency == alias
    assert series.frame.index.equals(times.as_unit("ns"))


def test_local_time_without_offset_is_refused_at_the_clock_change() -> None:
    aware = pd.date_range("2021-10-30", periods=72, freq="h", tz="Europe/Berlin")
    refuse("both are at 2021-10-31 02:00:00", aware.tz_localize(None))
    aware = pd.date_range("2021-03-27", periods=72, freq="h", tz="Europe/Berlin")
    refuse("row for 2021-03-28 02:00:00 is missing", aware.tz_localize(None))


@pytest.mark.parametrize(
    ("frequency", "words"),
    [("h", "hour"), ("15min", "15 minutes"), ("D", "day"), ("W-SUN", "week"), ("QS-JAN", "QS-JAN")],
)
def test_a_missing_row_is_reported_with_the_step_in_words(frequency: str, words: str) -> None:
    times = pd.date_range("2019-01-01", periods=30, freq=frequency)
    refuse(rf"\(1 missing in total, at one row per {words}\)", times.delete(20), frequency)


def test_days_of_another_zone_are_told_what_to_write() -> None:
    berlin = pd.date_range("2024-03-01", periods=60, freq="D", tz="Europe/Berlin")
    words = "off the grid of one row every D: correct the time, or write the dates of the local clock"
    refuse(words, berlin.tz_convert("UTC"))


def test_a_table_that_is_mostly_missing_is_not_sent_to_a_policy_that_refuses_it() -> None:
    days = pd.date_range("2024-01-01", periods=40, freq="D")
    trading = pd.DatetimeIndex([day + pd.Timedelta(hour, "h") for day in days for hour in range(9, 17)])
    refuse("add the rows, or train with data.resample=1D .the mean of its rows.$", trading)


def test_missing_hours_of_clock_changes_are_named_only_if_they_are_most() -> None:
    times = pd.date_range("2019-01-01", "2020-12-31", freq="h")
    skipped = [times.get_loc(f"{day} 02:00") for day in ("2019-03-31", "2020-03-29")]
    refuse(r"\(3 missing .* per hour; 2 of them where clocks move to summer time\)", times.delete([*skipped, 90]))
    refuse(r"\(4 missing in total, at one row per hour\)", times.delete([*skipped, 90, 190]))
