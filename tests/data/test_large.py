"""Tables that are read in blocks."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data import large
from forecast.data.large import is_large, read_large
from forecast.tables.formats import folders
from forecast.tables.reading import Reading
from forecast.tables.repair import Policies
from forecast.tables.roles import Roles
from forecast.tables.series import Series, read_series
from tests.support.panels import stores
from tests.support.small import write

SALES = Roles(targets=["sales"], known=["promo", "kind"], ids=["store"])
LOADS = Roles(targets=["load", "oil"])


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in blocks of 700 rows of five columns, and whatever is above 10 KiB."""
    monkeypatch.setattr(large, "BLOCK_BYTES", 700 * 5 * 8)
    monkeypatch.setattr(folders, "BATCH_BYTES", 300 * 5 * 8)
    monkeypatch.setenv("FORECAST_MAX_TABLE_MIB", "0.01")


def whole(path: Path, roles: Roles, reading: Reading, monkeypatch: pytest.MonkeyPatch) -> Series:
    """Return the series as a table in memory is read."""
    monkeypatch.setenv("FORECAST_MAX_TABLE_MIB", "100")
    return read_series(path, roles, reading)


def in_folder(table: pd.DataFrame, folder: Path, files: int = 3) -> Path:
    """Write a table as files of a folder."""
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(table)), files)):
        table.iloc[rows].to_parquet(folder / f"{number}.parquet", index=False)
    return folder


def loads(rows: int = 3000) -> pd.DataFrame:
    """Return one series of two columns."""
    random, times = np.random.default_rng(0), pd.date_range("2024-01-01", periods=rows, freq="h")
    return pd.DataFrame({"date": times, "load": random.standard_normal(rows), "oil": random.standard_normal(rows)})


def assert_same(found: Series, expected: Series) -> None:
    """Raise AssertionError unless the values, times, ids and labels are the same; labels may have other numbers."""
    for name in found.labels:
        cells = [series.frame[name].map(dict(enumerate(series.labels[name]))) for series in (found, expected)]
        pd.testing.assert_series_equal(*cells, check_freq=False)
    plain = [name for name in found.frame.columns if name not in found.labels]
    pd.testing.assert_frame_equal(found.frame[plain], expected.frame[plain], check_freq=False, check_exact=True)
    assert (found.observed is None) == (expected.observed is None)
    if found.observed is not None and expected.observed is not None:
        np.testing.assert_array_equal(found.observed, expected.observed)
    assert (found.ids is None) == (expected.ids is None)
    if found.ids is not None and expected.ids is not None:
        assert (found.ids.names, found.ids.columns) == (expected.ids.names, expected.ids.columns)
        np.testing.assert_array_equal(found.ids.offsets, expected.ids.offsets)
        np.testing.assert_array_equal(found.ids.steps, expected.ids.steps)
        assert found.ids.only(np.array([0, 2])).names == expected.ids.only(np.array([0, 2])).names
        assert sum(len(table.frame) for table in found.ahead) == sum(len(table.frame) for table in expected.ahead)
    assert (found.frequency, found.policies) == (expected.frequency, expected.policies)


@pytest.mark.parametrize("filled", [False, True])
def test_a_panel_is_the_same_in_blocks(filled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, reading = stores(), Reading()
    if filled:
        table.loc[[40, 41, 900], "sales"] = np.nan
        table = table.drop(index=[100, 101, 1500])
        reading = replace(reading, policies=Policies(missing="mask"))
    path = in_folder(table.sample(frac=1, random_state=0), tmp_path / "in")
    assert is_large(path, SALES, reading)
    found = read_large(path, SALES, reading)
    assert found.notes[0] == "read in 4 parts of 10 series in total"
    assert isinstance(found.frame.to_numpy().base, np.ndarray)
    assert_same(found, whole(path, SALES, reading, monkeypatch))


@pytest.mark.parametrize("kind", ["folder", "csv"])
def test_one_series_is_the_same_in_stretches(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = in_folder(loads(), tmp_path / "in") if kind == "folder" else write(tmp_path / "a.csv", loads())
    monkeypatch.setattr(large, "BLOCK_BYTES", 700 * 3 * 8)
    assert is_large(path, LOADS, Reading())
    assert_same(read_large(path, LOADS, Reading()), whole(path, LOADS, Reading(), monkeypatch))


def test_a_long_text_file_is_the_same_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = stores()
    path = write(tmp_path / "stores.csv", table.assign(region=table["store"].map({7: "BY", 10: "2"}).fillna("BE")))
    reading = Reading(region="region")
    found, expected = read_large(path, SALES, reading), whole(path, SALES, reading, monkeypatch)
    assert_same(found, expected)
    assert found.ids is not None
    assert expected.ids is not None
    assert found.ids.regions is not None
    assert list(found.ids.regions) == list(expected.ids.regions) == [*["BE"] * 6, "BY", "BE", "BE", "2"]


def test_what_a_border_of_two_parts_could_change_is_refused(tmp_path: Path) -> None:
    path = in_folder(loads(), tmp_path / "in")
    for roles, reading, message in (
        (Roles(), Reading(), "data.targets=null: name the targets"),
        (LOADS, Reading(last_rows=5), "data.last_rows=5: set it to null"),
        (LOADS, Reading(policies=Policies(missing="mask")), "without data.missing=mask: repair the table before"),
    ):
        with pytest.raises(InputError, match=message):
            read_large(path, roles, reading)
    shuffled = in_folder(loads().iloc[::-1], tmp_path / "other")
    with pytest.raises(InputError, match=r"part 2 begins at .* is next: sort the rows"):
        read_large(shuffled, LOADS, Reading())


def test_a_small_folder_is_read_as_one_table(tmp_path: Path) -> None:
    table = loads(100)
    table.loc[:49, "load"] = np.arange(50)
    path = in_folder(table[50:], tmp_path / "in")
    table[:50].astype({"load": int}).to_parquet(path / "-1.parquet", index=False)
    assert not is_large(path, Roles(), Reading())
    assert read_series(path).frame["load"].tolist() == table["load"].tolist()


def test_files_with_other_columns_and_folders_without_files_are_refused(tmp_path: Path) -> None:
    path = in_folder(loads(100), tmp_path / "in")
    loads(50).rename(columns={"oil": "gas"}).to_parquet(path / "x.parquet", index=False)
    with pytest.raises(InputError, match=r"x.parquet: its columns are not those of"):
        read_series(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"a folder without .parquet files"):
        read_series(tmp_path / "empty")
