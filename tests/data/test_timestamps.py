import datetime

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data.timestamps import find_time_column, holds_times, parse_times


def parse(*cells: object) -> tuple[pd.DatetimeIndex, tuple[str, ...]]:
    return parse_times(pd.Series(list(cells)), np.arange(2, len(cells) + 2), "my.csv, column 'date'")


FORMS = [
    ("2013-02-03 04:05:06", "2013-02-14 00:00:00"),
    ("2013-02-03 04:05", "2013-02-14 00:00"),
    ("2013-2-3 4:05", "2013-02-14 00:00"),
    ("2013-02-03T04:05:06", "2013-02-14T00:00:00"),
    ("2013-02-03 04:05:06.000", "2013-02-14 00:00:00.000"),
    ("2013-02-03 04:05:06", "2013-02-14"),
    ("2013.2.3 4:05", "2013.2.14 0:00"),
    ("2013/02/03 04:05", "2013/02/14 00:00"),
    ("03.02.2013 04:05", "14.02.2013 00:00"),
    ("3/2/2013 04:05:06", "14/2/2013 00:00:00"),
    ("2/3/2013 4:05 AM", "2/14/2013 12:00 AM"),
    ("2/3/2013 04:05", "2/14/2013 00:00"),
    ("03-Feb-2013 04:05", "14-Feb-2013 00:00"),
    (datetime.datetime(2013, 2, 3, 4, 5), datetime.datetime(2013, 2, 14)),
]


@pytest.mark.parametrize("cells", FORMS, ids=str)
def test_unmistakable_dates_are_read(cells: tuple[object, object]) -> None:
    index, _ = parse(*cells)
    assert index.floor("min").tolist() == [pd.Timestamp("2013-02-03 04:05"), pd.Timestamp("2013-02-14")]
    assert index.dtype == "datetime64[ns]"
    assert holds_times(pd.Series(list(cells)))


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (("01/02/2013", "02/02/2013"), "row 2: '01/02/2013' is ambiguous, day or month first"),
        (("05/05/2013", "06/05/2013"), "row 3: '06/05/2013' is ambiguous, day or month first"),
        (("13/02/2013", "02/14/2013"), "row 3: '02/14/2013' is not a date, or has another format"),
        (("2013-02-03", "04/02/2013"), "row 3: '04/02/2013' is not a date, or has another format"),
        (("13/02/13", "14/02/13"), "row 2: .*year of two digits"),
        (("2013-02-03 00:00+01:00", "2013-02-03 01:00"), "row 3: .*no UTC offset"),
        (("2013-02-03 00:00", "2013-02-03 01:00Z"), "row 2: .*no UTC offset"),
        (("3013-02-03", "3013-02-04"), "row 2: "),
        (("2013-02-03", "3013-02-04"), "row 3: "),
        (("2013-02-03", None), r"row 3: no date \(1 empty in total\)"),
        (("2013-02-03", " "), r"row 3: no date \(1 empty in total\)"),
        (("1359849600", "1359936000"), "row 2: '1359849600' is not a"),
        ((1359849600, 1359936000), "row 2: 1359849600 is a number, not a date"),
        (("2013-02-03 24:00", "2013-02-04 01:00"), "row 2: '2013-02-03 24:00' is not a"),
    ],
)
def test_dates_that_could_be_misread_are_refused(cells: tuple[object, object], message: str) -> None:
    with pytest.raises(InputError, match=f"my.csv, column 'date', {message}"):
        parse(*cells)


def test_one_offset_is_kept_and_several_become_utc() -> None:
    index, notes = parse("2013-02-03 04:00:00+01:00", "2013-02-03 05:00:00+01:00")
    assert (index[0].hour, index[0].utcoffset(), notes) == (4, datetime.timedelta(hours=1), ())
    index, notes = parse("2013-03-31 01:00:00+01:00", "2013-03-31 03:00:00+02:00")
    assert (str(index.tz), np.diff(index.asi8).tolist()) == ("UTC", [3600 * 10**9])
    assert "converted to UTC" in notes[0]


@pytest.mark.parametrize("time", ["00:00:00", "06:30"])
def test_days_and_months_by_the_local_clock_stay_on_its_calendar(time: str) -> None:
    days = [f"2023-03-{day} {time}{offset}" for day, offset in ((25, "+01:00"), (26, "+01:00"), (27, "+02:00"))]
    index, notes = parse(*days)
    assert [(each.day, each.tzinfo) for each in index] == [(25, None), (26, None), (27, None)]
    assert notes == ("the times have several offsets from UTC and one time of day: taken as dates, without an offset",)
    index, _ = parse("2023-03-01T00:00+01:00", "2023-04-01T00:00:00+02:00")
    assert list(index.month) == [3, 4]


def test_an_hour_that_occurs_twice_is_not_a_day() -> None:
    index, notes = parse("2023-10-29 02:00+02:00", "2023-10-29 02:00+01:00")
    assert (str(index.tz), "converted to UTC" in notes[0]) == ("UTC", True)
    index, notes = parse("2023-3-9 00:00+01:00", "2023-03-09 00:00+02:00")
    assert "converted to UTC" in notes[0]


def test_the_reading_of_day_and_month_is_noted() -> None:
    assert parse("13/02/2013", "14/02/2013")[1] == ("dates were read as day/month/year",)
    assert parse("02/13/2013", "02/14/2013")[1] == ("dates were read as month/day/year",)


def test_numbers_and_text_do_not_count_as_dates() -> None:
    table = pd.DataFrame({"epoch": [1359849600, 1359849601], "day": ["20130203", "20130204"], "note": ["a", "b"]})
    with pytest.raises(InputError, match=r"no column holds dates .its columns: 'epoch', 'day', 'note'"):
        find_time_column(table, "my.csv")
