"""Blanks at the ends of column names are removed from files, frames and options alike."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.common.files import ENDINGS
from forecast.data.settings import DataSettings, name_of
from forecast.data.sources import load_source
from forecast.tables.files import read_table, tidy_name, tidy_names
from forecast.tables.roles import static_values
from tests.support.examples import real_file
from tests.support.reading import read_series, series_from_frame
from tests.support.small import compose, hourly, write

SPACED = {"date": "date ", "load": " load", "oil": "\toil\n", "air": "air"}
NOTE = "column names without their blanks: 'date', 'load', 'oil'"


def spaced(names: dict[str, str] = SPACED) -> pd.DataFrame:
    return hourly(50).rename(columns=names)


def as_csv(folder: Path, table: pd.DataFrame) -> Path:
    return write(folder / "my.csv", table)


def as_parquet(folder: Path, table: pd.DataFrame) -> Path:
    table.to_parquet(folder / "my.parquet")
    return folder / "my.parquet"


FILES: dict[str, Callable[[Path, pd.DataFrame], Path]] = {"csv": as_csv, "parquet": as_parquet}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_with_blanks_around_its_names_is_read_with_one_note(kind: str, tmp_path: Path) -> None:
    series = read_series(FILES[kind](tmp_path, spaced()))
    pd.testing.assert_frame_equal(series.frame, series_from_frame(hourly(50)).frame)
    assert series.notes == (NOTE,)


def test_a_frame_and_its_index_are_read_alike() -> None:
    given = spaced()
    before = given.copy()
    expected = series_from_frame(hourly(50)).frame
    for table in (given, given.set_index("date ")):
        series = series_from_frame(table)
        pd.testing.assert_frame_equal(series.frame, expected)
        assert series.notes == (NOTE,)
    pd.testing.assert_frame_equal(given, before)
    assert series_from_frame(hourly(50)).notes == ()


@pytest.mark.parametrize("kind", FILES)
def test_options_name_a_column_with_or_without_its_blanks(kind: str, tmp_path: Path) -> None:
    path = FILES[kind](tmp_path, spaced(SPACED | {"oil": "oil "}))
    for words in (["date", "load", "oil"], ["date ", " load", "oil "], [" date", "load  ", "  oil"]):
        options = ["data=csv", f"data.path={path}", f"data.time_column='{words[0]}'"]
        options += [f"data.targets=['{words[1]}']", f"data.past_covariates=['{words[2]}']"]
        source = load_source(DataSettings.parse(compose(*options)["data"]))
        assert (source.targets, source.roles.past) == (["load"], ["oil"])
        assert list(source.series.frame) == ["load", "oil"]
        series = read_series(path, time_column=words[0], columns=words[1:], covariates=words[2:])
        pd.testing.assert_frame_equal(series.frame, source.series.frame)


def test_a_covariate_with_blanks_is_no_target() -> None:
    given = spaced()
    given.loc[40:, " load"] = np.nan
    series = series_from_frame(given, columns=[" load", "\toil\n"], covariates=["\toil\n"])
    assert (list(series.frame), len(series.frame)) == (["load", "oil"], 40)
    given[" load"] = "text"
    with pytest.raises(InputError) as caught:
        series_from_frame(given.astype({" load": str}), columns=[" load", "air"])
    assert "data.targets=[air]" not in str(caught.value)


def test_the_real_file_with_blanks_before_its_names_is_read() -> None:
    series = read_series(real_file("EPF_NP.csv"), columns=[" Grid load forecast", "OT"])
    assert list(series.frame) == ["Grid load forecast", "OT"]
    assert series.notes == ("column names without their blanks: 'Grid load forecast', 'Wind power forecast'",)
    assert series.frame.iloc[0].tolist() == [42497, 31.05]


@pytest.mark.parametrize("kind", FILES)
def test_names_that_differ_in_blanks_alone_are_refused(kind: str, tmp_path: Path) -> None:
    table = hourly(50).rename(columns={"oil": "load "})
    with pytest.raises(InputError, match=r"row 1: column 'load' appears twice: rename one of the two$"):
        read_series(FILES[kind](tmp_path, table))
    with pytest.raises(InputError, match="the frame, row 1: column 'load' appears twice"):
        series_from_frame(table)


def test_a_name_of_blanks_alone_is_no_name() -> None:
    table, notes = tidy_names(hourly(50).rename(columns={"air": "  "}), "mine")
    assert (list(table), notes) == (["date", "load", "oil", "Unnamed: 3"], ())


def test_names_inside_a_guard_of_formulas_are_kept(tmp_path: Path) -> None:
    (tmp_path / "my.csv").write_text("date, '=a ,b\n2016-07-01,1,2\n2016-07-02,2,2\n2016-07-03,3,2\n")
    assert list(read_series(tmp_path / "my.csv").frame) == ["=a", "b"]


def test_many_changed_names_are_one_short_note() -> None:
    table = pd.DataFrame({f" column {place}": [1.0] for place in range(100)})
    (note,) = tidy_names(table, "mine")[1]
    assert note.endswith("'column 11', …")


def test_only_text_is_tidied() -> None:
    assert tidy_name([" a", 5, None, "b "]) == ["a", 5, None, "b"]
    assert tidy_name(None) is None


def test_static_covariates_name_their_targets_without_blanks() -> None:
    data = compose("data=csv", "data.path=my.csv")["data"] | {"static_covariates": {" region": {" load": "north"}}}
    assert DataSettings.parse(data).static_covariates == {"region": {"load": "north"}}


def test_static_covariates_of_targets_whose_names_are_numbers() -> None:
    assert static_values({"region": {0: "north", "1": "south"}}, ["0", "1"]) == {"region": ["north", "south"]}


@pytest.mark.parametrize("names", ["1.8.0,2.8.0", "10.0.0.1,host", "1-0:1.8.0,v1.2.3"])
def test_codes_of_meters_and_addresses_are_names(names: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"date,{names}\n2020-01-01,1,2\n2020-01-02,3,4\n2020-01-03,5,6\n")
    assert list(read_table(path)) == ["date", *names.split(",")]


@pytest.mark.parametrize("end", [*ENDINGS[1:], ".csv.gz", ".CSV"])
def test_each_ending_of_a_table_is_read_and_left_out_of_its_name(end: str, tmp_path: Path) -> None:
    assert name_of(Path(f"my{end}")) == "my"
    with pytest.raises(InputError, match="no such file"):
        read_table(tmp_path / f"my{end}")
    (tmp_path / "my.doc").touch()
    with pytest.raises(InputError, match=r"only \.csv, \.csv\.gz, .* are read"):
        read_table(tmp_path / "my.doc")


@pytest.mark.parametrize("row", ["2016-07-01,5", "1.7.2016,5", "01/07/16 10:00,5", "2016-07-01T00:00:00Z,5"])
def test_a_first_row_of_data_is_no_header(row: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{row}\n2016-07-02,6\n")
    with pytest.raises(InputError, match="is data, not a column name: add a header row"):
        read_table(path)


@pytest.mark.slow
def test_a_header_of_more_than_a_megabyte_is_read_to_its_end(tmp_path: Path) -> None:
    names = [f"{place:071d}" for place in range(15_000)]
    path = tmp_path / "wide.csv"
    path.write_text("date," + ",".join(names) + "\n2020-01-01" + ",1" * len(names) + "\n")
    assert list(read_table(path).columns) == ["date", *names]
