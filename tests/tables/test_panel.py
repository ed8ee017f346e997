"""Long tables, good and bad: each is read as a panel, or refused in one line with file, id, row, column and cure."""

import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.tables.panel import fill_by_series, rows_between
from forecast.tables.repair import Policies
from forecast.tables.series import Series, only
from tests.support.panels import SHOPS, long_table
from tests.support.reading import read_known, read_series, series_from_frame

Change = Callable[[pd.DataFrame], pd.DataFrame]
NAMED: dict[str, Any] = {"ids": ["unique_id"]}
LENGTHS = list(SHOPS.values())


def renamed(**names: str) -> Change:
    return lambda table: table.rename(columns=names)


def with_ids(*labels: object) -> Change:
    return lambda table: table.assign(unique_id=table["unique_id"].map(dict(zip("abc", labels, strict=True))))


def typed(kind: str) -> Change:
    return lambda table: table.assign(unique_id=table["unique_id"].astype(kind))


def stepped(frequency: str) -> Change:
    return lambda table: long_table(frequency=frequency)


def zoned(text: bool) -> Change:
    def change(table: pd.DataFrame) -> pd.DataFrame:
        times = table["ds"].dt.tz_localize("Europe/Berlin")
        return table.assign(ds=times.astype(str) if text else times)

    return change


def cell(column: str, row: int, value: object) -> Change:
    """Return the change of the cell in a row, counted as in a spreadsheet."""

    def change(table: pd.DataFrame) -> pd.DataFrame:
        changed = table.copy()
        changed[column] = changed[column].astype(object)
        changed.loc[row - 2, column] = value
        return changed

    return change


def without(*rows: int) -> Change:
    return lambda table: table.drop(index=[row - 2 for row in rows])


def emptied(column: str, *rows: int) -> Change:
    return lambda table: table.assign(**{column: table[column].mask(table.index.isin([row - 2 for row in rows]))})


def assigned(**columns: Callable[[pd.DataFrame], object]) -> Change:
    return lambda table: table.assign(**columns)


def promo(table: pd.DataFrame) -> pd.Series:
    return pd.Series(table.index % 3 == 0, index=table.index)


def appended(other: pd.DataFrame) -> Change:
    return lambda table: pd.concat([table, other], ignore_index=True)


def ids(*labels: str) -> list[tuple[str, ...]]:
    return [(label,) for label in labels]


ABC = ids("a", "b", "c")
GOOD: dict[str, tuple[Change, dict[str, Any], dict[str, Any]]] = {
    "nixtla": (lambda table: table, {}, {}),
    "gluonts": (renamed(unique_id="item_id", ds="timestamp", y="target"), {}, {"columns": ["target"]}),
    "series_id": (renamed(unique_id="series_id", ds="time", y="value"), {}, {"columns": ["value"]}),
    "an id that is named": (renamed(unique_id="shop"), {"ids": ["shop"]}, {}),
    "rows in any order": (lambda table: table.sample(frac=1, random_state=1), {}, {}),
    "rows by time": (lambda table: table.sort_values("ds"), {}, {}),
    "categorical ids": (typed("category"), {}, {}),
    "ids of pandas' text": (typed("string"), {}, {}),
    "whole numbers": (with_ids(1, 2, 10), {}, {"names": ids("1", "2", "10")}),
    "numbers as floats": (with_ids(1.0, 2.0, 10.0), {}, {"names": ids("1", "2", "10")}),
    "numbers as text": (with_ids("1", "2", "10"), {}, {"names": ids("1", "2", "10")}),
    "leading zeros": (with_ids("01", "1", "2"), {}, {"names": ids("01", "1", "2")}),
    "text with numbers": (with_ids("s2", "s10", "s1"), {}, {"names": ids("s1", "s2", "s10"), "lengths": [35, 40, 30]}),
    "ids with blanks": (with_ids(" a", "b ", "c"), {}, {}),
    "ids as truth": (
        lambda table: table.loc[table["unique_id"] != "c"].assign(unique_id=lambda rows: rows["unique_id"] == "a"),
        {},
        {"names": ids("False", "True"), "lengths": [30, 40]},
    ),
    "two id columns": (
        lambda table: with_ids(1, 2, 1)(
            assigned(region=lambda t: t["unique_id"].map({"a": "x", "b": "x", "c": "y"}))(table)
        ),
        {"ids": ["region", "unique_id"]},
        {"names": [("x", "1"), ("x", "2"), ("y", "1")]},
    ),
    "months": (stepped("MS"), {}, {"frequency": "MS"}),
    "ends of months": (stepped("ME"), {}, {"frequency": "ME"}),
    "weeks": (stepped("W-SUN"), {}, {"frequency": "W-SUN"}),
    "quarters of an hour": (stepped("15min"), {}, {"frequency": "15min"}),
    "days": (stepped("D"), {}, {"frequency": "D"}),
    "business days": (stepped("B"), {}, {"frequency": "B"}),
    "years": (stepped("YS"), {}, {"frequency": "YS-JAN"}),
    "a time zone": (zoned(text=False), {}, {}),
    "a time zone as text": (zoned(text=True), {}, {}),
    "several targets": (assigned(z=lambda t: 2 * t["y"]), {}, {"columns": ["y", "z"]}),
    "a named target": (assigned(z=lambda t: "text"), {"columns": ["y"]}, {"static": {"z": ["text"] * 3}}),
    "a known column of truth": (
        assigned(promo=promo),
        {"columns": ["y"], "known": ["promo"]},
        {"columns": ["y", "promo"]},
    ),
    "a known column of text": (
        assigned(day=lambda t: np.where(promo(t), "sunday", "week")),
        {"covariates": ["day"], "known": ["day"], **NAMED},
        {"columns": ["y", "day"], "labels": {"day": ("sunday", "week")}},
    ),
    "a past column of text": (
        assigned(sky=lambda t: np.where(promo(t), "blue", "grey")),
        {"covariates": ["sky"], **NAMED},
        {"columns": ["y", "sky"]},
    ),
    "a property": (
        assigned(region=lambda t: t["unique_id"].map({"a": "x", "b": "x", "c": "y"})),
        {},
        {"static": {"region": ["x", "x", "y"]}},
    ),
    "properties as numbers, labels and text with units": (
        assigned(
            size=lambda t: t["unique_id"].map({"a": 7, "c": 9}),
            old=lambda t: t["unique_id"].isin(["a", "b"]),
            way=lambda t: t["unique_id"].map({"a": "2 km", "b": "3 km", "c": "2 km"}),
        ),
        {},
        {"static": {"size": [7.0, np.nan, 9.0], "old": [1.0, 1.0, 0.0], "way": ["2 km", "3 km", "2 km"]}},
    ),
    "a named property with empty cells": (
        assigned(region=lambda t: t["unique_id"].map({"a": "x", "c": "y"}).mask(t.index % 3 > 0)),
        {"fixed": ["region"], **NAMED},
        {"static": {"region": ["x", np.nan, "y"]}},
    ),
    "a column that counts rows": (lambda t: t.reset_index().rename(columns={"index": "Unnamed: 0"}), {}, {}),
    "series one after the other": (
        lambda table: pd.concat([long_table({"a": 40}), long_table({"b": 30}, start="2025-01-01")]),
        {},
        {"names": ids("a", "b"), "lengths": [40, 30], "steps": [0, 8784]},
    ),
    "unequal starts": (lambda table: long_table(ends_alike=True), {}, {"steps": [0, 10, 5]}),
    "a series of one row": (appended(long_table({"d": 1})), {}, {"names": [*ABC, ("d",)], "lengths": [*LENGTHS, 1]}),
    "doubled rows and a policy": (
        lambda table: pd.concat([table, table.iloc[[3, 50]]]),
        {"policies": Policies("mean")},
        {"note": "2 doubled rows of an id and time were merged"},
    ),
    "a gap and a policy": (
        without(7, 8, 60),
        {"policies": Policies(missing="mask")},
        {"note": "3 missing rows filled"},
    ),
    "an empty cell and a policy": (
        emptied("y", 60),
        {"policies": Policies(missing="ffill")},
        {"note": "1 row with empty cells filled"},
    ),
    "empty targets at the end of a series": (
        emptied("y", 40, 41),
        {},
        {"lengths": [38, 30, 35], "note": "2 rows of 1 series come after the last target value"},
    ),
    "empty targets before the start of a series": (
        emptied("y", 42, 43),
        {},
        {"lengths": [40, 28, 35], "steps": [0, 2, 0], "note": "2 rows before the first target value"},
    ),
    "a series without values": (
        lambda table: table.assign(y=table["y"].mask(table["unique_id"] == "b")),
        {},
        {"names": ids("a", "c"), "lengths": [40, 35], "empty": ids("b")},
    ),
    "text in a row that is left out": (
        lambda table: cell("z", 41, "?")(emptied("y", 40, 41)(assigned(z=lambda t: 2.0 * t.index)(table))),
        {"columns": ["y"], "covariates": [], **NAMED},
        {"lengths": [38, 30, 35]},
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_long_table_is_a_panel(name: str) -> None:
    change, options, expected = GOOD[name]
    if "known" in options:
        options = {**options, "columns": None, "covariates": options["known"], **NAMED}
    table = change(long_table())
    before = table.copy()
    series = series_from_frame(table, "mine.csv", **options)
    assert series.ids is not None
    assert list(series.ids.names) == expected.get("names", ABC)
    assert list(series.ids.lengths) == expected.get("lengths", LENGTHS)
    assert list(series.ids.steps) == expected.get("steps", [0] * len(series.ids))
    assert list(series.ids.empty) == expected.get("empty", [])
    assert list(series.frame.columns) == expected.get("columns", ["y"])
    assert series.frequency == expected.get("frequency", "h")
    assert dict(series.labels) == expected.get("labels", dict(series.labels))
    pd.testing.assert_frame_equal(
        series.ids.static, pd.DataFrame(expected.get("static", {}), index=range(len(series.ids)))
    )
    assert any(expected.get("note", "") in note for note in series.notes)
    assert series.frame.notna().all(axis=None)
    pd.testing.assert_frame_equal(table, before)


BAD: dict[str, tuple[Change, dict[str, Any], str]] = {
    "an id and time twice": (
        lambda table: pd.concat([table, table.iloc[[7]]]),
        {},
        "rows 9 and 107: both are unique_id 'a' at 2024-01-01 07:00:00 (1 doubled row in total)",
    ),
    "a property that changes": (
        lambda table: cell("region", 44, "z")(table.assign(region="x")),
        {"fixed": ["region"]},
        "column 'region', row 44: 'z' of unique_id 'b' is 'x' in row 42: a static covariate has one value for each id",
    ),
    "a number and the same text": (
        with_ids(1, "1", 2),
        {},
        "rows 2 and 42: both are unique_id '1' at 2024-01-01 00:00:00 (30 doubled rows in total)",
    ),
    "an id missing": (cell("unique_id", 7, None), {}, "column 'unique_id', row 7: no id (1 such row): fill it in"),
    "blank ids": (
        lambda table: cell("unique_id", 8, " ")(cell("unique_id", 7, "")(table)),
        {},
        "row 7: no id (2 such rows): fill",
    ),
    "a number missing among ids": (
        lambda table: cell("unique_id", 50, None)(with_ids(1, 2, 3)(table)),
        {},
        "column 'unique_id', row 50: no id",
    ),
    "a second id missing": (
        lambda table: cell("region", 9, None)(table.assign(region="x")),
        {"ids": ["unique_id", "region"]},
        "column 'region', row 9: no id",
    ),
    "control characters": (with_ids("a", "b\x07", "c"), {}, r"column 'unique_id', row 42: the id 'b\x07' has control"),
    "no such id column": (
        lambda table: table,
        {"ids": ["store"]},
        "has no column 'store', only unique_id, ds, y: correct",
    ),
    "the time as id": (
        lambda table: table,
        {"ids": ["ds"]},
        "'ds' is the time column, not an id: correct data.id_columns",
    ),
    "an unusual name": (renamed(unique_id="shop"), {}, "train on all of them with 'data.id_columns=[shop]'"),
    "an unusual name of numbers": (
        lambda table: renamed(unique_id="shop")(with_ids(1, 2, 3)(table)),
        {},
        "with 'data.id_columns=[shop]'",
    ),
    "another step": (
        lambda table: pd.concat([long_table({"a": 40}), long_table({"b": 30}, frequency="2h")]),
        {},
        "unique_id 'b': its rows are at least 2 steps of h apart, the step of most rows (1 such series)",
    ),
    "a finer step": (
        lambda table: pd.concat([long_table({"a": 40}), long_table({"b": 30}, frequency="30min")]),
        {},
        "row 43, unique_id 'b': 2024-01-01 00:30:00 is off the grid of one row every h: correct the time",
    ),
    "another minute": (
        lambda table: pd.concat([long_table({"a": 40}), long_table({"b": 30}, start="2024-01-01 00:10")]),
        {},
        "row 42, unique_id 'b': 2024-01-01 00:10:00 is off the grid",
    ),
    "another day of the month": (
        lambda table: pd.concat([long_table({"a": 40}, frequency="MS"), long_table({"b": 30}, frequency="ME")]),
        {},
        "row 42, unique_id 'b': 2024-01-31 00:00:00 is off the grid",
    ),
    "gaps": (
        without(7, 8, 60),
        {},
        "row 6, unique_id 'a': after 2024-01-01 04:00:00 the next row is 2024-01-01 07:00:00, 3 steps later (2 rows "
        "missing in this series, 3 in 2 of 3 series): add the rows, or train with data.missing=ffill",
    ),
    "a gap in a later series": (
        without(60),
        {},
        "row 59, unique_id 'b': after 2024-01-01 17:00:00 the next row is 2024-01-01 19:00:00, 2 steps",
    ),
    "a series that lacks most rows": (
        without(*range(4, 40)),
        {"policies": Policies(missing="mask")},
        "row 3, unique_id 'a': after 2024-01-01 01:00:00",
    ),
    "a mistyped century": (cell("ds", 60, pd.Timestamp("2204-01-01")), {}, "unique_id 'b': after 2024-01-01 17:00:00"),
    "a mistyped date": (
        lambda table: cell("ds", 52, "2024-13-45 00:00")(table.assign(ds=table["ds"].astype(str))),
        {},
        "column 'ds', row 52: '2024-13-45 00:00' is not a date",
    ),
    "an infinite target": (
        cell("y", 52, np.inf),
        {},
        "column 'y', row 52, unique_id 'b': an infinite value (1 in total)",
    ),
    "a huge value": (cell("y", 52, 1e39), {}, "column 'y', row 52, unique_id 'b': 1e+39 is too large for float32"),
    "text among numbers": (cell("y", 52, "hello"), {}, "column 'y', row 52, unique_id 'b': 'hello' is not a number"),
    "an empty cell": (
        emptied("y", 52),
        {},
        "column 'y', row 52, unique_id 'b': no value (1 empty in total): fill it in",
    ),
    "a known column with a gap": (
        lambda table: emptied("promo", 52)(table.assign(promo=1.0 * table.index)),
        {"covariates": ["promo"], "known": ["promo"], **NAMED},
        "column 'promo', row 52, unique_id 'b': no value",
    ),
    "a past column without values in one series": (
        lambda table: table.assign(air=(1.0 * table.index.to_series()).mask(table["unique_id"] == "b")),
        {"covariates": ["air"], "policies": Policies(missing="mask"), **NAMED},
        "column 'air': has no value for unique_id 'b' (1 such series): leave out the column, or these series",
    ),
    "no target value": (lambda table: table.assign(y=np.nan), {}, "no target has a value in any row"),
    "no target": (lambda table: table[["unique_id", "ds"]], NAMED, "has no column besides 'ds' and 'unique_id'"),
    "more last rows than any series has": (
        lambda table: table,
        {"last_rows": 41},
        "mine.csv: data.last_rows=41: the longest series has 40 rows: lower it, or set null",
    ),
    "text in two columns": (
        lambda table: cell("z", 5, "?")(cell("y", 52, "hello")(table.assign(z=2.0 * table.index))),
        {},
        "has 2 problems: column 'y', row 52, unique_id 'b': 'hello' is not a number; column 'z', row 5",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_long_table_is_refused_in_one_line(name: str) -> None:
    change, options, words = BAD[name]
    options = dict(options)
    table = change(options.pop("prepare", lambda whole: whole)(long_table()))
    with pytest.raises(InputError) as caught:
        series_from_frame(table, "mine.csv", **options)
    text = str(caught.value)
    assert words in text
    assert "\n" not in text
    assert text.startswith("mine.csv")


@pytest.mark.parametrize("order", [1, -1], ids=["in order", "newest first"])
def test_the_last_rows_of_each_series_are_as_if_the_others_were_not_there(order: int) -> None:
    table = long_table()
    ahead = table.groupby("unique_id").tail(2).assign(y=np.nan)
    ahead["ds"] += pd.Timedelta(hours=2)
    whole = pd.concat([table.assign(y=table["y"].mask(table.index == 3)), ahead])  # an empty cell that is not read
    series = series_from_frame(whole.iloc[::order], last_rows=33)
    same_panel(series, series_from_frame(pd.concat([table.groupby("unique_id").tail(33), ahead])))
    assert series.ids is not None
    assert series.ids.lengths.tolist() == [33, 30, 33]
    assert "the first 9 rows of 2 series left out: data.last_rows=33" in series.notes
    with pytest.raises(InputError, match="no value"):
        series_from_frame(whole)
    shorter = series_from_frame(table, last_rows=60, fewer_allowed=True)
    assert not any("last_rows" in note for note in shorter.notes)


@pytest.mark.parametrize("how", ["error", "mask", "interpolate"])
def test_a_series_begins_with_a_target_value_within_its_last_rows(how: str) -> None:
    table, options = long_table({"a": 40, "c": 35}), {"policies": Policies(missing=how)}
    tails = table.groupby("unique_id").tail(33)
    empty = tails.groupby("unique_id").head(2).index
    table.loc[empty, "y"] = np.nan
    series = series_from_frame(table, last_rows=33, **options)
    same_panel(series, series_from_frame(tails.drop(index=empty), **options))
    assert series.observed is None
    assert "4 rows before the first target value of their id were left out" in series.notes


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("labels", [(1, 2, 10), ("1", "2", "10")], ids=["numbers", "text"])
def test_a_file_and_its_frame_are_the_same_panel(ending: str, labels: tuple[object, ...], tmp_path: Path) -> None:
    table, path = with_ids(*labels)(long_table()), tmp_path / f"long.{ending}"
    if ending == "parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False)
    same_panel(read_series(path), series_from_frame(table))


def same_panel(one: Series, other: Series) -> None:
    assert one.ids is not None
    assert other.ids is not None
    assert one.ids.names == other.ids.names
    assert np.array_equal(one.ids.offsets, other.ids.offsets)
    assert np.array_equal(one.ids.steps, other.ids.steps)
    pd.testing.assert_frame_equal(one.frame, other.frame, check_freq=False)


def test_rows_and_columns_in_another_order_are_the_same_panel() -> None:
    table = long_table().assign(z=lambda t: 2 * t["y"])
    moved = table.sample(frac=1, random_state=3)[["y", "ds", "unique_id", "z"]]
    same_panel(series_from_frame(table), series_from_frame(moved))


@pytest.mark.parametrize("named", [{}, NAMED], ids=["found", "named"])
@pytest.mark.parametrize("label", ["a", 7], ids=["text", "number"])
@pytest.mark.parametrize("how", ["error", "mask", "interpolate"])
def test_a_table_of_one_id_is_the_table_without_it(named: dict[str, Any], label: object, how: str) -> None:
    table = long_table({label: 60})
    if how != "error":
        table = table.drop(index=[5, 6]).assign(y=table["y"].mask(table.index == 20))
    options = {"policies": Policies(missing=how), "last_rows": 50}
    one = series_from_frame(table, **named, **options)
    plain = series_from_frame(table.drop(columns="unique_id"), **options)
    assert one.ids is None
    assert "unique_id" in one.unread
    assert any("'unique_id' has one value: the table is one series" in note for note in one.notes)
    pd.testing.assert_frame_equal(one.frame, plain.frame)
    assert np.array_equal(one.measured, plain.measured, equal_nan=True)


def test_a_number_for_each_row_with_a_usual_name_is_no_id() -> None:
    series = series_from_frame(long_table({"a": 40}).assign(unique_id=np.arange(40) ** 2))
    assert series.ids is None
    assert "unique_id" in series.frame


def test_the_rows_after_a_series_are_known_ahead_and_may_lack_everything_else() -> None:
    table = long_table().assign(promo=lambda t: promo(t), air=lambda t: 1.0 * t.index)
    ahead = table["ds"] >= "2024-01-02"
    table = table.assign(y=table["y"].mask(ahead), air=table["air"].mask(ahead))
    series = series_from_frame(table, covariates=["promo", "air"], known=["promo"], **NAMED)
    assert series.ids is not None
    assert list(series.ids.lengths) == [24, 24, 24]
    (found,) = series.ahead
    assert list(found.frame.columns) == ["promo"]
    assert found.ids == (("a",),) * 16 + (("b",),) * 6 + (("c",),) * 11
    assert np.array_equal(found.frame["promo"], table["promo"][ahead])
    assert np.array_equal(found.rows, table.index[ahead] + 2)


def test_a_table_of_known_columns_has_a_row_for_each_id_and_time() -> None:
    table = long_table().assign(promo=lambda t: promo(t)).drop(columns="y").sample(frac=1, random_state=2)
    options: dict[str, Any] = {"covariates": ["promo"], "known": ["promo"], **NAMED}
    found = read_known(table, "next.csv", **options)
    assert found.ids == (("a",),) * 40 + (("b",),) * 30 + (("c",),) * 35
    with pytest.raises(InputError, match=r"next.csv, rows .* both are unique_id 'a' at"):
        read_known(pd.concat([table, table.loc[[3]]]), "next.csv", **options)


def test_no_line_on_a_panel_is_there_twice() -> None:
    table = long_table()
    table.loc[table["ds"] < "2024-01-01 03:00", "y"] = np.nan
    series = series_from_frame(table, policies=Policies(missing="mask"), **NAMED)
    assert len(set(series.notes)) == len(series.notes) == 2


def test_a_part_of_a_panel_is_the_panel_of_that_part() -> None:
    series = series_from_frame(long_table(ends_alike=True))
    part = only(series, np.array([1, 2]))
    same_panel(part, series_from_frame(long_table(ends_alike=True).query("unique_id != 'a'")))


@pytest.mark.parametrize("linear", [False, True])
def test_gaps_are_filled_from_the_same_series_alone(linear: bool) -> None:
    series = series_from_frame(long_table({"a": 9, "b": 8, "c": 7}))
    assert series.ids is not None
    seen = np.random.default_rng(0).random(24) < 0.5
    seen[[4, 12, 20]] = True
    values = series.frame["y"].to_numpy()
    filled = fill_by_series(values, seen, series.ids, linear=linear)
    for start, stop in zip(series.ids.offsets[:-1], series.ids.offsets[1:], strict=True):
        own = pd.Series(values[start:stop]).where(seen[start:stop])
        expected = own.interpolate(limit_area="inside") if linear else own
        np.testing.assert_allclose(filled[start:stop], expected.ffill().bfill())
        poisoned = np.where(series.ids.of_rows == series.ids.of_rows[start], values, 1e9)
        assert np.array_equal(filled[start:stop], fill_by_series(poisoned, seen, series.ids, linear=linear)[start:stop])


def test_a_line_never_names_a_row_of_another_series() -> None:
    with pytest.raises(InputError) as caught:
        series_from_frame(long_table().sample(frac=1, random_state=0).reset_index(drop=True).pipe(cell("y", 30, "x")))
    row = int(re.search(r"row (\d+)", str(caught.value))[1])  # type: ignore[index]
    assert row == 30


@pytest.mark.parametrize("kind", ["object", "category"])
def test_an_id_is_made_a_label_once_not_in_each_row(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    labelled: list[object] = []

    def label(cell: object) -> str:
        labelled.append(cell)
        return str(cell)

    monkeypatch.setattr("forecast.tables.panel.label_of", label)
    series = series_from_frame(typed(kind)(long_table()), "mine.csv", **NAMED)
    assert series.ids is not None
    assert list(series.ids.names) == ABC
    assert labelled == ["a", "b", "c"]


MOST_BYTES = 90
"""Bytes of a row of a panel of one target while it is read, without the table that was given."""


def test_reading_a_panel_takes_a_bounded_number_of_bytes_a_row() -> None:
    series, days = 200, 500
    ids = pd.Categorical.from_codes(np.repeat(np.arange(series), days), [f"item {place}" for place in range(series)])
    times = np.tile(pd.date_range("2020-01-01", periods=days), series)
    table = pd.DataFrame({"unique_id": ids, "ds": times, "y": np.arange(series * days, dtype=np.int32)})
    series_from_frame(table.head(2 * days), **NAMED)  # what is made once is no part of it
    tracemalloc.start()
    try:
        read = series_from_frame(table, **NAMED)
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES * len(table)
    finally:
        tracemalloc.stop()
    assert read.ids is not None
    assert len(read.ids) == series


def test_rows_between_are_the_ranges_one_after_the_other() -> None:
    first, stop = np.array([3, 9, 5, 20, 21]), np.array([6, 9, 4, 21, 24])  # the second and third are empty
    rows = rows_between(first, stop, np.int32)
    assert (rows.dtype, rows.tolist()) == (np.int32, [3, 4, 5, 20, 21, 22, 23])
    assert rows_between(first[1:3], stop[1:3]).tolist() == []
