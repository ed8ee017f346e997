"""A year of daily rows in zones with clock changes at unusual hours."""

import pandas as pd
import pytest

from forecast.data.calendar import earlier_index, future_index
from forecast.tables.times.frequency import day_begins, from_wall_time, grid_places, to_wall_time

CASES = [
    ("Africa/Cairo", "00:00"),  # the clock goes on from 0 to 1
    ("Africa/Cairo", "01:00"),
    ("America/Santiago", "00:00"),
    ("America/Havana", "00:00"),
    ("Europe/Berlin", "02:00"),  # from 2 to 3
    ("Europe/Berlin", "02:30"),
    ("Europe/Berlin", "03:00"),
    ("Australia/Lord_Howe", "02:30"),  # from 2 to half past
    ("Asia/Kolkata", "05:30"),
]


def days(zone: str, hour: str) -> tuple[pd.DatetimeIndex, pd.DatetimeIndex]:
    """Return a year of days on the wall and as instants."""
    wall = pd.date_range(f"2024-01-01 {hour}", periods=366, freq="D").as_unit("ns")
    return wall, from_wall_time(wall, pd.Timestamp(0, tz=zone).tz)


@pytest.mark.parametrize(("zone", "hour"), CASES)
def test_days_on_the_wall_are_a_day_apart(zone: str, hour: str) -> None:
    wall, instants = days(zone, hour)
    assert to_wall_time(instants).equals(wall)
    assert day_begins(instants) == f"{hour}:00"
    assert grid_places(instants, "D", range(2, 368), "mine").tolist() == list(range(366))  # type: ignore[arg-type]


@pytest.mark.parametrize(("zone", "hour"), CASES)
def test_the_future_goes_on_whatever_day_is_the_last(zone: str, hour: str) -> None:
    _, instants = days(zone, hour)
    for last in range(9, 360):
        assert future_index(instants[last - 9 : last + 1], "D", 5).equals(instants[last + 1 : last + 6])


@pytest.mark.parametrize(("zone", "hour"), CASES)
def test_earlier_days_are_found_whatever_day_is_the_first(zone: str, hour: str) -> None:
    _, instants = days(zone, hour)
    for first in range(5, 355):
        assert earlier_index(instants[first : first + 10], "D", 5).equals(instants[first - 5 : first])
