"""Known covariates of the horizon at their times, in any time zone."""

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.predict.known import MissingKnown, gather_known
from forecast.tables.labels import EMPTY
from forecast.tables.series import Ahead
from forecast.tables.times.clock import UNKNOWN, Clock

BERLIN = "Europe/Berlin"


def ahead(times: pd.DatetimeIndex) -> Ahead:
    """Return a table whose values count its rows."""
    return Ahead(pd.DataFrame({"x": np.arange(float(len(times)))}, index=times), np.arange(len(times)) + 2, "a.csv")


def days(start: str, zone: str | None = None) -> pd.DatetimeIndex:
    return pd.date_range(start, periods=4, freq="D", tz=zone)


def gathered(table: pd.DatetimeIndex, times: pd.DatetimeIndex, clock: Clock) -> list[float]:
    return list(gather_known([ahead(table)], ["x"], times, times, clock)["x"])


@pytest.mark.parametrize("zone", [None, BERLIN, "UTC"])
@pytest.mark.parametrize("of_times", [None, BERLIN, "+01:00"])
@pytest.mark.parametrize("of_table", [None, BERLIN, "+01:00", "UTC"])
def test_days_are_the_same_in_every_zone(of_table: str | None, of_times: str | None, zone: str | None) -> None:
    """The clock changes on 31 March."""
    assert gathered(days("2024-03-30", of_table), days("2024-03-30", of_times), Clock(zone, "D")) == [0, 1, 2, 3]


def test_days_that_begin_at_another_hour_are_those_of_the_zone_of_training() -> None:
    table = days("2024-03-01 23:00", "UTC")  # midnight of 2 March in Berlin
    assert gathered(table, days("2024-03-02"), Clock(BERLIN, "D")) == [0, 1, 2, 3]


def test_a_model_of_days_ignores_an_hour_that_occurs_twice() -> None:
    """The clock shows 2 twice on 27 October."""
    hours = pd.date_range("2024-10-27 00:00", periods=2, freq="h", tz="UTC").tz_convert(BERLIN)
    table = days("2024-10-26", BERLIN).append(hours).sort_values()
    assert gathered(table, days("2024-10-26", BERLIN), Clock(BERLIN, "D")) == [0, 1, 4, 5]


def test_hours_are_compared_as_moments() -> None:
    utc = pd.date_range("2024-03-31 00:00", periods=4, freq="h", tz="UTC")
    assert gathered(utc, utc.tz_convert(BERLIN), Clock(BERLIN, "h")) == [0, 1, 2, 3]


def test_an_empty_cell_of_a_row_is_a_label_if_it_was_one_in_training() -> None:
    times = days("2024-03-02")
    first = Ahead(pd.DataFrame({"day": ["Easter", np.nan, np.nan]}, index=times[:3]), np.arange(2, 5), "a.csv")
    second = Ahead(pd.DataFrame({"day": [np.nan, "Sale"]}, index=times[:2]), np.arange(2, 4), "b.csv")

    def labels(tables: list[Ahead], columns: list[str]) -> list[str]:
        return list(gather_known(tables, ["day"], times[:3], times[:3], Clock(None, "D"), empty_allowed=columns)["day"])

    assert labels([first, second], ["day"]) == ["Easter", "Sale", EMPTY]
    with pytest.raises(MissingKnown, match="row 4: no value at 2024-03-04"):
        labels([first, second], [])
    with pytest.raises(MissingKnown, match="no values of 'day' for 2024-03-04"):
        labels([second], ["day"])  # it has no row there


@pytest.mark.parametrize("zones", [(None, "UTC"), ("UTC", None)])
def test_hours_with_and_without_a_zone_are_not_compared(zones: tuple[str | None, str | None]) -> None:
    table, times = (pd.date_range("2024-03-31", periods=4, freq="h", tz=zone) for zone in zones)
    with pytest.raises(
        InputError, match=r"^a\.csv: only its times, or only those of the input, have a time zone: write"
    ):
        gathered(table, times, Clock(UNKNOWN, "h"))


def test_the_clue_names_the_days_of_a_table_in_its_own_zone() -> None:
    with pytest.raises(MissingKnown, match=r"\(a\.csv has 2024-03-26 00:00:00\+01:00 to 2024-03-29 00:00:00\+01:00\)"):
        gathered(days("2024-03-26", BERLIN), days("2024-03-30"), Clock(None, "D"))
