from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.tables.repair import Policies
from tests.support.reading import series_from_frame

HOURS = pd.date_range("2021-10-25", periods=200, freq="h")
QUARTERS = pd.date_range("2021-10-25", periods=500, freq="15min")
DAYS = pd.date_range("2010-01-01", periods=400, freq="D")
MONTHS = pd.date_range("1990-01-01", periods=100, freq="MS")
WEEKS = pd.date_range("2015-01-05", periods=120, freq="W-MON")
SEASONS = pd.date_range("1950-01-01", periods=100, freq="QS")


def of(times: pd.DatetimeIndex, **columns: Any) -> pd.DataFrame:
    """Return a table with these columns of the time, and one of values."""
    return pd.DataFrame({**columns, "load": np.arange(len(times)) % 7.0})


def written(times: pd.DatetimeIndex, *forms: tuple[str, str]) -> pd.DataFrame:
    """Return a table whose columns of the time are written in these formats."""
    return of(times, **{name: times.strftime(form) for name, form in forms})


def columns(times: pd.DatetimeIndex) -> dict[str, Any]:
    """Return the parts of times as numbers."""
    return {part: getattr(times, part) for part in ("year", "month", "day", "hour", "minute")}


Q, H, D = columns(QUARTERS), columns(HOURS), columns(DAYS)
Q_DATE, H_DATE = QUARTERS.strftime("%Y-%m-%d"), HOURS.strftime("%Y-%m-%d")
SPANS = [f"{time:%H:%M}-{time + pd.Timedelta('1h'):%H:%M}" for time in HOURS]
WEEK = WEEKS.isocalendar()
FOUND: dict[str, tuple[pd.DatetimeIndex, pd.DataFrame]] = {
    "seconds": (HOURS, written(HOURS, ("Date", "%d/%m/%Y"), ("Time", "%H:%M:%S"))),
    "points": (HOURS, written(HOURS, ("Datum", "%d.%m.%Y"), ("Uhrzeit", "%H.%M.%S"))),
    "half days": (HOURS, written(HOURS, ("date", "%Y-%m-%d"), ("time", "%I:%M %p"))),
    "another name": (HOURS, written(HOURS, ("when", "%Y-%m-%d"), ("start", "%H:%M"))),
    "digits": (
        QUARTERS,
        of(QUARTERS, date=QUARTERS.strftime("%Y%m%d").astype(int), time=Q["hour"] * 100 + Q["minute"]),
    ),
    "a point": (QUARTERS, of(QUARTERS, Data=QUARTERS.strftime("%d/%m/%Y"), Ora=Q["hour"] + Q["minute"] / 100)),
    "spans": (HOURS, of(HOURS, Datum=H_DATE, Zeit=SPANS)),
    "hours from 1": (HOURS, of(HOURS, day=H_DATE, HE=H["hour"] + 1)),
    "hour ending": (HOURS, of(HOURS, day=H_DATE, hour_ending=[f"{hour + 1}:00" for hour in H["hour"]])),
    "minutes": (QUARTERS, of(QUARTERS, date=Q_DATE, hour=Q["hour"], minute=Q["minute"])),
    "periods": (QUARTERS, of(QUARTERS, date=Q_DATE, period=Q["hour"] * 4 + Q["minute"] // 15 + 1)),
    "year and month": (MONTHS, of(MONTHS, Year=MONTHS.year, Month=MONTHS.month)),
    "names of months": (MONTHS, of(MONTHS, month=MONTHS.strftime("%b"), year=MONTHS.year)),
    "Jahr und Monat": (MONTHS, of(MONTHS, Jahr=MONTHS.year, Monat=MONTHS.month)),
    "año y mes": (MONTHS, of(MONTHS, **{"año": MONTHS.year, "mes": MONTHS.month})),
    "quarter": (SEASONS, of(SEASONS, Year=SEASONS.year, Quarter=[f"Q{quarter}" for quarter in SEASONS.quarter])),
    "week": (WEEKS, of(WEEKS, jaar=WEEK["year"].to_numpy(), week=WEEK["week"].to_numpy())),
    "year, month, day": (DAYS, of(DAYS, YYYY=D["year"], MM=D["month"], DD=D["day"])),
    "day of the year": (DAYS, of(DAYS, year=D["year"], doy=DAYS.day_of_year)),
    "four": (HOURS, of(HOURS, year=H["year"], month=H["month"], day=H["day"], hour=H["hour"])),
    "five": (QUARTERS, of(QUARTERS, YY=Q["year"], MM=Q["month"], DD=Q["day"], hh=Q["hour"], mm=Q["minute"])),
}


@pytest.mark.parametrize("name", FOUND)
def test_the_parts_of_a_time_are_found_and_the_option_in_the_note_reads_the_same(name: str) -> None:
    times, table = FOUND[name]
    found = series_from_frame(table)
    assert found.frame.index.tolist() == times.tolist()
    assert list(found.frame) == ["load"]
    columns = found.time_format.columns
    assert columns is not None
    assert f"data.time_columns=[{','.join(columns)}]" in found.notes[0].replace('"', "")
    named = series_from_frame(table, time_format=found.time_format)
    assert named.frame.index.tolist() == times.tolist()


def test_a_time_of_day_beside_dates_of_which_each_occurs_once_is_no_part() -> None:
    table = of(DAYS, date=DAYS.strftime("%Y-%m-%d"), Time=["08:00"] * len(DAYS))
    assert series_from_frame(table, columns=["load"]).frame.index.tolist() == DAYS.tolist()


def test_a_series_of_a_long_table_has_its_own_times() -> None:
    table = pd.concat([FOUND["seconds"][1].assign(store=store) for store in ("a", "b")])
    series = series_from_frame(table, ids=["store"])
    assert series.ids is not None
    assert (len(series.ids), series.frequency) == (2, "h")


def test_no_advice_takes_a_time_of_day_for_a_series() -> None:
    table = pd.concat([FOUND["seconds"][1].assign(store=store) for store in ("a", "b")])
    with pytest.raises(InputError, match=r"data\.id_columns=\[store\]") as refusal:
        series_from_frame(table)
    assert "pivot" not in str(refusal.value)
    daily = series_from_frame(FOUND["seconds"][1], columns=["load"], policies=Policies("mean", "error"))
    assert len(daily.frame) == len(HOURS)


@pytest.mark.parametrize(
    ("columns", "cells", "message"),
    [
        (("Year", "Month"), {"Month": 13}, "column 'Month', row 4: '13' is no month"),
        (("Year", "Month"), {"Year": 80}, "column 'Year', row 4: '80' is no year"),
        (("Year", "load"), {}, r"data\.time_columns=\[Year,load\]: which part of the time 'load' holds is unclear"),
    ],
)
def test_a_wrong_part_is_refused_by_its_row(columns: Sequence[str], cells: dict[str, Any], message: str) -> None:
    table = FOUND["year and month"][1].copy()
    for name, cell in cells.items():
        table.loc[2, name] = cell
    with pytest.raises(InputError, match=message):
        series_from_frame(table, time_columns=tuple(columns))


def test_a_day_that_a_month_does_not_have_is_refused() -> None:
    table = FOUND["year, month, day"][1].copy()
    table.loc[58, "DD"] = 30
    with pytest.raises(InputError, match="row 60: 2010-2-30 is no day of a year"):
        series_from_frame(table)


# --- the hour that occurs twice, and days of 23 and 25 hours


def local(zone: str, start: str, step: str = "h") -> pd.DatetimeIndex:
    return pd.date_range(start, periods=400, freq=step, tz=zone)


AUTUMN = {"America/New_York": "2023-11-01", "Europe/Berlin": "2023-10-25", "Europe/London": "2023-10-25"}


def marked(times: pd.DatetimeIndex, first: str, second: str) -> list[str]:
    """Return hours from 1 to 24, with marks at the hour that occurs twice."""
    plain = times.tz_localize(None)
    pairs = zip(times.hour, plain.duplicated(keep="last"), plain.duplicated(), strict=True)
    return [f"{hour + 1:02}{first if early else second if late else ''}" for hour, early, late in pairs]


@pytest.mark.parametrize("zone", AUTUMN)
@pytest.mark.parametrize("marks", [("", "X"), ("A", "B"), ("", "*"), ("a", "b")])
def test_a_marked_autumn_hour_needs_the_zone_that_its_refusal_names(zone: str, marks: tuple[str, str]) -> None:
    times = local(zone, AUTUMN[zone])
    table = of(times, Date=times.strftime("%Y-%m-%d"), HE=marked(times, *marks))
    with pytest.raises(InputError, match=rf"column 'HE', row \d+: marks an hour .*data\.time_zone={zone}$"):
        series_from_frame(table)
    assert series_from_frame(table, zone=zone).frame.index.tolist() == times.tolist()
    shuffled = table.sample(frac=1, random_state=0)
    if marks[0]:  # then the order of the rows does not matter
        assert series_from_frame(shuffled, zone=zone).frame.index.tolist() == times.tolist()


def test_a_mark_at_another_hour_than_the_zone_doubles_is_refused_with_the_right_zone() -> None:
    times = local("America/New_York", "2023-11-01")
    table = of(times, Date=times.strftime("%Y-%m-%d"), HE=marked(times, "", "X"))
    with pytest.raises(InputError, match=r"does not in data\.time_zone=Europe/Berlin: .*America/New_York"):
        series_from_frame(table, zone="Europe/Berlin")


@pytest.mark.parametrize(("step", "minutes"), [("h", 60), ("30min", 30), ("15min", 15)])
@pytest.mark.parametrize("start", ["2023-10-27", "2024-03-29"])
def test_periods_that_count_on_over_a_clock_change_are_read_by_the_zone(step: str, minutes: int, start: str) -> None:
    times = local("Europe/Berlin", start, step)
    numbers = ((times - times.normalize()) / pd.Timedelta(minutes=minutes)).astype(int) + 1
    table = of(times, Date=times.strftime("%Y-%m-%d"), Period=numbers)
    assert series_from_frame(table, zone="Europe/Berlin").frame.index.tolist() == times.tolist()
    if start == "2023-10-27":
        with pytest.raises(InputError, match=r"day with 25 hours: .*data\.time_zone=Europe/Berlin"):
            series_from_frame(table)
