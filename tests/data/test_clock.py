"""The clock of a model is that of its training."""

import pandas as pd
import pytest

from forecast.data.clock import UNKNOWN, Clock
from forecast.errors import InputError


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "+05:30", "-03:00"])
def test_the_zone_that_is_written_down_can_be_read_back(zone: str | None) -> None:
    index = pd.date_range("2023-06-01", periods=3, freq="h", tz=zone)
    clock = Clock.of(index, "h")
    assert clock.face(index).equals(index)
    assert list(clock.face(index).hour) == [0, 1, 2]
    clock.check(index, "mine")


def test_another_zone_shows_the_same_instants() -> None:
    index = pd.date_range("2023-06-01", periods=3, freq="h", tz="UTC")
    assert list(Clock("Europe/Berlin", "15min").face(index).hour) == [2, 3, 4]


@pytest.mark.parametrize("frequency", ["D", "W-SUN", "MS", "B"])
def test_days_are_those_of_the_local_calendar_in_any_zone_or_none(frequency: str) -> None:
    clock = Clock("UTC", frequency)
    for zone in (None, "Asia/Tokyo"):
        index = pd.date_range("2023-06-01", periods=3, freq=frequency, tz=zone)
        clock.check(index, "mine")
        assert clock.face(index) is index


@pytest.mark.parametrize(("own", "other"), [(None, "UTC"), ("UTC", None)])
def test_a_zone_on_one_side_alone_is_refused(own: str | None, other: str | None) -> None:
    index = pd.date_range("2023-06-01", periods=3, freq="h", tz=other)
    with pytest.raises(InputError, match=r"^mine: its times have "):
        Clock(own, "h").check(index, "mine")
    Clock(UNKNOWN, "h").check(index, "mine")


def test_what_is_no_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="'Nowhere/City' is no time zone"):
        Clock("Nowhere/City", "h")


BERLIN_IN_UTC = pd.date_range("2022-01-01", periods=5, freq="D", tz="Europe/Berlin").tz_convert("UTC")


def test_days_that_are_midnights_on_the_clock_of_training_are_read_by_it() -> None:
    clock = Clock("Europe/Berlin", "D")
    clock.check(BERLIN_IN_UTC, "mine")
    assert list(BERLIN_IN_UTC.day_of_week[:2]) == [4, 5]  # 23:00 on Friday
    assert list(clock.face(BERLIN_IN_UTC).day_of_week[:2]) == [5, 6]


@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_days_whose_dates_nobody_can_tell_are_refused(zone: str | None) -> None:
    with pytest.raises(InputError, match=r"^mine: its days begin at 23:00:00 UTC: write them as training had them"):
        Clock(zone, "D").check(BERLIN_IN_UTC, "mine")
    Clock("UTC", "D").check(BERLIN_IN_UTC, "mine")  # where training had such days, too
    Clock(UNKNOWN, "D").check(BERLIN_IN_UTC, "mine")
