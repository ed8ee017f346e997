import datetime
import shlex

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.tables.times.forms import holds_times
from forecast.tables.times.time_format import TimeFormat
from forecast.tables.times.timestamps import find_time_column, parse_times


def parse(*cells: object, date_format: str | None = None) -> tuple[pd.DatetimeIndex, tuple[str, ...]]:
    rows = np.arange(2, len(cells) + 2)
    form = TimeFormat(date_format=date_format)
    index, _, notes = parse_times(pd.Series(list(cells)), rows, "my.csv, column 'date'", form)
    return index, notes


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


def order_found(*cells: str, day_first: bool | None = None) -> tuple[str, bool | None, str]:
    """Return the day of the last cell, the order of day and month, and the note; `day_first` is that of training."""
    form = TimeFormat(day_first=day_first)
    index, read_as, notes = parse_times(pd.Series(list(cells)), np.arange(2, len(cells) + 2), "my.csv", form)
    return str(index[-1].date()), read_as.day_first, " ".join(notes)


def test_the_order_of_day_and_month_is_kept_if_the_dates_show_it() -> None:
    assert order_found("31/01/2013", "01/02/2013") == ("2013-02-01", True, "dates were read as day/month/year")
    assert order_found("01-31-2013", "02-01-2013") == ("2013-02-01", False, "dates were read as month-day-year")
    assert order_found("05/05/2013", "06/06/2013") == ("2013-06-06", None, "dates were read as day/month/year")
    assert order_found("2013-01-31", "2013-02-01") == ("2013-02-01", None, "")
    assert order_found("31-Jan-2013", "01-Feb-2013") == ("2013-02-01", None, "")


@pytest.mark.parametrize(
    ("day_first", "day", "words"), [(True, "2013-02-01", "day.month"), (False, "2013-01-02", "month.day")]
)
def test_the_order_in_training_reads_dates_that_do_not_show_it(day_first: bool, day: str, words: str) -> None:
    note = f"dates were read as {words}.year, as in training"
    assert order_found("02.01.2013", "01.02.2013", day_first=day_first) == (day, day_first, note)


def test_dates_that_show_their_order_are_read_by_it_whatever_training_had() -> None:
    note = "dates were read as day/month/year"
    assert order_found("31/01/2013", "01/02/2013", day_first=False) == ("2013-02-01", True, note)


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


# --- a format for the dates

TIMES = pd.date_range("2013-01-30 22:00", periods=60, freq="h")

WRITTEN = [
    *(
        "%d.%m.%Y %H:%M",
        "%m/%d/%Y %H:%M",
        "%m/%d/%y %H",
        "%y%m%d %H",
        "%Y%m%d%H",
        "%d %B %Y, %I %p",
        "%H:%M on %b %d %y",
    ),
    *("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%j/%Y %H", "%G-W%V-%u %H", "%H:%M:%S %Z %d-%m-%Y"),
]


@pytest.mark.parametrize("date_format", WRITTEN)
def test_dates_are_read_as_their_format_writes_them(date_format: str) -> None:
    times = TIMES.tz_localize("UTC") if "%Z" in date_format else TIMES
    index, notes = parse(*times.strftime(date_format), date_format=date_format)
    assert index.tolist() == times.tolist()
    assert (index.dtype == "datetime64[ns]", notes) == ("%Z" not in date_format, ())
    TimeFormat(date_format=date_format)


def test_a_format_decides_which_number_is_the_day_and_which_century_it_is() -> None:
    for date_format, day in (("%d/%m/%y", "2004-02-01"), ("%m/%d/%y", "2004-01-02"), ("%y/%m/%d", "2001-02-04")):
        assert parse("01/02/04", "01/2/04", date_format=date_format)[0].tolist() == [pd.Timestamp(day)] * 2


@pytest.mark.parametrize(
    ("cells", "date_format", "message"),
    [
        (("1/13/04", "13/1/04"), "%m/%d/%y", r"row 3: '13/1/04' does not match data.date_format=%m/%d/%y \(1 such"),
        (("1/13/04", "1/13/2004", "1/14/2004"), "%m/%d/%y", r"row 3: '1/13/2004' does not .* \(2 such cells"),
        (("1/13/04 00:00",), "%m/%d/%y", "row 2: '1/13/04 00:00' does not match"),
        (("1/13/04",), "%m/%d/%y %H:%M", "row 2: '1/13/04' does not match"),
        (("2004", "now"), "%Y", "row 3: 'now' does not match"),
        (("2004", "Today"), "%Y", "row 3: 'Today' does not match"),
        (("30.02.2004",), "%d.%m.%Y", "row 2: '30.02.2004' does not match"),
        (("1.2.04", None), "%d.%m.%y", r"row 3: no date \(1 empty in total\)"),
        ((20040201, 20041301), "%Y%m%d", "row 3: '20041301' does not match"),
        ((1022004, 11022004), "%d%m%Y", "row 2: '1022004' does not match"),  # 10 February without its leading zero
        ((20040201.5,), "%Y%m%d", "row 2: '20040201.5' does not match"),
        (("1.2.04 +0100", "2.2.04"), "%d.%m.%y %z", "row 3: '2.2.04' does not match"),
    ],
)
def test_a_cell_of_another_format_is_refused_by_its_row(
    cells: tuple[object, ...], date_format: str, message: str
) -> None:
    with pytest.raises(InputError, match=f"^my.csv, column 'date', {message}"):
        parse(*cells, date_format=date_format)


def test_numbers_and_empty_cells_among_them_are_read_by_a_format() -> None:
    days = [pd.Timestamp("2004-02-01"), pd.Timestamp("2014-11-02")]
    assert parse(20040201, 20141102, date_format="%Y%m%d")[0].tolist() == days
    assert parse(20040201.0, 20141102.0, date_format="%Y%m%d")[0].tolist() == days
    with pytest.raises(InputError, match=r"row 3: no date \(1 empty"):
        parse(20040201, None, date_format="%Y%m%d")
    with pytest.raises(InputError, match="row 2: 20040201 is a number, not a date"):
        parse(20040201)


def test_a_format_does_not_act_on_dates_that_are_not_text() -> None:
    day = datetime.datetime(2013, 2, 3)
    for cells in ((pd.Timestamp(day),), (day,), (day.date(),), (pd.Period(day, "D"),)):
        assert parse(*cells, date_format="%d.%m.%y")[0].tolist() == [pd.Timestamp(day)]
        assert TimeFormat(date_format="%d.%m.%y").acting_on(pd.Series(list(cells))) == TimeFormat()
    assert TimeFormat(date_format="%Y").acting_on(pd.Series(["2013"])).date_format == "%Y"


def test_offsets_of_a_format_are_kept_or_become_utc_or_dates() -> None:
    date_format = "%d.%m.%y %H:%M %z"
    index, notes = parse("03.02.13 04:00 +0100", "03.02.13 05:00 +01:00", date_format=date_format)
    assert (index[0].hour, index[0].utcoffset(), notes) == (4, datetime.timedelta(hours=1), ())
    index, notes = parse("31.03.13 01:00 +0100", "31.03.13 03:00 +0200", date_format=date_format)
    assert (str(index.tz), np.diff(index.asi8).tolist()) == ("UTC", [3600 * 10**9])
    assert "converted to UTC" in notes[0]
    index, notes = parse("30.03.13 00:00 +0100", "31.03.13 00:00 +0200", date_format=date_format)
    assert (index.tz, list(index.day)) == (None, [30, 31])
    assert "taken as dates" in notes[0]


@pytest.mark.parametrize(
    ("date_format", "message"),
    [
        *((wrong, "is not a format of dates") for wrong in ("ISO8601", "mixed", "", "%Q", "%", "%d.%d.%y", "%Y %j %U")),
        *((wrong, "has no year") for wrong in ("%m/%d", "%H:%M")),
        *((wrong, "control characters") for wrong in ("%Y\n", "%Y\x1b")),
        ("%d.%m.%Y %I:%M", "%I needs AM or PM"),
        ("%d.%m.%Y %H:%M %p", "%p needs the hour as %I"),
    ],
)
def test_a_format_that_does_not_read_dates_back_is_refused(date_format: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"^data\.date_format=.*{message}") as caught:
        TimeFormat(date_format=date_format)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("cells", "formats"),
    [
        (("01/02/2013 4:05", "02/02/2013 5:05"), ("%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M")),
        (("01.02.13", "02.02.13"), ("%d.%m.%y", "%m.%d.%y")),
    ],
)
def test_the_formats_in_a_message_read_the_dates(cells: tuple[str, str], formats: tuple[str, str]) -> None:
    with pytest.raises(InputError) as refusal:
        parse(*cells)
    words = shlex.split(str(refusal.value).partition(", or set ")[2])
    named = [word.partition("=")[2].strip('"') for word in words if word != "or"]
    assert tuple(named) == formats
    for date_format in formats:
        assert parse(*cells, date_format=date_format)[0].year.tolist() == [2013, 2013]


def test_the_column_of_dates_is_found_by_its_format() -> None:
    table = pd.DataFrame({"note": ["a", "b"], "when": ["Feb 3 13", "Feb 4 13"], "load": [2013, 2014]})
    assert find_time_column(table, "my.csv", "%b %d %y") == ("when", None)
    with pytest.raises(InputError, match=r"my.csv: no column holds dates .*data.date_format or data.time_column"):
        find_time_column(table, "my.csv")
    with pytest.raises(InputError, match=r"my.csv: no column holds dates of data.date_format=%Y .*correct it"):
        find_time_column(table, "my.csv", "%Y")


# --- day and month swapped in a part of a file


def swapped(times: pd.DatetimeIndex, which: np.ndarray, form: str = "%d/%m/%Y", other: str = "%m/%d/%Y") -> pd.Series:
    """Return dates in a format, in the other one where `which` and the day is at most 12, as a spreadsheet does."""
    return pd.Series(np.where(which & (times.day <= 12), times.strftime(other), times.strftime(form)))


@pytest.mark.parametrize("frequency", ["D", "W", "B", "6h"])
@pytest.mark.parametrize("part", [slice(None), slice(0, 150), slice(100, 300)])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("american", [False, True])
def test_the_order_of_the_rows_tells_swapped_days(frequency: str, part: slice, backwards: bool, american: bool) -> None:
    times = pd.date_range("2019-01-01", periods=400, freq=frequency)[:: -1 if backwards else 1]
    which = np.zeros(len(times), dtype=bool)
    which[part] = True
    hour = " %H:%M" if frequency == "6h" else ""
    forms = [f"%d/%m/%Y{hour}", f"%m/%d/%Y{hour}"]
    column = swapped(times, which, *(forms[::-1] if american else forms))
    read, _, notes = parse_times(column, np.arange(len(column)) + 2, "a.csv, column 'date'")
    assert list(read) == list(times)
    assert any(
        "dates have day and month swapped, as the order of the rows shows, such as row" in note for note in notes
    )


def test_doubled_rows_and_a_row_out_of_order_hide_no_swapped_days() -> None:
    times = pd.date_range("2019-01-01", periods=400, freq="D")
    times = times.append(times[[300, 5]]).take([*range(301), 400, *range(301, 360), 401, *range(360, 400)])
    column = swapped(times, np.ones(len(times), dtype=bool))
    read, _, _ = parse_times(column, np.arange(len(column)) + 2, "a.csv, column 'date'")
    assert list(np.delete(read, 361)) == list(np.delete(times, 361))


def test_dates_that_are_only_shuffled_are_read_as_written() -> None:
    times = pd.date_range("2019-01-01", periods=400, freq="D")
    column = pd.Series(times.strftime("%d/%m/%Y")).sample(frac=1, random_state=0)
    read, _, notes = parse_times(column, np.arange(400) + 2, "a.csv, column 'date'")
    assert list(read) == list(pd.to_datetime(column, format="%d/%m/%Y"))
    assert not any("swapped" in note for note in notes)
