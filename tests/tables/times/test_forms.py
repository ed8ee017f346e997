"""Times parsed by their parts are those that pandas reads from whole cells."""

import pandas as pd
import pytest

from forecast.tables.times.forms import parse_by_parts

FORMATS = ["%d.%m.%Y %H:%M", "%m/%d/%Y %I:%M:%S %p", "%Y/%m/%dT%H:%M:%S.%f", "%d.%m.%y %H:%M:%S"]


@pytest.mark.parametrize("pattern", FORMATS)
def test_each_cell_has_the_time_that_pandas_reads(pattern: str) -> None:
    cells = pd.Series(pd.date_range("2015-12-30 22:00", periods=500, freq="37min").strftime(pattern))
    mark = "T" if "T" in pattern else " "
    cells.iloc[7] = "31.02.2016" + mark + cells.iloc[7].partition(mark)[2]
    cells.iloc[9] = cells.iloc[9].partition(mark)[0] + mark + "25:00"
    cells.iloc[11] = "soon" + mark

    read = parse_by_parts(cells, pattern)

    expected = pd.DatetimeIndex(pd.to_datetime(cells, format=pattern, errors="coerce")).as_unit("ns")
    assert read is not None
    assert read.equals(expected)
    assert list(read.isna().nonzero()[0]) == [7, 9, 11]


@pytest.mark.parametrize(
    ("pattern", "cells"),
    [
        ("%d.%m.%Y", ["01.02.2016"]),
        ("%d %b %Y %H:%M", ["01 Jul 2016 00:00"]),
        ("%Y-%m-%d %H:%M%z", ["2016-07-01 00:00+01:00"]),
        ("%d.%m.%Y %H:%M", ["01.02.2016 00:00", None]),
        ("%d.%m.%Y %H:%M", ["01.02.2016 00:00", "02.02.2016"]),
    ],
)
def test_what_has_no_two_parts_is_left_to_pandas(pattern: str, cells: list[str | None]) -> None:
    assert parse_by_parts(pd.Series(cells), pattern) is None
