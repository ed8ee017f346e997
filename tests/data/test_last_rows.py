"""Only the last rows by time are used."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data.settings import DataSettings
from forecast.data.sources import load_source
from forecast.tables.series import Series
from tests.support.reading import series_from_frame
from tests.support.small import compose, hourly, write


def read(given: pd.DataFrame, count: int | None) -> Series:
    return series_from_frame(given, columns=["load", "air"], covariates=["air"], last_rows=count)


@pytest.mark.parametrize("count", [3, 50, 99])
@pytest.mark.parametrize("order", [1, -1], ids=["in order", "newest first"])
def test_the_last_rows_are_as_if_the_others_were_not_there(count: int, order: int) -> None:
    table = hourly(100)
    series = read(table.iloc[::order], count)
    pd.testing.assert_frame_equal(series.frame, read(table.tail(count), None).frame, check_exact=True)
    begin, number = table["date"].iloc[-count], 100 - count
    rows = "the first row was" if number == 1 else f"the first {number} rows were"
    assert f"{rows} left out: data.last_rows={count} begins at {begin}" in series.notes


def test_empty_cells_gaps_and_text_before_the_last_rows_are_not_checked() -> None:
    table = hourly(100).astype({"load": object}).drop(index=[5, 6])
    table.loc[10:20, "load"], table.loc[21, "load"] = np.nan, "maintenance"
    with pytest.raises(InputError, match="maintenance"):
        read(table, None)
    with pytest.raises(InputError, match="column 'load', row 21: 'maintenance' is not a number"):
        read(table, 79)
    assert read(table, 78).frame.index[0] == pd.Timestamp(hourly(100)["date"][22])


def test_rows_after_the_last_target_do_not_count() -> None:
    table = hourly(100)
    table.loc[90:, "load"] = np.nan
    assert read(table, 20).frame.index.equals(pd.DatetimeIndex(table["date"][70:90]))
    with pytest.raises(InputError, match=r"data\.last_rows=91: the table has 90 rows: lower it"):
        read(table, 91)
    series = read(table, 90)
    assert len(series.frame) == 90
    assert not any("last_rows" in note for note in series.notes)


def test_the_option_reaches_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "my.csv", hourly(100))
    words = ["data=csv", f"data.path={path}"]
    source = load_source(DataSettings.parse(compose(*words, "data.last_rows=40")["data"]))
    assert len(source.series.frame) == 40
    for count, message in ((101, rf"^{path}: data\.last_rows=101: the table has 100 rows"), (0, "must be at least 1")):
        with pytest.raises(InputError, match=message):
            load_source(DataSettings.parse(compose(*words, f"data.last_rows={count}")["data"]))
