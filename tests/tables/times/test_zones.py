import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.tables.times.zones import check_zone, proposed_long_day, proposed_zone
from tests.support.reading import series_from_frame

ZONES = {"Europe/Berlin": "2023-10-25", "America/New_York": "2023-11-01", "Europe/London": "2023-10-25"}


def table(cells: object, values: int = 400) -> pd.DataFrame:
    return pd.DataFrame({"time": cells, "load": np.arange(values) % 7.0})


def local(zone: str, start: str, step: str = "h") -> pd.DatetimeIndex:
    return pd.date_range(start, periods=400, freq=step, tz=zone)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("step", ["h", "30min", "15min"])
@pytest.mark.parametrize("order", [1, -1])
def test_local_times_are_exact_where_clocks_move_back(zone: str, step: str, order: int) -> None:
    times = local(zone, ZONES[zone], step)
    series = series_from_frame(table(times[::order].strftime("%Y-%m-%d %H:%M")), zone=zone)
    assert series.frame.index.tolist() == times.tolist()
    assert (str(series.frame.index.tz), series.observed) == (zone, None)


def test_the_hour_that_clocks_skip_is_no_gap() -> None:
    times = local("Europe/Berlin", "2024-03-28")
    series = series_from_frame(table(times.strftime("%d.%m.%Y %H:%M")), zone="Europe/Berlin")
    assert series.frame.index.tolist() == times.tolist()


def test_a_time_that_clocks_skip_is_refused_by_its_row() -> None:
    times = pd.date_range("2024-03-28", periods=400, freq="h")
    with pytest.raises(InputError, match=r"row 76: 2024-03-31 02:00:00 is skipped by the clocks of Europe/Berlin"):
        series_from_frame(table(times.strftime("%Y-%m-%d %H:%M")), zone="Europe/Berlin")


@pytest.mark.parametrize("zone", ZONES)
def test_a_doubled_local_hour_names_the_zone_and_no_mean_of_two_hours(zone: str) -> None:
    times = local(zone, ZONES[zone])
    with pytest.raises(InputError, match=rf"the clocks move back there: .*data\.time_zone={zone}$") as refusal:
        series_from_frame(table(times.strftime("%Y-%m-%d %H:%M")))
    assert "duplicates" not in str(refusal.value)


@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M %Z", "%d.%m.%Y %H:%M:%S (%Z)", "%a %b %d %H:%M:%S %Z %Y"])
@pytest.mark.parametrize("zone", ZONES)
def test_names_of_zones_are_exact_in_the_zone_that_the_refusal_names(form: str, zone: str) -> None:
    times = local(zone, ZONES[zone])
    given = table(times.strftime(form))
    with pytest.raises(InputError, match=rf"has the name of a time zone.* set data\.time_zone={zone}, or another"):
        series_from_frame(given)
    shuffled = given.sample(frac=1, random_state=0)
    assert series_from_frame(shuffled, zone=zone).frame.index.tolist() == times.tolist()


def test_german_names_and_a_column_of_names_are_read() -> None:
    times = local("Europe/Berlin", "2023-10-25")
    names = ["MESZ" if time.dst() else "MEZ" for time in times]
    texts = [f"{time:%d.%m.%Y %H:%M} {name}" for time, name in zip(times, names, strict=True)]
    assert series_from_frame(table(texts), zone="Europe/Berlin").frame.index.tolist() == times.tolist()
    beside = table(times.strftime("%Y-%m-%d %H:%M")).assign(**{"Time Zone": names})
    assert series_from_frame(beside, zone="Europe/Berlin").frame.index.tolist() == times.tolist()


def test_a_name_of_another_zone_is_refused_with_its_zone() -> None:
    cells = pd.date_range("2023-06-01", periods=400, freq="h").strftime("%Y-%m-%d %H:%M EDT")
    with pytest.raises(InputError, match=r"EDT is not a time of data\.time_zone=Europe/Berlin.*America/New_York"):
        series_from_frame(table(cells), zone="Europe/Berlin")


def test_times_with_offsets_are_converted_and_dates_stay_dates() -> None:
    times = local("Europe/Berlin", "2023-10-25")
    series = series_from_frame(table([time.isoformat() for time in times]), zone="Europe/Berlin")
    assert (series.frame.index.tolist(), str(series.frame.index.tz)) == (times.tolist(), "Europe/Berlin")
    days = pd.date_range("2023-01-01", periods=400, freq="D")
    assert series_from_frame(table(days.strftime("%Y-%m-%d")), zone="Europe/Berlin").frame.index.tz is None


def test_seconds_since_1970_are_shown_in_the_zone() -> None:
    times = local("Europe/Berlin", "2023-10-25")
    series = series_from_frame(table(times.as_unit("ns").asi8 // 10**9), zone="Europe/Berlin")
    assert (series.frame.index.tolist(), str(series.frame.index.tz)) == (times.tolist(), "Europe/Berlin")


@pytest.mark.parametrize(("name", "near"), [("Europe/Berlni", "Europe/Berlin"), ("EDT", "America/New_York"), (3, "")])
def test_a_wrong_zone_is_refused_with_a_right_one(name: object, near: str) -> None:
    with pytest.raises(InputError, match=rf"data\.time_zone=.*is not the name of a time zone: use one such as {near}"):
        check_zone(name)


def test_no_zone_is_proposed_for_hours_that_no_clock_doubles() -> None:
    assert proposed_zone(pd.DatetimeIndex(["2023-10-29 14:00"])) is None
    assert proposed_zone(pd.DatetimeIndex(["2023-11-05 01:00"]), "MTU (CET/CEST)") == "America/New_York"
    assert proposed_long_day(pd.DatetimeIndex(["2023-11-05"])) == "America/New_York"
    assert proposed_long_day(pd.DatetimeIndex(["2023-11-06"])) is None
