"""A model keeps the time zone of its training."""

import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.tables.times.clock import UNKNOWN, Clock


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "+05:30", "-03:00"])
def test_a_stored_time_zone_is_read_back(zone: str | None) -> None:
    index = pd.date_range("2023-06-01", periods=3, freq="h", tz=zone)
    clock = Clock.of(index, "h")
    assert clock.to_training_clock(index).equals(index)
    assert list(clock.to_training_clock(index).hour) == [0, 1, 2]
    clock.check(index, "mine")


def test_another_zone_shows_the_same_instants() -> None:
    index = pd.date_range("2023-06-01", periods=3, freq="h", tz="UTC")
    assert list(Clock("Europe/Berlin", "15min").to_training_clock(index).hour) == [2, 3, 4]


@pytest.mark.parametrize("frequency", ["D", "W-SUN", "MS", "B"])
def test_days_follow_the_local_calendar_with_and_without_a_zone(frequency: str) -> None:
    clock = Clock("UTC", frequency)
    for zone in (None, "Asia/Tokyo"):
        index = pd.date_range("2023-06-01", periods=3, freq=frequency, tz=zone)
        clock.check(index, "mine")
        assert clock.to_training_clock(index) is index


@pytest.mark.parametrize(("own", "other"), [(None, "UTC"), ("UTC", None)])
def test_a_zone_on_one_side_alone_is_refused(own: str | None, other: str | None) -> None:
    index = pd.date_range("2023-06-01", periods=3, freq="h", tz=other)
    with pytest.raises(InputError, match=r"^mine: its times have "):
        Clock(own, "h").check(index, "mine")
    Clock(UNKNOWN, "h").check(index, "mine")


def test_an_invalid_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="'Nowhere/City' is not a time zone"):
        Clock("Nowhere/City", "h")


BERLIN_IN_UTC = pd.date_range("2022-01-01", periods=5, freq="D", tz="Europe/Berlin").tz_convert("UTC")


def test_days_that_begin_as_in_training_on_its_clock_are_read_by_it() -> None:
    clock = Clock("Europe/Berlin", "D")
    clock.check(BERLIN_IN_UTC, "mine")
    assert list(BERLIN_IN_UTC.day_of_week[:2]) == [4, 5]  # 23:00 on Friday
    assert list(clock.to_training_clock(BERLIN_IN_UTC).day_of_week[:2]) == [5, 6]


@pytest.mark.parametrize(("zone", "begins"), [(None, "00:00:00"), ("Asia/Tokyo", "00:00:00"), ("UTC", "06:00:00")])
def test_days_that_begin_otherwise_are_refused(zone: str | None, begins: str) -> None:
    message = f"^mine: its days begin at 23:00:00 UTC, the days of the training data at {begins}.*: write the dates"
    with pytest.raises(InputError, match=message):
        Clock(zone, "D", begins).check(BERLIN_IN_UTC, "mine")
    Clock(UNKNOWN, "D").check(BERLIN_IN_UTC, "mine")


@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "UTC+01:00", "Etc/UTC"])
def test_days_that_begin_at_the_hour_of_training_are_dates_in_whatever_zone(zone: str | None) -> None:
    """A day of gas begins at 6; a file of some weeks has one offset, one of years two, and is read without."""
    trained = pd.date_range("2021-01-01 06:00", periods=800, freq="D", tz=zone)
    clock = Clock.of_facts({"frequency": "D", **Clock.of(trained, "D").facts()})
    assert clock.begins == "06:00:00"
    summer = pd.date_range("2023-06-01 06:00", periods=5, freq="D", tz="UTC+02:00")
    clock.check(summer, "mine")
    assert clock.to_training_clock(summer) is summer
    clock.check(summer.tz_localize(None), "mine")


def test_midnight_is_not_written_down() -> None:
    assert Clock.of(pd.date_range("2021-01-01", periods=800, freq="D"), "D").facts() == {"time_zone": None}
    assert Clock.of(pd.date_range("2021-01-01 06:00", periods=99, freq="h"), "h").facts() == {"time_zone": None}
