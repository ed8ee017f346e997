"""Tables in memory: pandas, Arrow, and what is refused."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow
import pytest

from forecast.common.errors import InputError
from forecast.tables.formats.frames import as_frame, described


def test_a_table_of_another_package_is_described_with_its_package_and_its_conversion() -> None:
    frame = type("DataFrame", (), {"__module__": "numpy.frames", "to_pandas": None})  # a package that is there
    assert described(frame()) == "a DataFrame of numpy: give its .to_pandas()"
    assert described(np.zeros(3)) == "a ndarray of numpy"
    assert described("next.csv") == "a str"
    assert described(pd.Series([1.0], name="load")) == "a Series 'load'"


def hours(rows: int = 5) -> pd.DataFrame:
    return pd.DataFrame({"date": pd.date_range("2024-01-01", periods=rows, freq="h"), "load": np.arange(float(rows))})


def test_a_table_of_arrow_is_the_same_table() -> None:
    found = as_frame(pyarrow.Table.from_pandas(hours(), preserve_index=False))
    pd.testing.assert_frame_equal(found, hours(), check_freq=False)


def test_a_reader_of_record_batches_is_a_table_and_a_decimal_is_a_number() -> None:
    columns = {"date": [dt.date(2024, 1, day) for day in (1, 2)], "load": [Decimal("1.5"), Decimal("2.25")]}
    found = as_frame(pyarrow.table(columns).to_reader())
    assert found["load"].dtype == np.float64
    assert list(found["load"]) == [1.5, 2.25]


@pytest.mark.parametrize("package", ["polars", "duckdb"])
def test_a_table_of_another_package_is_the_same_table(package: str) -> None:
    module = pytest.importorskip(package)
    own = hours()
    other = module.from_pandas(own) if package == "polars" else module.sql("select * from own")
    pd.testing.assert_frame_equal(as_frame(other), own, check_dtype=False, check_freq=False)


def test_times_and_ids_of_an_index_are_columns_with_text_as_names() -> None:
    assert list(as_frame(hours().set_index("date").rename_axis(None)).columns) == ["date", "load"]
    index = pd.MultiIndex.from_product([["a", "b"], hours()["date"]], names=["store", "time"])
    assert list(as_frame(pd.DataFrame({1: 0.0}, index=index)).columns) == ["store", "time", "1"]
    assert list(as_frame(hours().set_index("date")["load"]).columns) == ["date", "load"]


def test_what_is_no_table_and_equal_names_are_refused() -> None:
    with pytest.raises(InputError, match="the frame must be a table with a column of times: this is a list"):
        as_frame([1, 2])
    with pytest.raises(InputError, match="this is a ChunkedArray of pyarrow"):
        as_frame(pyarrow.chunked_array([[1.0]]))
    with pytest.raises(InputError, match="two columns are named 'load'"):
        as_frame(hours().set_axis(["load", "load"], axis=1))
