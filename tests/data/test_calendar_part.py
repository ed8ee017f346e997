import pandas as pd
import pytest

from forecast.data.calendar import calendar_part


@pytest.mark.parametrize(
    ("frequency", "name"),
    [
        *(("15min", "hour of day"), ("h", "hour of day"), ("6h", "hour of day"), ("D", "day of week")),
        *(("B", "day of week"), ("W-SUN", "month of year"), ("MS", "month of year"), ("QS-JAN", "month of year")),
    ],
)
def test_errors_are_grouped_by_the_finest_calendar_part_that_the_step_allows(frequency: str, name: str) -> None:
    part = calendar_part(frequency)
    assert part is not None
    assert part.name == name


def test_a_step_of_a_year_has_no_calendar_part() -> None:
    assert calendar_part("YS-JAN") is None


def test_numbers_match_the_labels() -> None:
    times = pd.DatetimeIndex(["2024-02-25 23:45", "2024-12-30 00:10"])  # a Sunday and a Monday
    found = {}
    for frequency in ("h", "D", "MS"):
        part = calendar_part(frequency)
        assert part is not None
        found[part.name] = [part.labels[number] for number in part.numbers(times)]
    assert found == {"hour of day": ["23", "0"], "day of week": ["Sun", "Mon"], "month of year": ["Feb", "Dec"]}
