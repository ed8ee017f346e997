import pandas as pd
import pytest

from forecast.tables.times.spellings import YEAR_FIRST, YEAR_LAST, respelled, spell

DAYS = [
    *("January 5, 2021", "5 January 2021", "5. Januar 2021", "Tue Jan 5 2021", "Tuesday, January 5, 2021"),
    *("2021-Jan-05", "05JAN2021", "5 de enero de 2021", "le 5 janvier 2021", "5 gennaio 2021", "5 januari 2021"),
    *("5 de janeiro de 2021", "mar. 5 janv. 2021", "5th January 2021", "20210105", "2021-005", "2021-W01-2"),
]
QUARTERS = ["2021Q1", "2021-Q1", "Q1 2021", "Q1/2021", "2021 q1", "1Q2021", "1. Quartal 2021", "2021:Q1", "T1 2021"]
WEEKS = ["2021-W02", "2021W02", "W02 2021", "KW 2 2021", "2021/KW02", "Woche 2 2021", "week 2, 2021"]
MONTHS = ["2021M01", "Jan 2021", "January 2021", "Jan-2021", "2021-Jan", "01/2021", "enero de 2021", "janv. 2021"]
CLOCKS = [
    *("2021/01/05 12h30", "20210105T1230", "20210105 12:30", "2021-01-05 12:30:00,000", "Jan 5 2021 12:30PM"),
    *("5 Jan 2021 12:30", "2021-01-05-12.30.00", "5. Januar 2021, 12:30 Uhr", "2021-01-05 12.30", "20210105_123000"),
    *("January 5, 2021 at 12:30 p.m.", "05JAN2021:12:30:00", "Tue Jan 05 12:30:00 2021", "2021-01-05 1230"),
]
INTERVALS = [
    *("2021-01-05 - 2021-01-11", "2021-01-05 \u2013 2021-01-11", "2021-01-05 to 2021-01-11", "2021-01-05/2021-01-11"),
    *("2021-01-05..2021-01-11", "5-11 January 2021", "Jan 5 - Jan 11, 2021", "2021-01-05 bis 2021-01-11"),
]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        *((cell, "2021-01-05") for cell in DAYS),
        *((cell, "2021-01-01") for cell in QUARTERS),
        *((cell, "2021-01-11") for cell in WEEKS),
        *((cell, "2021-01") for cell in MONTHS if cell != "2021M01"),
        *((cell, "2021-01-05 12:30:00") for cell in CLOCKS),
        *((cell, "2021-01-05") for cell in INTERVALS),
    ],
)
def test_a_cell_is_rewritten_as_a_usual_date(cell: str, text: str) -> None:
    spelled = spell(cell)
    assert spelled is not None
    assert pd.Timestamp(spelled.text.replace("/", "-")) == pd.Timestamp(text)
    assert bool(spelled.end) == (cell in INTERVALS)


@pytest.mark.parametrize(
    "cell",
    [
        *("hello", "10.0.0.1", "1.8.0", "99", "3-4", "Sat", "may", "1234", "2021-W54", "2021Q5", "30 February 2021"),
        *("2021-01-05 25:00", "2021-01-05 12:61", "Jan-21", "21-Jan", "05-Jan-21", "2021-01-05 24:30", "x" * 10**6),
    ],
)
def test_a_cell_that_is_no_time_or_has_a_short_year_is_not_rewritten(cell: str) -> None:
    assert spell(cell) is None


def test_the_end_of_a_day_is_the_next_midnight_and_a_zone_is_kept_by_its_name() -> None:
    for cell, days, zone in (("05.01.2021 24:00", 1, ""), ("05.01.2021 23:00 MEZ", 0, "MEZ")):
        spelled = spell(cell)
        assert spelled is not None
        assert (spelled.days, spelled.zone) == (days, zone)


def test_the_place_of_a_short_year_is_a_style() -> None:
    last, first = spell("05-Jan-21", YEAR_LAST), spell("05-Jan-21", YEAR_FIRST)
    assert last is not None
    assert first is not None
    assert (last.text, first.text) == ("2021-01-05", "2005-01-21")


def test_a_column_with_two_kinds_of_times_is_not_rewritten() -> None:
    assert respelled(pd.Series(["2021Q1", "2021M04"])) is None
    assert respelled(pd.Series(["2021Q1", "x"])) is None
