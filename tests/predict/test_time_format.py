"""The times of an input table and of a table of known covariates, in the format of training."""

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.predict.input import read_input
from forecast.tables.times.time_format import TimeFormat
from tests.support.contracts import contract_of
from tests.support.reading import read_known

TIMES = pd.date_range("2024-01-30", periods=30, freq="h")
FORMAT = TimeFormat(date_format="%d.%m.%y %H:%M")
BOTH = TimeFormat(("Date", "Hour"), "%m/%d/%y", 1)


def check(dates: object, time_format: TimeFormat = FORMAT) -> pd.DatetimeIndex:
    table = pd.DataFrame({"date": dates, "load": np.arange(30.0)})
    expected = contract_of(time_format=time_format)
    return pd.DatetimeIndex(read_input(expected, table, "mine").frame.index)


@pytest.mark.parametrize(
    "dates", [TIMES.strftime("%d.%m.%y %H:%M"), TIMES.astype(str), TIMES, TIMES.strftime("%d.%m.%Y %H:%M")]
)
def test_dates_in_the_format_of_training_or_unmistakable_ones_are_read(dates: object) -> None:
    assert check(dates).tolist() == TIMES.tolist()


def test_a_format_of_training_decides_before_the_dates_do() -> None:
    swapped = TimeFormat(date_format="%Y-%d-%m %H")
    assert check(TIMES[:10].append(TIMES[:20] + pd.Timedelta(hours=10)).strftime("%Y-%d-%m %H"), swapped)[0] == TIMES[0]
    text = TIMES.strftime("%d.%m.%y %H:%M").to_numpy(dtype=object)
    text[7] = "2024-01-30 07:00"
    with pytest.raises(InputError, match="column 'date', row 9: '2024-01-30 07:00' does not match"):
        check(text)
    with pytest.raises(InputError, match="row 2: '30/01/24 00:00' has a year of two digits"):
        check(TIMES.strftime("%d/%m/%y %H:%M"))


@pytest.mark.parametrize("name", ["T", " T"])
def test_known_covariates_are_read_in_two_columns_or_one(name: str) -> None:
    """A horizon without hour 24 is numbered as in training."""
    hours = TIMES[3:9]
    given = pd.DataFrame({"Date": hours.strftime("%m/%d/%y"), "Hour": hours.hour + 1, name: np.arange(6.0)})
    for table in (given, pd.DataFrame({"Date": hours.astype(str), name: np.arange(6.0)})):
        time_format = BOTH.fitting(table, "Date")
        ahead = read_known(
            table, source="mine", time_column="Date", known=["T"], categorical=[], time_format=time_format
        )
        assert ahead.frame.index.tolist() == hours.tolist()
        assert ahead.frame["T"].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "cells", [TIMES.strftime("%Y%m%d%H").astype(int), TIMES.strftime("%Y%m%d%H"), TIMES.astype(str)]
)
def test_numbers_that_are_dates_in_the_format_of_training_are_read(cells: object) -> None:
    assert check(cells, TimeFormat(date_format="%Y%m%d%H")).tolist() == TIMES.tolist()


def test_a_time_column_of_another_name_may_have_another_format() -> None:
    expected = contract_of(time_format=FORMAT)
    for cells in (TIMES.strftime("%d.%m.%y %H:%M"), TIMES.astype(str)):
        table = pd.DataFrame({"when": cells, "load": np.arange(30.0)})
        assert read_input(expected, table, "mine").frame.index.tolist() == TIMES.tolist()


def test_two_columns_of_dates_without_that_of_training_are_refused_with_its_name() -> None:
    expected = contract_of()
    table = pd.DataFrame({"valid": TIMES.astype(str), "issued": TIMES.astype(str), "load": np.arange(30.0)})
    with pytest.raises(InputError, match="'valid', 'issued' all hold dates: rename one of them to 'date'"):
        read_input(expected, table, "mine")
    assert read_input(expected, table.drop(columns="issued"), "mine").frame.index.tolist() == TIMES.tolist()


def test_a_column_in_the_format_of_training_is_the_time_column_beside_other_dates() -> None:
    expected = contract_of(time_format=FORMAT)
    times = TIMES.strftime("%d.%m.%y %H:%M")
    table = pd.DataFrame({"when": times, "issued": TIMES.astype(str), "load": np.arange(30.0)})
    assert read_input(expected, table, "mine").frame.index.tolist() == TIMES.tolist()
