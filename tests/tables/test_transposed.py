from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.tables.repair import Policies
from forecast.tables.transposed import is_header_of_dates, upright
from tests.support.reading import read_series, series_from_frame

DAYS = pd.date_range("2020-01-22", periods=60, freq="D")
MONTHS = pd.date_range("2005-01-01", periods=60, freq="MS")
QUARTERS = pd.date_range("1980-01-01", periods=60, freq="QS")
YEARS = pd.date_range("1960-01-01", periods=60, freq="YS")

NAMES: dict[str, tuple[pd.DatetimeIndex, Callable[[pd.Timestamp], str]]] = {
    "1/22/20": (DAYS, lambda time: f"{time.month}/{time.day}/{time:%y}"),
    "22.01.2020": (DAYS, lambda time: f"{time:%d.%m.%Y}"),
    "2020-01-22": (DAYS, lambda time: f"{time:%Y-%m-%d}"),
    "20200122": (DAYS, lambda time: f"{time:%Y%m%d}"),
    "X2020.01.22": (DAYS, lambda time: f"X{time:%Y.%m.%d}"),
    "2005-01": (MONTHS, lambda time: f"{time:%Y-%m}"),
    "200501": (MONTHS, lambda time: f"{time:%Y%m}"),
    "Jan 2005": (MONTHS, lambda time: f"{time:%b %Y}"),
    "Jan-05": (MONTHS, lambda time: f"{time:%b-%y}"),
    "1980Q1": (QUARTERS, lambda time: f"{time.year}Q{time.quarter}"),
    "1960": (YEARS, lambda time: str(time.year)),
    "1960 [YR1960]": (YEARS, lambda time: f"{time.year} [YR{time.year}]"),
}


def wide(form: str, **before: list[object]) -> tuple[pd.DatetimeIndex, pd.DataFrame]:
    times, written = NAMES[form]
    rows = len(next(iter(before.values())))
    values = pd.DataFrame(np.arange(rows * len(times)).reshape(rows, -1) % 17.0, columns=[*map(written, times)])
    return times, pd.concat([pd.DataFrame(before), values], axis=1)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_with_dates_across_its_columns_is_a_panel(name: str, tmp_path: Path) -> None:
    times, table = wide(name, page=["a", "b", "c"])
    table.to_csv(tmp_path / "wide.csv", index=False)
    series = read_series(tmp_path / "wide.csv")
    assert series.ids is not None
    assert (series.ids.columns, series.ids.names) == (("page",), (("a",), ("b",), ("c",)))
    assert series.frame.index.tolist() == times.tolist() * 3
    assert series.frame["value"].tolist() == table.iloc[:, 1:].to_numpy().ravel().tolist()
    assert any("(data.id_columns=[page])" in note for note in series.notes)


def test_one_row_is_one_series_with_its_name() -> None:
    times, table = wide("2005-01", page=["total"])
    series = series_from_frame(table)
    assert (series.ids, list(series.frame), series.frame.index.tolist()) == (None, ["total"], times.tolist())


def test_as_many_columns_as_are_needed_identify_a_series() -> None:
    province: list[object] = [None, None, "x"]
    _, table = wide("1/22/20", province=province, country=["a", "b", "b"], lat=[1.5, 2.5, 3.5])
    series = series_from_frame(table)
    assert series.ids is not None
    assert series.ids.columns == ("province", "country")
    assert ("(none)", "b") in series.ids.names
    _, table = wide("1960", name=["a", "b"], code=["A", "B"])
    assert upright(table, "my.csv").ids == ("name",)


def test_rows_of_the_same_name_are_refused() -> None:
    _, table = wide("1960", name=["a", "a"])
    with pytest.raises(InputError, match="row 3: 'name' have the same cells as a row before"):
        series_from_frame(table)


def test_names_that_may_be_two_dates_are_refused_with_their_formats() -> None:
    table = pd.DataFrame({"page": ["a", "b"], "01/02/03": [1, 2], "02/02/03": [2, 3], "05/02/03": [3, 4]})
    with pytest.raises(InputError, match=r"row 1: '01/02/03' is a date that may be .*set data\.date_format") as refusal:
        series_from_frame(table)
    assert "%d/%m/%y" in str(refusal.value)
    series = series_from_frame(table, date_format="%d/%m/%y", frequency="D", policies=Policies("error", "mask"))
    assert series.frame.index[0] == pd.Timestamp("2003-02-01")


def test_a_table_with_its_times_in_a_column_stays_as_it_is() -> None:
    _, table = wide("1960", name=["a", "b"])
    for column in (["2020-01-01", "2020-01-02"], [20200101, 20200102]):
        dated = table.assign(date=column)[["date", *table.columns]]
        assert upright(dated, "my.csv").frame is dated
    years = pd.DataFrame({"Year": [1990, 1991], "Month": [1, 2], **dict.fromkeys(["2001", "2002", "2003"], 1.0)})
    assert upright(years, "my.csv").frame is years


def test_a_row_of_data_is_no_header() -> None:
    assert is_header_of_dates(["page", "2020-01-01", "2020-01-02", "2020-01-03"])
    assert not is_header_of_dates(["page", "2020-01-01", "2020-01-02", "2020-01-03"], ["2020-01-05", "1", "2", "3"])
    for cells in (
        ["2020-01-01", "1", "2"],
        ["a", "2020-01-03", "2020-01-01", "2020-01-02"],
        ["a", "1.8.0", "2.8.0", "3.8.0"],
    ):
        assert not is_header_of_dates(cells)
