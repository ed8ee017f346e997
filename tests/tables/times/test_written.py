from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from tests.support.reading import read_known, series_from_frame

HOURS = pd.date_range("2021-01-14", periods=200, freq="h")
DAYS = pd.date_range("2021-01-04", periods=200, freq="D")
WEEKS = pd.date_range("2015-01-05", periods=100, freq="W-MON")
MONTHS = pd.date_range("2001-01-01", periods=100, freq="MS")
SEASONS = pd.date_range("1950-01-01", periods=100, freq="QS")
HOUR, WEEK = pd.Timedelta("1h"), pd.Timedelta("6D")


def table(cells: object, count: int = 200) -> pd.DataFrame:
    return pd.DataFrame({"when": cells, "load": np.arange(count) % 7.0})


Write = Callable[[pd.Timestamp], str]

READ: dict[str, tuple[pd.DatetimeIndex, Write]] = {
    "1950Q1": (SEASONS, lambda t: f"{t.year}Q{t.quarter}"),
    "2. Quartal 1950": (SEASONS, lambda t: f"{t.quarter}. Quartal {t.year}"),
    "2015-W03": (WEEKS, lambda t: f"{t:%G-W%V}"),
    "KW 3/2015": (WEEKS, lambda t: f"KW {t.week}/{t:%G}"),
    "2001M01": (MONTHS, lambda t: f"{t:%YM%m}"),
    "Jan-01": (MONTHS, lambda t: f"{t:%b-%y}"),
    "January 5, 2021": (DAYS, lambda t: f"{t:%B %d, %Y}"),
    "05-Jan-21": (DAYS, lambda t: f"{t:%d-%b-%y}"),
    "Tue 05.01.2021": (DAYS, lambda t: f"{t:%a %d.%m.%Y}"),
    "18h": (HOURS, lambda t: f"{t:%Y/%m/%d %Hh}"),
    "6:00 PM": (HOURS, lambda t: f"{t:%B %d, %Y %I:%M %p}"),
    "24:00": (HOURS, lambda t: f"{t:%d.%m.%Y %H:%M}" if t.hour else f"{t - 24 * HOUR:%d.%m.%Y} 24:00"),
    "to the next hour": (HOURS, lambda t: f"{t:%d.%m.%Y %H:%M} - {t + HOUR:%d.%m.%Y %H:%M}"),
    "to a clock": (HOURS, lambda t: f"{t:%d.%m.%Y %H:%M} - {t + HOUR:%H:%M}"),
    "close to a clock": (HOURS, lambda t: f"{t:%Y-%m-%d %H:%M}-{t + HOUR:%H:%M}"),
    "days of a week": (WEEKS, lambda t: f"{t:%Y-%m-%d} - {t + WEEK:%Y-%m-%d}"),
    "bis": (WEEKS, lambda t: f"{t:%d.%m.%Y} bis {t + WEEK:%d.%m.%Y}"),
    "with a slash": (HOURS, lambda t: f"{t:%Y-%m-%dT%H:%MZ}/{t + HOUR:%Y-%m-%dT%H:%MZ}"),
}


@pytest.mark.parametrize("name", READ)
def test_times_are_read_as_they_are_written(name: str) -> None:
    times, write = READ[name]
    series = series_from_frame(table([write(time) for time in times], len(times)))
    index = pd.DatetimeIndex(series.frame.index)
    assert index.tz_localize(None).tolist() == times.tolist()
    assert all(not note.startswith("the time is in") for note in series.notes)


def test_a_note_says_that_the_start_of_an_interval_counts() -> None:
    _, write = READ["to the next hour"]
    notes = series_from_frame(table([write(time) for time in HOURS])).notes
    assert "the times are intervals: their starts count" in notes


def test_an_interval_that_ends_before_it_starts_is_refused_by_its_row() -> None:
    _, write = READ["to the next hour"]
    cells = [write(time) for time in HOURS]
    cells[5] = f"{HOURS[5]:%d.%m.%Y %H:%M} - {HOURS[1]:%d.%m.%Y %H:%M}"
    with pytest.raises(InputError, match="column 'when', row 7: the interval ends at 2021-01-14 01:00:00, before it"):
        series_from_frame(table(cells))


SHORT = {
    "%y-%b": (MONTHS, "data.date_format=%y-%b"),
    "%d-%b-%y": (DAYS[:20], "data.date_format=%d-%b-%y or data.date_format=%y-%b-%d"),
}


@pytest.mark.parametrize("form", SHORT)
def test_a_short_year_that_nothing_shows_is_refused_with_its_formats(form: str) -> None:
    times, words = SHORT[form]
    given = table(times.strftime(form), len(times))
    if form == "%d-%b-%y":
        given = given.iloc[::7]  # no step shows which number is the year
    with pytest.raises(InputError, match=f"has a year of two digits.*or set {words}$"):
        series_from_frame(given, frequency="D")
    if form == "%y-%b":
        assert series_from_frame(given, date_format=form).frame.index.tolist() == times.tolist()


def test_the_order_of_day_and_month_in_an_interval_is_shown_by_both_ends_or_refused_with_a_format() -> None:
    starts = pd.date_range("2021-02-01", periods=10, freq="h")
    cells = [f"{time:%d/%m/%Y %H:%M} - {time + HOUR:%d/%m/%Y %H:%M}" for time in starts]
    with pytest.raises(InputError, match="is ambiguous, day or month first"):
        series_from_frame(table(cells, 10))
    named = series_from_frame(table(cells, 10), date_format="%d/%m/%Y %H:%M")
    assert named.frame.index.tolist() == starts.tolist()


def test_a_column_of_usual_dates_is_the_time_whatever_else_is_one() -> None:
    given = table(HOURS.strftime("%Y-%m-%d %H:%M")).assign(quarter=[f"{t.year}Q{t.quarter}" for t in HOURS])
    assert series_from_frame(given, columns=["load"]).frame.index.name == "when"


def test_known_covariates_are_read_in_the_same_spellings() -> None:
    given = pd.DataFrame({"when": [f"{t:%Y}Q{t.quarter}" for t in SEASONS], "rate": np.arange(100.0)})
    assert read_known(given, "future.csv", covariates=["rate"], known=["rate"]).frame.index.tolist() == SEASONS.tolist()


def test_a_word_among_the_times_is_refused_by_its_row_as_before() -> None:
    cells = HOURS.strftime("%Y-%m-%d %H:%M").tolist()
    cells[9] = "January 14, 2021"
    with pytest.raises(InputError, match="row 11: 'January 14, 2021' is not a date, or has another format than"):
        series_from_frame(table(cells))
