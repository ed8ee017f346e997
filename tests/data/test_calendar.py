import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data.calendar import (
    calendar_cycles,
    calendar_features,
    check_cycles,
    earlier_index,
    future_index,
    season_name,
    seasonal_period,
    span_of,
)

FREQUENCIES = ["min", "5min", "15min", "30min", "h", "2h", "6h", "D", "B", "W-SUN", "W-WED", "MS", "ME", "BMS", "BME"]
FREQUENCIES += ["2MS", "QS-OCT", "QE-DEC", "YS-JAN", "SME"]
SEASONS = {"s": 86400, "min": 1440, "10min": 144, "15min": 96, "30min": 48, "h": 24, "2h": 12, "6h": 4, "D": 7}
SEASONS |= {"B": 5, "W-SUN": 52, "2W-SUN": 26, "MS": 12, "ME": 12, "BMS": 12, "2MS": 6, "QS-JAN": 4, "QE-DEC": 4}
SEASONS |= {"100us": 864_000_000, "600us": 144_000_000, "1500us": 57_600_000, "2500us": 34_560_000}
SEASONS |= {"YS-JAN": 1, "YE-DEC": 1, "5h": 24, "7h": 24, "2D": 7, "SME": 24, "H": 24, "90min": 16}


@pytest.mark.parametrize("frequency", SEASONS)
def test_the_season_of_each_step(frequency: str) -> None:
    assert seasonal_period(frequency) == SEASONS[frequency]


@pytest.mark.parametrize(
    ("frequency", "cycles"),
    [
        ("min", "minute_of_hour hour_of_day day_of_week day_of_year"),
        ("15min", "minute_of_hour hour_of_day day_of_week day_of_year"),
        ("h", "hour_of_day day_of_week day_of_year"),
        ("D", "day_of_week day_of_month day_of_year"),
        ("B", "day_of_week day_of_month day_of_year"),
        ("W-SUN", "day_of_month day_of_year"),
        ("MS", "month_of_year"),
        ("QS-JAN", "month_of_year"),
        ("YS-JAN", ""),
    ],
)
def test_the_cycles_are_those_that_the_step_can_show(frequency: str, cycles: str) -> None:
    assert calendar_cycles(frequency) == tuple(cycles.split())


@pytest.mark.parametrize(("days", "cycles"), [(730, 3), (729, 2), (60, 2), (59, 1), (14, 1), (13, 0)])
def test_a_cycle_not_seen_twice_is_left_out(days: int, cycles: int) -> None:
    every = ("day_of_week", "day_of_month", "day_of_year")
    assert calendar_cycles("D", pd.Timedelta(days=days)) == every[:cycles]


@pytest.mark.parametrize("frequency", FREQUENCIES)
def test_features_of_every_frequency_are_on_the_unit_circle_and_distinguish_times(frequency: str) -> None:
    index = pd.date_range("2001-01-01", periods=200, freq=frequency)
    features = calendar_features(index, calendar_cycles(frequency))
    assert features.dtype == np.float32
    assert features.shape == (200, 2 * len(calendar_cycles(frequency)))
    np.testing.assert_allclose(features[:, ::2] ** 2 + features[:, 1::2] ** 2, 1, atol=1e-6)
    assert frequency == "YS-JAN" or len(np.unique(features.round(5), axis=0)) > 3


def test_the_hour_turns_as_a_clock_does() -> None:
    index = pd.to_datetime(["2023-01-02 00:00", "2023-01-02 06:00", "2023-01-02 12:00", "2023-01-02 18:00"])
    expected = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])
    np.testing.assert_allclose(calendar_features(index, ["hour_of_day"]), expected, atol=1e-6)
    monday = calendar_features(index, ["hour_of_day", "day_of_week"])[:, 2:]
    np.testing.assert_allclose(monday, np.tile([0, 1], (4, 1)), atol=1e-6)


@pytest.mark.parametrize(
    ("cycle", "time", "turned"),
    [
        ("second_of_minute", "2023-05-03 10:20:15", 15 / 60),
        ("minute_of_hour", "2023-05-03 10:15:30", 15.5 / 60),
        ("hour_of_day", "2023-05-03 09:30", 9.5 / 24),
        ("day_of_week", "2023-05-04 23:00", 3 / 7),  # a Thursday
        ("day_of_month", "2023-02-15", 14 / 28),
        ("day_of_year", "2023-04-01", 90 / 365),
        ("day_of_year", "2024-04-01", 91 / 366),
        ("month_of_year", "2023-07-31", 6 / 12),
    ],
)
def test_each_cycle_turns_by_its_share_of_the_circle(cycle: str, time: str, turned: float) -> None:
    features = calendar_features(pd.DatetimeIndex([time]), [cycle])
    angle = 2 * np.pi * turned
    np.testing.assert_allclose(features, [[np.sin(angle), np.cos(angle)]], atol=1e-6)


def test_later_rows_and_their_order_change_no_feature() -> None:
    index = pd.date_range("2023-01-01", periods=200, freq="h")
    cycles = calendar_cycles("h")
    whole = calendar_features(index, cycles)
    np.testing.assert_array_equal(calendar_features(index[:100], cycles), whole[:100])
    np.testing.assert_array_equal(calendar_features(index[::-1], cycles), whole[::-1])


def test_an_unknown_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown calendar cycle 'tide': choose from second_of_minute"):
        calendar_features(pd.date_range("2023", periods=3, freq="h"), ["tide"])


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("frequency", FREQUENCIES)
def test_the_future_goes_on_one_step_after_the_last_row(frequency: str, zone: str | None) -> None:
    index = pd.date_range("2023-01-01", periods=120, freq=frequency, tz=zone)
    future = future_index(index[99], frequency, 20)
    assert future.tolist() == index[100:].tolist()
    assert future_index(index[99].as_unit("s"), frequency, 1).tolist() == [index[100]]


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("frequency", FREQUENCIES)
def test_earlier_times_end_one_step_before_the_first_row(frequency: str, zone: str | None) -> None:
    index = pd.date_range("2023-01-01", periods=120, freq=frequency, tz=zone).as_unit("ns")
    for count in (1, 20):
        assert earlier_index(index[20:], frequency, count).tolist() == index[20 - count : 20].tolist()


def test_a_first_row_off_the_grid_is_preceded_by_a_time_on_it() -> None:
    earlier = earlier_index(pd.DatetimeIndex(["2024-03-15"]), "MS", 2)
    assert earlier.tolist() == [pd.Timestamp("2024-02-01"), pd.Timestamp("2024-03-01")]


def test_earlier_times_beyond_the_range_of_times_are_an_error_of_one_line() -> None:
    with pytest.raises(InputError, match=r"^96 steps of YS-JAN before 1700-01-01 00:00:00 begin before 1678"):
        earlier_index(pd.DatetimeIndex(["1700-01-01"]), "YS-JAN", 96)


def test_a_horizon_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="horizon 0"):
        future_index(pd.Timestamp("2023-01-01"), "h", 0)


def test_cycles_that_a_user_names_are_taken_as_named() -> None:
    assert check_cycles([], "h") == ()
    assert check_cycles(["day_of_year", "hour_of_day", "day_of_month"], "h") == (
        "day_of_year",
        "hour_of_day",
        "day_of_month",
    )


@pytest.mark.parametrize(
    ("names", "frequency", "message"),
    [
        (["tide"], "h", "unknown cycle 'tide': choose from second_of_minute"),
        (["minute_of_hour"], "h", "rows every h cannot show minute_of_hour"),
        (["hour_of_day"], "D", "rows every D cannot show hour_of_day"),
        (["hour_of_day", "hour_of_day"], "h", "names hour_of_day twice"),
    ],
)
def test_cycles_that_no_row_shows_are_refused(names: list[str], frequency: str, message: str) -> None:
    with pytest.raises(InputError, match=f"data.calendar.*{message}"):
        check_cycles(names, frequency)


@pytest.mark.parametrize(
    ("last", "begins"),
    [
        ("2024-04-24", "2024-04-26 01:00"),  # the clock of Cairo goes from 0 to 1
        ("2024-04-26 01:00", "2024-04-27 00:00"),
    ],
)
def test_a_day_without_a_midnight_begins_when_the_clock_goes_on(last: str, begins: str) -> None:
    future = future_index(pd.Timestamp(last, tz="Africa/Cairo"), "D", 5)
    assert pd.Timestamp(begins, tz="Africa/Cairo") in future
    assert list(future.date) == list(pd.date_range(last, periods=6, freq="D").date[1:])


def test_a_day_with_two_midnights_begins_at_the_first() -> None:
    future = future_index(pd.Timestamp("2024-11-01", tz="America/Havana"), "D", 4)
    assert future[1] == pd.Timestamp("2024-11-03 04:00", tz="UTC")
    assert [str(each) for each in future.date] == ["2024-11-02", "2024-11-03", "2024-11-04", "2024-11-05"]


def test_a_future_beyond_the_range_of_times_is_an_error_of_one_line() -> None:
    with pytest.raises(InputError, match=r"^96 steps of YS-JAN after 2200-01-01 00:00:00 go beyond the year 2262"):
        future_index(pd.Timestamp("2200-01-01"), "YS-JAN", 96)


@pytest.mark.parametrize(
    ("frequency", "rows", "cycle"),
    [("MS", 24, "month_of_year"), ("QS-OCT", 8, "month_of_year"), ("B", 10, "day_of_week"), ("D", 14, "day_of_week")],
)
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_two_whole_cycles_are_two_and_a_row_less_is_not(
    frequency: str, rows: int, cycle: str, zone: str | None
) -> None:
    """From a Monday, the first of a quarter; the days over a change of the clock."""
    start = "2024-03-25" if cycle == "day_of_week" else "2022-01-01"
    times = pd.date_range(start, periods=rows, freq=frequency, tz=zone)
    assert cycle in calendar_cycles(frequency, span_of(times, frequency))
    assert cycle not in calendar_cycles(frequency, span_of(times[:-1], frequency))
    assert cycle not in calendar_cycles(frequency, span_of(times[:0], frequency))


def test_two_weeks_of_hours_are_two() -> None:
    times = pd.date_range("2024-03-25", "2024-04-07 23:00", freq="h", tz="Europe/Berlin")
    assert len(times) == 335  # of which a clock change took one
    assert "day_of_week" in calendar_cycles("h", span_of(times, "h"))


@pytest.mark.parametrize(
    ("frequency", "name"),
    [
        ("h", "24 h"), ("15min", "24 h"), ("7min", "7 days"), ("11s", "86,405 s"), ("D", "7 days"), ("2D", "2 weeks"),
        ("W-SUN", "52 weeks"),
        ("MS", "12 months"), ("QS", "12 months"), ("YS", "12 months"), ("B", "5 business days"), ("s", "24 h"),
    ],
)  # fmt: skip
def test_a_season_has_a_name_with_its_unit(frequency: str, name: str) -> None:
    assert season_name(seasonal_period(frequency), frequency) == name
