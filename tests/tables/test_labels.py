import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.common.spreadsheet import guard
from forecast.tables import labels
from forecast.tables.files import read_table
from forecast.tables.labels import EMPTY, decode_labels, encode_covariates
from forecast.tables.repair import Policies
from tests.support.reading import read_known, read_series, series_from_frame

ROWS = np.arange(2, 6)


def encoded(values: list[object], categorical: tuple[str, ...] = ()) -> tuple[list[float], tuple[str, ...] | None]:
    frame, labels = encode_covariates(pd.DataFrame({"x": values}), ["x"], categorical, ROWS, "a.csv")
    return frame["x"].tolist(), labels.get("x")


def test_text_becomes_places_in_its_labels() -> None:
    assert encoded(["b", " a", "b", "a "]) == ([0, 1, 0, 1], ("b", "a"))


def test_an_empty_cell_has_no_label() -> None:
    codes, labels = encoded(["b", None, " ", "a"])
    assert labels == ("b", "a")
    assert np.isnan(codes).tolist() == [False, True, True, False]


@pytest.mark.parametrize("values", [[True, False, True, True], [True, False, None, True]])
def test_true_and_false_become_one_and_zero(values: list[object]) -> None:
    numbers, labels = encoded(values)
    assert labels is None
    assert np.nan_to_num(numbers, nan=9).tolist() == [9 if value is None else float(bool(value)) for value in values]


def test_equal_text_becomes_a_label_once_and_true_is_not_one(monkeypatch: pytest.MonkeyPatch) -> None:
    read, seen = labels.label_of, list[object]()
    monkeypatch.setattr(labels, "label_of", lambda cell: (seen.append(cell), read(cell))[1])

    _, found = encode_covariates(pd.DataFrame({"kind": ["a", "b", None, "a"] * 9}), ["kind"], [], np.arange(36), "it")
    assert found == {"kind": ("a", "b")}
    assert seen == ["a", "b"]

    mixed = pd.DataFrame({"kind": pd.Series([1, True, 1.0, "1", False, 0], dtype=object)})
    _, found = encode_covariates(mixed, ["kind"], ["kind"], np.arange(6), "it")
    assert found == {"kind": ("1", "True", "False", "0")}


def test_numbers_are_labels_only_if_they_are_named() -> None:
    assert encoded([3, 1, 3, 2]) == ([3, 1, 3, 2], None)
    assert encoded([3, 1, 3, 2], ("x",)) == ([0, 1, 0, 2], ("3", "1", "2"))
    assert encoded([3.0, None, 3.0, 2.0], ("x",))[1] == ("3", "2")  # the same labels beside an empty cell


def test_text_with_a_number_in_it_is_no_category() -> None:
    assert encoded(["n/a", "1.5", "2", "3"]) == (["n/a", "1.5", "2", "3"], None)  # refused later, by its row


@pytest.mark.parametrize(
    "values",
    [
        ["60,0", "70,5", "1.000,5", "-3,0"],
        ["1 000", "2 000", "3", "4"],
        ["12,5", "-", "1,5", "2,5"],
        ["35 %", "40%", "35 %", "12 %"],
        ["20.5 °C", "-3 °C", "4°C", "n/a"],
        ["3 kWh", "4.5 kWh", "5 kWh", "6 kWh"],
        ["12 m/s", "3 m/s", "2 m/s", "1 m/s"],
    ],
)
def test_numbers_with_a_comma_or_a_unit_are_no_category(values: list[object]) -> None:
    assert encoded(values)[1] is None  # refused later, by its row
    assert encoded(values, ("x",))[1] is not None


@pytest.mark.parametrize("values", [["1a", "2b", "1a", "3c"], ["A 1", "B 2", "A 1", "C 3"], ["1st", "2nd", "1st", "x"]])
def test_names_with_digits_are_labels(values: list[object]) -> None:
    assert encoded(values)[1] is not None


def test_pandas_categories_are_labels() -> None:
    frame = pd.DataFrame({"x": pd.Categorical([1, 2, 1, 2])})
    assert encode_covariates(frame, ["x"], [], ROWS, "a.csv")[1] == {"x": ("1", "2")}


def test_a_line_says_which_columns_of_text_are_read_as_labels() -> None:
    frame = pd.DataFrame(
        {"date": pd.date_range("2024-01-01", periods=4, freq="h"), "load": [1.0, 2, 3, 4], "kind": list("abab")}
    )
    roles = {"columns": ["load", "kind"], "covariates": ["kind"], "known": ["kind"]}
    assert [note for note in series_from_frame(frame, **roles).notes if "'kind'" in note and "2 labels" in note]
    assert not [note for note in series_from_frame(frame, **roles, categorical=["kind"]).notes if "'kind'" in note]


def test_labels_with_control_characters_are_refused_by_row() -> None:
    with pytest.raises(InputError, match=r"a\.csv, column 'x', row 4: the label"):
        encoded(["a", "b", "c\x1b[31m", "d"])


def test_decoding_inverts_encoding() -> None:
    table = pd.DataFrame({"x": ["b", "a", None, "b"], "y": [1.0, 2, 3, 4]})
    frame, labels = encode_covariates(table, ["x", "y"], [], ROWS, "a.csv")
    decoded = decode_labels(frame, labels)
    assert decoded["x"].where(decoded["x"].notna(), None).tolist() == ["b", "a", None, "b"]
    assert decoded["y"].tolist() == [1, 2, 3, 4]


def test_labels_are_neither_averaged_nor_interpolated() -> None:
    times = pd.to_datetime(["2024-01-01 00:00", "2024-01-01 01:00", "2024-01-01 01:00", "2024-01-01 02:00"])
    times = times.append(pd.date_range("2024-01-01 05:00", periods=20, freq="h"))
    kinds = ["a", "b", "c", "a"] + ["c"] * 20
    frame = pd.DataFrame({"date": times, "load": np.arange(24.0), "kind": kinds})
    series = series_from_frame(
        frame,
        columns=["load", "kind"],
        covariates=["kind"],
        known=["kind"],
        frequency="h",
        policies=Policies("mean", "interpolate"),
    )
    assert decode_labels(series.frame, series.labels)["kind"].tolist()[:7] == ["a", "b", "a", "a", "a", "c", "c"]
    assert series.frame["load"].tolist()[:4] == [0, 1.5, 3, pytest.approx(10 / 3)]


@pytest.mark.parametrize("missing", ["error", "ffill", "interpolate", "mask"])
def test_a_holiday_lasts_one_day_and_no_row_is_left_out(missing: str) -> None:
    frame = pd.DataFrame(
        {"date": pd.date_range("2024-01-01", periods=400), "load": np.arange(400.0), "holiday": [None] * 400}
    )
    frame.loc[[100, 300], "holiday"] = ["Easter", "Christmas"]
    if missing != "error":
        frame.loc[50, "load"] = np.nan
    roles = {"columns": ["load", "holiday"], "covariates": ["holiday"], "known": ["holiday"]}
    series = series_from_frame(frame, **roles, policies=Policies(missing=missing))
    labels = decode_labels(series.frame, series.labels)["holiday"]
    assert labels.value_counts().to_dict() == {EMPTY: 398, "Easter": 1, "Christmas": 1}
    assert len(labels) == 400
    assert "'holiday': 398 empty cells of labels: empty is a label of its own" in series.notes


ROLES = {"columns": ["load", "holiday"], "covariates": ["holiday"], "known": ["holiday"], "categorical": ["holiday"]}


def holidays(labels: list[str | None]) -> pd.DataFrame:
    dates = pd.date_range("2024-01-01", periods=len(labels))
    return pd.DataFrame({"date": dates, "load": np.arange(1.0, len(labels) + 1), "holiday": labels})


def test_a_missing_row_is_an_empty_cell_where_empty_is_a_label() -> None:
    frame = holidays(["Easter", "Easter", None, None, "May", "May", None, None]).drop(index=[2, 5])
    series = series_from_frame(frame, **ROLES, policies=Policies(missing="ffill"))  # type: ignore[arg-type]
    labels = decode_labels(series.frame, series.labels)["holiday"]
    assert labels.tolist() == ["Easter", "Easter", "Easter", "", "May", "", "", ""]  # none was empty before the third
    full = holidays(["Easter", "Easter", "May", "May", "May"]).drop(index=[1, 3])
    series = series_from_frame(full, **ROLES, frequency="D", policies=Policies(missing="ffill"))  # type: ignore[arg-type]
    assert decode_labels(series.frame, series.labels)["holiday"].tolist() == ["Easter", "Easter", "May", "May", "May"]


def test_the_label_of_doubled_rows_is_the_first_that_is_there() -> None:
    frame = holidays(["Easter", None, None, "May", None])
    doubled = pd.concat([frame.iloc[:1].assign(holiday=None), frame])
    series = series_from_frame(doubled, **ROLES, policies=Policies("first"))  # type: ignore[arg-type]
    assert decode_labels(series.frame, series.labels)["holiday"].tolist() == ["Easter", "", "", "May", ""]


def test_empty_is_a_label_of_an_input_only_if_it_was_one_in_training() -> None:
    none = holidays([None] * 5)
    series = series_from_frame(none, **ROLES, empty_labels=["holiday"])  # type: ignore[arg-type]
    assert decode_labels(series.frame, series.labels)["holiday"].tolist() == [""] * 5
    assert not series.notes
    some = holidays(["Easter", None, None, "May", None])
    with pytest.raises(InputError, match=r"column 'holiday', row 3: no value \(3 empty in total\)"):
        series_from_frame(some, **ROLES, empty_labels=[])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"column 'holiday', row 2: no value \(5 empty in total\)"):
        series_from_frame(none, **ROLES)  # type: ignore[arg-type]


def test_empty_cells_of_rows_ahead_are_no_label() -> None:
    frame = holidays(["Easter", "May", "May", "Easter", None, None])
    frame.loc[4:, "load"] = np.nan
    series = series_from_frame(frame, **ROLES)  # type: ignore[arg-type]
    assert series.labels == {"holiday": ("Easter", "May")}
    assert series.ahead[0].frame["holiday"].isna().all()


def test_a_label_that_the_program_guards_in_its_own_tables_is_the_same_label() -> None:
    labels = ["=1+1", "-low", "@home", "'quoted'", "plain"]
    guarded = [guard(label) for label in labels]
    assert guarded != labels
    assert encoded(guarded) == encoded(labels)


@pytest.mark.parametrize("values", [[True, "False", 1, "0"], ["TRUE", " false ", "1", 0.0], [True, False, True, False]])
def test_true_and_false_in_a_column_of_numbers_are_one_and_zero(values: list[object]) -> None:
    frame, labels = encode_covariates(pd.DataFrame({"x": values}), ["x"], [], ROWS, "a.csv", ["x"])
    assert not labels
    assert [float(cell) for cell in frame["x"]] == [1, 0, 1, 0]


def test_text_in_a_column_of_numbers_makes_no_labels() -> None:
    frame, labels = encode_covariates(pd.DataFrame({"x": ["yes", "no"]}), ["x"], [], ROWS, "a.csv", ["x"])
    assert not labels
    assert list(frame["x"]) == ["yes", "no"]


def test_none_is_a_label_among_words_and_an_empty_cell_elsewhere(tmp_path: Path) -> None:
    dates = [str(date) for date in pd.date_range("2020-01-01", periods=6, freq="D").date]
    rows = zip(
        dates,
        "123456",
        ["None", "Xmas", "NA", "None", "Sale", "None"],
        ["1", "None", "2.5", "3", "4", "5"],
        strict=True,
    )
    path = tmp_path / "days.csv"
    path.write_text("date,x,event,y\n" + "".join(",".join(row) + "\n" for row in rows))
    series = read_series(
        path, columns=["x", "y", "event"], covariates=["event"], known=["event"], policies=Policies(missing="ffill")
    )
    assert series.labels == {"event": ("None", "Xmas", "Sale", EMPTY)}
    assert series.observed is not None
    assert (~series.observed).sum(0).tolist() == [0, 1, 0]
    assert series.frame["y"].tolist() == [1, 1, 2.5, 3, 4, 5]
    path.write_text("date,event\n" + "".join(f"{date},None\n" for date in dates))
    ahead = read_known(read_table(path), source="known", time_column="date", known=["event"], categorical=["event"])
    assert ahead.frame["event"].tolist() == ["None"] * 6


def test_none_among_dates_is_an_empty_cell(tmp_path: Path) -> None:
    path = tmp_path / "days.csv"
    path.write_text("date,x\n2020-01-01,1\nNone,2\n2020-01-03,3\n")
    with pytest.raises(InputError, match=r"row 3: no date \(1 empty in total\)"):
        read_series(path)


@pytest.mark.parametrize("cell", ["1" + " " * 100_000 + "x", " " * 100_000, "1" * 100_000 + "x", "'" * 100_000])
def test_a_long_cell_takes_a_moment(cell: str) -> None:
    table = pd.DataFrame({"a": [cell, "x", "y"]})
    began = time.process_time()
    encode_covariates(table, ["a"], [], np.arange(3) + 2, "a.csv")
    assert time.process_time() - began < 1
