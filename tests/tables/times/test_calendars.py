"""Calendars that are regular for people are found, named, and continued."""

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data.calendar import calendar_cycles, earlier_index, future_index, season_name, seasonal_period
from forecast.data.contract import DataContract
from forecast.data.holidays import Holidays
from forecast.tables.repair import Policies
from forecast.tables.times.calendars import calendar_named
from forecast.tables.times.frequency import frequency_offset
from tests.support.contracts import contract_of
from tests.support.reading import series_from_frame

DAY = pd.Timedelta(1, "D")


def frame(times: pd.DatetimeIndex) -> pd.DataFrame:
    return pd.DataFrame({"load": np.arange(len(times)) * 1.0}, index=times.rename("date"))


def months(*days: int, step: int = 1, start: str = "2003-01-01", count: int = 60) -> pd.DatetimeIndex:
    """Return these days of each month, or its last day in a shorter month."""
    starts = pd.date_range(start, periods=count, freq=f"{step}MS")
    return pd.DatetimeIndex([first + (min(day, first.days_in_month) - 1) * DAY for first in starts for day in days])


def weekly(*weekdays: int) -> pd.DatetimeIndex:
    days = pd.date_range("2018-01-01", periods=140, freq="D")
    return days[days.day_of_week.isin(weekdays)]


def restarting(step: int) -> pd.DatetimeIndex:
    """Return every so many days of each year, from 1 January on."""
    days = [pd.Timestamp(year, 1, 1) + day * DAY for year in range(2003, 2007) for day in range(0, 365, step)]
    return pd.DatetimeIndex(days)


CALENDARS = {
    "month-30": (months(30), 12, "12 months"),
    "month-15": (months(15) + pd.Timedelta(6, "h"), 12, "12 months"),
    "month-28": (months(28), 12, "12 months"),
    "month-1-11-21": (months(1, 11, 21), 36, "1 year"),
    "month-10-20-31": (months(10, 20, 31), 36, "1 year"),
    "month-1-16": (months(1, 16), 24, "1 year"),
    "month-15-31": (months(15, 31), 24, "1 year"),
    "month-7-14-21-28": (months(7, 14, 21, 28), 48, "1 year"),
    "3month-15-FEB": (months(15, step=3, start="2003-05-01"), 4, "12 months"),
    "6month-30-MAR": (months(30, step=6, start="2003-03-01"), 2, "12 months"),
    "12month-15-JUN": (months(15, step=12, start="2003-06-01", count=20), 1, "12 months"),
    "8D-year": (restarting(8), 46, "1 year"),
    "16D-year": (restarting(16), 23, "1 year"),
    "5D-year": (restarting(5), 73, "1 year"),
    "week-mon-tue-wed-thu-fri-sat": (weekly(0, 1, 2, 3, 4, 5), 6, "1 week"),
    "week-mon-tue-wed-thu-sun": (weekly(0, 1, 2, 3, 6), 5, "1 week"),
    "week-mon-wed-fri": (weekly(0, 2, 4), 3, "1 week"),
    "week-sat-sun": (weekly(5, 6), 2, "1 week"),
}


@pytest.mark.parametrize("name", CALENDARS)
def test_a_calendar_of_people_is_found_and_continued(name: str) -> None:
    times, season, words = CALENDARS[name]
    series = series_from_frame(frame(times[:-9]))
    assert series.frequency == name
    assert series.notes == ()
    assert series.frame.index.equals(times[:-9].as_unit("ns"))
    assert future_index(series.frame.index, name, 9).equals(times[-9:].as_unit("ns"))
    assert earlier_index(times[9:], name, 9).equals(times[:9].as_unit("ns"))
    assert (seasonal_period(name), season_name(season, name)) == (season, words)
    assert bool(calendar_cycles(name)) == (season > 1)
    assert series_from_frame(frame(times[:4]), frequency=name.upper()).frequency == name


@pytest.mark.parametrize("name", CALENDARS)
def test_a_missing_day_of_a_calendar_is_named_and_filled(name: str) -> None:
    times, _, _ = CALENDARS[name]
    table = frame(times).drop(index=times[len(times) // 2])
    with pytest.raises(InputError, match=rf"the row for {times[len(times) // 2]} is missing \(1 missing in total"):
        series_from_frame(table, frequency=name)
    series = series_from_frame(table, frequency=name, policies=Policies(missing="ffill"))
    assert series.frame.index.equals(times.as_unit("ns"))


@pytest.mark.parametrize("name", CALENDARS)
def test_a_contract_keeps_a_calendar_by_its_name(name: str) -> None:
    contract = contract_of(frequency=name)
    again = DataContract.from_dict(contract.to_dict(), contract.context_length, contract.horizon)
    assert again.frequency == name
    assert frequency_offset(again.frequency) == calendar_named(name)


@pytest.mark.parametrize(
    "name", ["month-0", "month-32", "month-29-31", "5month-3-JAN", "month-3-JAN", "3month-3", "1D-year"]
)
def test_a_name_of_no_calendar_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"data\.frequency .* is not a time step"):
        frequency_offset(name)


def test_a_step_of_pandas_comes_first() -> None:
    for name in ("MS", "ME", "QS-FEB", "BME", "B", "W-WED", "D"):
        times = pd.date_range("2018-01-01", periods=120, freq=name)
        assert series_from_frame(frame(times)).frequency == name


def test_days_with_a_stray_one_are_no_calendar() -> None:
    times = months(30).to_list()
    times[7] += DAY
    with pytest.raises(InputError, match=r"irregular steps .*: correct the times, or train with data\.resample=MS"):
        series_from_frame(frame(pd.DatetimeIndex(times)))


def test_a_step_far_beyond_the_calendar_of_pandas_is_refused() -> None:
    for horizon in (10_000, 1_000_000):
        with pytest.raises(InputError, match="go beyond the year 2262"):
            future_index(pd.Timestamp("2020-01-30"), "month-30", horizon)


# --- holidays


def business_days(*absent: str) -> pd.DatetimeIndex:
    days = pd.date_range("2018-01-02", "2018-12-31", freq="B")
    return days[~days.isin(pd.DatetimeIndex(absent))]


NEW_YORK = ("2018-01-15", "2018-02-19", "2018-03-30", "2018-05-28", "2018-07-04", "2018-09-03", "2018-12-25")


def test_holidays_of_an_exchange_are_no_missing_rows() -> None:
    times = business_days(*NEW_YORK)
    series = series_from_frame(frame(times))
    assert series.frequency == "B-holidays"
    assert series.frame.index.equals(times.as_unit("ns"))
    assert series.notes == (
        "7 business days without a row count as holidays, and a step is a row (data.frequency=B-holidays); if rows are "
        "missing, set data.frequency=B",
    )
    ahead = future_index(series.frame.index, "B-holidays", 5)
    assert ahead.equals(pd.date_range("2019-01-01", periods=5, freq="B").as_unit("ns"))


def test_business_days_that_do_not_look_like_holidays_are_missing() -> None:
    table = frame(business_days("2018-02-06", "2018-06-13"))
    words = r"train with data\.frequency=B-holidays if days without a row are holidays, else with data\.missing=mask$"
    with pytest.raises(InputError, match=words):
        series_from_frame(table)
    assert series_from_frame(table, frequency="B-holidays").frequency == "B-holidays"
    masked = series_from_frame(table, policies=Policies(missing="mask"))
    assert (masked.frequency, len(masked.frame)) == ("B", len(table) + 2)


def test_the_holidays_of_a_named_step_and_of_a_policy_are_missing_rows() -> None:
    table = frame(business_days(*NEW_YORK))
    with pytest.raises(InputError, match=r"after 2018-01-12 00:00:00 the row for 2018-01-15 00:00:00 is missing"):
        series_from_frame(table, frequency="B")
    masked = series_from_frame(table, policies=Policies(missing="mask"))
    assert (masked.frequency, len(masked.frame)) == ("B", len(table) + len(NEW_YORK))


def test_closed_sundays_and_a_holiday_make_a_week_of_six_days() -> None:
    days = pd.date_range("2018-01-01", "2018-12-31", freq="D")
    closed = days[(days.day_of_week < 6) & ~days.isin(pd.DatetimeIndex(["2018-05-01", "2018-04-02"]))]
    assert series_from_frame(frame(closed)).frequency == "week-mon-tue-wed-thu-fri-sat-holidays"
    masked = series_from_frame(frame(closed), policies=Policies(missing="mask"))
    assert masked.frequency == "D"  # as without the calendar


def test_a_day_that_is_no_business_day_is_named() -> None:
    times = business_days().append(pd.DatetimeIndex(["2019-01-05"]))
    with pytest.raises(InputError, match="row 262: 2019-01-05 00:00:00 is off the grid of one row every B-holidays"):
        series_from_frame(frame(times), frequency="B-holidays")


def test_holidays_are_an_input_of_a_week_of_six_days() -> None:
    Holidays("DE", 0, 0).check_frequency("week-mon-tue-wed-thu-fri-sat")
    with pytest.raises(InputError, match="rows every month-30 span more than a day"):
        Holidays("DE", 0, 0).check_frequency("month-30")


# --- days at changing hours


def test_a_reading_a_day_at_changing_hours_counts_as_its_day() -> None:
    days = pd.date_range("2020-02-01", periods=200, freq="D")
    minutes = np.random.default_rng(1).integers(5 * 60, 9 * 60, 200)
    minutes[:2] = 300, 510
    times = days + pd.to_timedelta(minutes, unit="min")
    series = series_from_frame(frame(times))
    assert series.frequency == "D"
    assert series.frame.index.equals(days.as_unit("ns"))
    (note,) = series.notes
    assert note.startswith("the times of day are 05:00:00 to 08:5")
    assert note.endswith(": each day has one row, and the day counts")
    named = series_from_frame(frame(times[:5]), frequency="D")
    assert named.frame.index.equals(days[:5].as_unit("ns"))


def test_two_readings_a_day_and_midnights_of_another_zone_are_no_days() -> None:
    days = pd.date_range("2020-01-02", periods=200, freq="D")
    late = days - pd.to_timedelta(np.where(days.month.isin([4, 5, 6]), 2, 1), unit="h")
    with pytest.raises(InputError, match="off the grid of one row every D"):
        series_from_frame(frame(late))
    twice = pd.DatetimeIndex([day + pd.Timedelta(hour, "h") for day in days for hour in (7 + day.day % 3, 15)])
    with pytest.raises(InputError, match=r"irregular steps.*train with data\.resample=1D"):
        series_from_frame(frame(twice))
