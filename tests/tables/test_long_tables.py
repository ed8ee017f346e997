"""Long tables are refused with advice, and the advice works."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data.settings import DataSettings
from forecast.data.sources import load_source
from forecast.tables.repair import Policies
from forecast.tables.series import Series
from tests.support.reading import read_series, series_from_frame
from tests.support.small import compose, write
from tests.tables.test_series import shared

ROWS = 60


def meters(names: list[Any], rows: int = ROWS, starts: list[int] | None = None) -> pd.DataFrame:
    """Return hourly loads of several meters, one below the other."""
    pieces = []
    for place, name in enumerate(names):
        when = pd.date_range("2024-01-01", periods=rows, freq="h") + pd.Timedelta(hours=(starts or [0] * 9)[place])
        load = np.round(10.0 ** (place + 1) + np.sin(np.arange(rows)), 2)
        pieces.append(pd.DataFrame({"meter_id": name, "when": when, "load": load}))
    return pd.concat(pieces, ignore_index=True)


def refused(table: pd.DataFrame, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        series_from_frame(table, source="mine.csv", **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("names", [["A", "B", "C"], [7, 8, 9]], ids=["text", "numbers"])
@pytest.mark.parametrize("order", ["by meter", "by time", "any"])
@pytest.mark.parametrize("policy", ["error", "mean", "first"])
def test_several_meters_in_one_table_are_refused_with_advice(names: list[Any], order: str, policy: str) -> None:
    table = meters(names)
    if order != "by meter":
        table = table.sort_values("when", kind="stable") if order == "by time" else table.sample(frac=1, random_state=0)
    text = refused(table, policies=Policies(duplicates=policy))
    assert text.startswith("mine.csv is a long table: column 'meter_id' identifies 3 series, with 3 rows per time")
    assert "table.pivot(index='when', columns='meter_id', values='load').to_csv('wide.csv')" in text
    assert "data.duplicates" not in text  # the hint that makes nonsense of it
    assert re.search(r"keep one series: table\[table\['meter_id'\] == ('[ABC]'|[789])\]$", text)


@pytest.mark.parametrize(
    ("columns", "words"),
    [(["promotion"], "(and 'promotion' likewise)"), (["a", "b"], "(and the other columns likewise)")],
)
def test_further_columns_of_several_meters_are_not_forgotten(columns: list[str], words: str) -> None:
    table = meters(["A", "B"]).assign(**dict.fromkeys(columns, 1))
    assert f"to_csv('wide.csv') {words}, or keep one series" in refused(table, columns=["load"])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({}, "'data.id_columns=[meter_id]', or make"),
        ({"region": "north"}, "'data.id_columns=[meter_id]', or make"),
        ({"promotion": 1}, "'data.id_columns=[meter_id]' 'data.targets=[load]', or make"),
    ],
    ids=["no column", "text", "numbers"],
)
def test_the_line_names_the_target_if_another_column_of_numbers_would_be_one(
    columns: dict[str, Any], words: str
) -> None:
    assert f"train on all of them with {words}" in refused(meters(["A", "B"]).assign(**columns))


def test_the_line_names_a_measurement_and_not_a_promotion_before_it() -> None:
    table = meters(["A", "B"])
    table.insert(2, "promotion", (np.arange(len(table)) // 5 + table.index // ROWS) % 2)
    assert "'data.targets=[load]'" in (text := refused(table))
    assert "values='load'" in text


def test_an_exchanged_meter_with_some_doubled_hours_is_named_and_its_mean_is_not_advised() -> None:
    table = meters(["A", "B"], starts=[0, 55])
    text = refused(table, columns=["load"])
    words = (
        "(5 duplicate times in total): keep one series, since the rows of a time differ in 'meter_id', or keep one row"
    )
    assert words in text
    repeated = pd.concat([meters(["A"]), meters(["A"]).iloc[10:12]])
    assert "keep one series" not in refused(repeated, columns=["load"])
    clock = pd.date_range("2024-10-20", periods=600, freq="h", tz="Europe/Berlin").tz_localize(None)
    measured = pd.DataFrame({"date": clock, "load": np.arange(600.0), "temperature": np.arange(600) % 24})
    assert "keep one series" not in refused(measured, columns=["load"])


@pytest.mark.parametrize("names", [["A", "B"], [7, 8]], ids=["text", "numbers"])
def test_a_column_that_tells_series_apart_is_named_if_every_column_is_a_target(names: list[Any]) -> None:
    text = refused(meters(names, starts=[0, 55]))
    assert "keep one series, since the rows of a time differ in 'meter_id'" in text
    assert "problems" not in text
    gap = meters(names, starts=[0, 55]).drop(index=range(70, 74))  # a gap beside it does not hide the column
    assert "keep one series, since the rows of a time differ in 'meter_id'" in refused(gap)


def test_a_short_count_without_repetition_tells_no_series_apart() -> None:
    dates = pd.date_range("2024-01-01", periods=40).append(pd.DatetimeIndex(["2024-01-20"]))
    table = pd.DataFrame({"date": dates, "visitors": np.arange(41)}).sort_values("date", kind="stable")
    assert "keep one series" not in refused(table)


def test_doubled_times_of_an_index_named_like_a_column_are_one_line() -> None:
    table = meters(["A"]).drop(columns="meter_id")
    table = table.set_index("when", drop=False).iloc[[*range(ROWS), 7]]
    assert "both are at" in refused(table)


def test_the_advice_of_the_line_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = meters(["A", "B", "C"])
    text = refused(table)
    pivot, kept = re.search(r"in pandas: (.*), or keep one series: (.*)$", text).groups()  # type: ignore[union-attr]
    eval(pivot, {"table": table})
    wide = read_series("wide.csv").frame
    assert list(wide) == ["A", "B", "C"]
    np.testing.assert_array_equal(wide["B"], table.loc[table["meter_id"] == "B", "load"])
    one = series_from_frame(eval(kept, {"table": table}), columns=["load"]).frame
    np.testing.assert_array_equal(one["load"], wide["A"])


def test_series_of_different_lengths_with_a_few_duplicate_times_are_a_long_table(tmp_path: Path) -> None:
    table = meters(["A", "B", "C"], rows=300, starts=[0, 100, 250])
    table = pd.concat([table, table.iloc[[5]]])
    text = refused(table, policies=Policies(duplicates="mean"))
    assert "identifies 3 series" in text
    assert "pivot_table(index='when', columns='meter_id', values='load', aggfunc='mean')" in text


def test_two_columns_that_name_a_series_together_are_both_named() -> None:
    parts = [meters(["A", "B"]).assign(phase=phase) for phase in (1, 2, 3)]
    text = refused(pd.concat(parts, ignore_index=True))
    assert "columns 'meter_id' and 'phase' identify 6 series" in text


def test_an_hour_with_another_role_has_its_own_advice() -> None:
    days = pd.date_range("2024-01-01", periods=40).repeat(24)
    table = pd.DataFrame({"day": days.strftime("%d/%m/%Y"), "hour": np.tile(np.arange(1, 25), 40), "load": 1.0})
    table["load"] += np.arange(len(table)) % 7
    text = refused(table, known=["hour"])
    assert "the hour is in a separate column" in text
    assert text.endswith("train with 'data.time_columns=[day,hour]'")


NOT_LONG: dict[str, pd.DataFrame] = {
    "every row twice": pd.concat([meters(["A"])[["when", "load"]]] * 2),
    "two readings a time": meters(["A", "B"])[["when", "load"]],
    "a few doubled times": pd.concat([meters(["A"]), meters(["A"]).iloc[3:9]]),
    "a counter": pd.DataFrame(
        {"when": pd.date_range("2024-01-01", periods=50, freq="h").repeat(2), "load": np.arange(100) // 4}
    ),
}


@pytest.mark.parametrize("name", NOT_LONG)
def test_duplicate_times_without_a_column_of_series_keep_their_advice(name: str) -> None:
    table = NOT_LONG[name][["when", "load"]]
    assert "data.duplicates=mean, first or last" in refused(table)
    series_from_frame(table, policies=Policies(duplicates="mean"))


def test_the_named_index_of_a_file_identifies_series_too(tmp_path: Path) -> None:
    path = tmp_path / "meters.parquet"
    meters([7, 8, 9]).set_index("meter_id").to_parquet(path)
    with pytest.raises(InputError, match=r"is a long table: column 'meter_id'"):
        read_series(path, policies=Policies(duplicates="mean"))
    meters([7]).rename_axis("row").to_parquet(path)  # it counts the rows
    assert "row" not in read_series(path).frame.columns


def load(path: Path, *words: str) -> Series:
    return load_source(DataSettings.parse(compose("data=csv", f"data.path={path}", *words)["data"])).series


def test_only_named_targets_and_a_named_policy_make_one_series_of_several(tmp_path: Path) -> None:
    path = write(tmp_path / "my.csv", meters([7, 8, 9]))
    for words in ([], ["data.targets=[load]"], ["data.duplicates=mean"]):
        with pytest.raises(InputError, match="is a long table"):
            load(path, *words)
    with pytest.raises(InputError, match="is a long table"):  # the mean of names is none
        load(path, "data.targets=[load,meter_id]", "data.duplicates=mean")
    series = load(path, "data.targets=[load]", "data.duplicates=mean")
    assert series.notes[0] == "3 series, identified by 'meter_id', were merged into one by the mean at each time"
    assert series.merged == ("meter_id",)
    assert len(series.frame) == ROWS


@pytest.mark.slow
def test_a_real_long_table_whose_ids_have_no_usual_name_is_recognised() -> None:
    with pytest.raises(InputError, match=r"column 'Store' identifies 1,115 series.*data.id_columns=\[Store\]"):
        read_series(shared("rossmann.parquet"), policies=Policies("mean", "mask"))


@pytest.mark.slow
def test_a_real_long_table_with_a_usual_name_is_a_panel() -> None:
    series = read_series(shared("m4_hourly.parquet"))
    assert series.ids is not None
    assert len(series.ids) == 414
    assert list(series.frame.columns) == ["value"]
    assert any("'category'" in note for note in series.notes)


def test_real_hours_in_a_separate_column_are_found() -> None:
    table = pd.read_csv(shared("GEFCom2014-E.csv")).dropna()
    table["Date"] = pd.to_datetime(table["Date"], format="%m/%d/%y")
    series = series_from_frame(table)
    assert (series.frequency, list(series.frame), len(series.frame)) == ("h", ["load", "T"], len(table))


def test_real_duplicate_hours_with_text_columns_are_not_a_long_table() -> None:
    series = read_series(
        shared("traffic_volume.csv"), columns=["traffic_volume", "temp"], policies=Policies("mean", "mask")
    )
    assert series.merged == ()
    assert "5,445 times had several rows" in " ".join(series.notes)
