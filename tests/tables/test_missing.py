import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.tables.labels import EMPTY
from forecast.tables.repair import DUPLICATES, MISSING, Policies
from forecast.tables.series import Series
from tests.support.reading import read_series, series_from_frame

FILLS = tuple(word for word in MISSING if word != "error")


def holed(frequency: str = "h", rows: int = 300, seed: int = 0) -> pd.DataFrame:
    """Return a table of which rows are absent and cells empty, some at either end, some side by side."""
    draw = np.random.default_rng(seed)
    index = pd.date_range("2019-01-01", periods=rows, freq=frequency, name="date")
    table = pd.DataFrame(draw.standard_normal((rows, 3)), index=index, columns=["a", "b", "c"])
    table = table.mask(draw.random((rows, 3)) < 0.15)
    table.iloc[:4, 1] = np.nan
    table.iloc[-5:, 2] = np.nan
    table.iloc[-1] = [1.5, np.nan, np.nan]
    keep = draw.random(rows) > 0.1
    keep[[0, -1]] = True
    keep[120:130] = False
    return table[keep]


def read(table: pd.DataFrame, missing: str, **options: object) -> Series:
    return series_from_frame(table, policies=Policies("error", missing), **options)


def slowly(table: pd.DataFrame, frequency: str, missing: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Fill the grid cell by cell; return the values and the mask of measured ones."""
    grid = pd.date_range(table.index[0], table.index[-1], freq=frequency)
    whole = table.reindex(grid)
    filled = whole.copy()
    for name in whole.columns:
        cells = [float(cell) for cell in whole[name]]
        made, seen = list(cells), [not math.isnan(cell) for cell in cells]
        for place in range(len(grid)):
            if seen[place]:
                continue
            before = [other for other in range(place) if seen[other]]
            after = [other for other in range(place, len(grid)) if seen[other]]
            if not before:
                continue
            if missing == "interpolate" and after:
                share = (grid[place] - grid[before[-1]]) / (grid[after[0]] - grid[before[-1]])
                made[place] = cells[before[-1]] + share * (cells[after[0]] - cells[before[-1]])
            else:
                made[place] = cells[before[-1]]
        filled[name] = made
    start = int(np.argmax(filled.notna().all(axis=1)))
    return filled.iloc[start:], whole.notna().iloc[start:]


@pytest.mark.parametrize("missing", FILLS)
@pytest.mark.parametrize("frequency", ["h", "15min", "D", "B", "W-WED", "MS", "ME", "QS-JAN"])
def test_a_table_with_gaps_is_filled_like_a_loop_over_cells(frequency: str, missing: str) -> None:
    table = holed(frequency)
    series = read(table, missing, frequency=frequency)
    values, seen = slowly(table, frequency, missing)
    assert series.observed is not None
    assert series.frame.index.equals(values.index.as_unit("ns").rename("date"))
    np.testing.assert_allclose(series.frame.to_numpy(), values.to_numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(series.observed, seen.to_numpy())
    kept = series.frame.to_numpy()[series.observed]
    np.testing.assert_array_equal(kept, values.to_numpy()[seen.to_numpy()])  # measured values keep every digit


@pytest.mark.parametrize("missing", FILLS)
def test_the_rows_that_were_changed_are_counted(missing: str) -> None:
    index = pd.date_range("2024-01-01", periods=10, freq="h", name="date")
    table = pd.DataFrame({"a": np.arange(10.0), "b": np.arange(10.0) * 2}, index=index)
    table.iloc[0, 1] = table.iloc[6, 0] = np.nan
    series = read(table.drop(index=index[[3, 4]]), missing)
    assert series.notes == (
        "the first 1 rows were left out: 'b' has no value before 2024-01-01 01:00:00",
        f"2 missing rows and 1 row with empty cells filled (data.missing={missing}): 5 of 18 values",
    )
    wanted = {"interpolate": [1, 2, 3, 4, 5, 6, 7, 8, 9]}.get(missing, [1, 2, 2, 2, 5, 5, 7, 8, 9])
    assert series.frame["a"].tolist() == wanted
    assert series.measured["a"].isna().tolist() == [False, False, True, True, False, True, False, False, False]
    assert series.measured["b"].isna().tolist() == [False, False, True, True, False, False, False, False, False]


@pytest.mark.parametrize(("kept", "left_out"), [(0, 3), (7, 3), (8, 2), (10, 0), (99, 0)])
def test_the_last_rows_stay_although_a_column_has_no_value_yet(kept: int, left_out: int) -> None:
    index = pd.date_range("2024-01-01", periods=10, freq="h", name="date")
    table = pd.DataFrame({"a": np.arange(10.0), "b": np.arange(10.0) * 2}, index=index)
    table.iloc[0, 0] = table.iloc[:3, 1] = np.nan
    series = read(table, "mask", kept_rows=kept)
    assert len(series.frame) == 10 - left_out
    assert series.frame["b"].tolist() == [6.0] * (3 - left_out) + [6, 8, 10, 12, 14, 16, 18]
    assert series.measured["b"].isna().sum() == 3 - left_out
    text = f"the first {left_out} rows were left out: 'b' has no value before 2024-01-01 03:00:00"
    text += "" if kept else " (30 % of the table: a run without this column keeps them)"
    assert [note for note in series.notes if "left out" in note] == ([text] if left_out else [])


@pytest.mark.parametrize("missing", FILLS)
@pytest.mark.parametrize("duplicates", DUPLICATES)
def test_a_complete_table_is_not_changed(missing: str, duplicates: str) -> None:
    index = pd.date_range("2024-01-01", periods=10, freq="h", name="date")
    table = pd.DataFrame({"a": np.arange(10.0) / 3}, index=index)
    series = series_from_frame(table, policies=Policies(duplicates, missing))
    strict = series_from_frame(table)
    pd.testing.assert_frame_equal(series.frame, strict.frame, check_exact=True)
    assert series.observed is None
    assert series.notes == ()
    assert series.measured is series.frame


@pytest.mark.parametrize("missing", FILLS)
def test_a_gap_that_reaches_the_end_is_filled_forward(missing: str) -> None:
    index = pd.date_range("2024-01-01", periods=6, freq="h", name="date")
    table = pd.DataFrame({"a": [0.0, 1.0, 3.0, np.nan, np.nan, np.nan], "b": range(6)}, index=index)
    assert read(table, missing).frame["a"].tolist() == [0, 1, 3, 3, 3, 3]


def test_a_line_is_straight_in_time_where_steps_differ() -> None:
    index = pd.date_range("2023-01-01", periods=4, freq="MS", name="date")  # 31, 28 and 31 days
    series = read(pd.DataFrame({"a": [0.0, np.nan, np.nan, 90.0]}, index=index), "interpolate", frequency="MS")
    np.testing.assert_allclose(series.frame["a"], [0, 31, 59, 90], rtol=1e-12)


@pytest.mark.parametrize("missing", ["ffill", "mask"])
@pytest.mark.parametrize("row", [10, 125, 200])
def test_a_forward_fill_does_not_read_later_values(missing: str, row: int) -> None:
    table = holed()
    later = table.index >= table.index[0] + pd.Timedelta(hours=row)
    other = table.mask(later[:, None] & table.notna(), 1e30)
    one, two = read(table, missing), read(other, missing)
    before = one.frame.index < table.index[0] + pd.Timedelta(hours=row)
    pd.testing.assert_frame_equal(one.frame[before], two.frame[before], check_exact=True)


# --- what stays refused


def refuse(message: str, table: pd.DataFrame, missing: str, **options: object) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(table, missing, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("missing", FILLS)
@pytest.mark.parametrize(
    ("cell", "message"),
    [("high", "row 9: 'high' is not a number"), ("1,5", "row 9: '1,5' is not a number"), (np.inf, "row 9: an infinite"),
     (-np.inf, "row 9: an infinite"), (1e39, "row 9: 1e.39 is too large for float32")],
)  # fmt: skip
def test_invalid_values_are_refused_under_every_policy(missing: str, cell: object, message: str) -> None:
    table = holed().astype(object)
    table.iloc[7, 1] = cell
    refuse(message, table, missing)


@pytest.mark.parametrize("missing", FILLS)
@pytest.mark.parametrize("row", [0, 50, -1])
def test_a_time_off_the_grid_is_refused_under_every_policy(missing: str, row: int) -> None:
    table = holed()
    times = table.index.to_list()
    times[row] += pd.Timedelta("17min")
    refuse(f"{times[row]} is off the grid of one row every h", table.set_axis(pd.DatetimeIndex(times)), missing)


@pytest.mark.parametrize("missing", FILLS)
def test_a_column_without_a_value_is_refused_by_name(missing: str) -> None:
    refuse("column 'b': has no value in any row: leave it out of data.targets", holed().assign(b=np.nan), missing)


def test_a_wanted_column_without_a_value_is_refused_without_advice_to_fill_it() -> None:
    table = holed().assign(b=np.nan)[["a", "b"]].dropna(subset="a").resample("h").mean().fillna({"a": 0.0})
    with pytest.raises(InputError) as caught:
        series_from_frame(table, columns=["a", "b"], source="my.csv")
    assert re.fullmatch(
        r"my.csv, column 'b', row 2: no value \(\d+ empty in total\): leave it out of data.targets or the covariates",
        str(caught.value),
    )


@pytest.mark.parametrize("missing", FILLS)
def test_a_mistyped_date_is_named_before_its_grid_is_built(missing: str) -> None:
    index = pd.date_range("2016-01-01", periods=50, freq="s", name="date").to_list()
    index[-1] = pd.Timestamp("2061-01-01 00:00:49")  # a grid of 1.4 billion rows
    table = pd.DataFrame({"a": np.arange(50.0)}, index=pd.DatetimeIndex(index, name="date"))
    message = r"row 51: 2061-01-01 00:00:49 is \d{10} steps of s after 2016-01-01 00:00:48 in row 50; \d{10} rows are"
    refuse(message, table, missing)


@pytest.mark.parametrize("missing", FILLS)
def test_at_most_half_of_the_rows_may_be_missing(missing: str) -> None:
    index = pd.date_range("2024-01-01", periods=21, freq="h", name="date")
    table = pd.DataFrame({"a": np.arange(21.0)}, index=index)
    assert len(read(table.iloc[[*range(9), 19]], missing, frequency="h").frame) == 20
    refuse("11 rows are missing and 10 are present", table.iloc[[*range(9), 20]], missing, frequency="h")


def test_a_gap_is_refused_with_the_options_that_take_it() -> None:
    few = pd.DataFrame({"a": np.arange(20.0)}, index=pd.date_range("2019-01-01", periods=20, freq="h", name="date"))
    options = r"or train with data\.missing=ffill, interpolate or mask"
    refuse(rf"is missing \(1 missing in total, .*{options}", few.drop(index=few.index[7]), "error")
    refuse(rf"no value \(2 empty in total\).*{options}", few.where(~few["a"].isin([4, 9])), "error")
    message = r"is missing \(\d+ missing in total, .*or train with data\.missing=mask"
    refuse(message, holed().fillna(0.0), "error", frequency="h")
    empty = holed()[["a"]].dropna().resample("h").mean()
    refuse(r"no value \(\d+ empty in total\).*or train with data\.missing=mask", empty, "error")
    refuse(r"'a'.* 'b'.*no value \(\d+ empty in.*is missing \(\d+ .*train with data.missing=mask$", holed(), "error")


# --- clock changes


@pytest.mark.parametrize("missing", FILLS)
@pytest.mark.parametrize("duplicates", ["mean", "first", "last"])
def test_local_time_through_both_clock_changes_becomes_regular(missing: str, duplicates: str, tmp_path: Path) -> None:
    aware = pd.date_range("2021-03-01", "2021-11-30", freq="h", tz="Europe/Berlin")
    local = pd.DataFrame({"date": aware.tz_localize(None), "load": np.arange(len(aware)) * 1.0})
    local.to_csv(tmp_path / "local.csv", index=False)
    series = read_series(tmp_path / "local.csv", policies=Policies(duplicates, missing))
    assert (np.diff(series.frame.index.asi8) == 3600 * 10**9).all()
    autumn = series.frame.loc["2021-10-31 02:00", "load"]
    first = float(local.index[local["date"] == "2021-10-31 02:00"][0])
    assert autumn == {"mean": first + 0.5, "first": first, "last": first + 1}[duplicates]
    spring, before = pd.Timestamp("2021-03-28 02:00"), pd.Timestamp("2021-03-28 01:00")
    share = 0.5 if missing == "interpolate" else 0.0
    assert series.frame.loc[spring, "load"] == series.frame.loc[before, "load"] + share
    assert series.observed is not None
    assert series.observed.all(1).tolist() == [time != spring for time in series.frame.index]
    assert series.notes == (
        f"1 time had several rows: 2 rows were merged into 1 (data.duplicates={duplicates})",
        f"1 missing row filled (data.missing={missing}): 1 of {len(aware):,} values",
    )


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "+05:30"])
@pytest.mark.parametrize("frequency", ["30min", "h", "D", "MS"])
def test_absent_times_come_back_in_their_zone(zone: str, frequency: str) -> None:
    whole = pd.date_range(
        "2021-03-01", periods=24 * 250 if frequency in ("30min", "h") else 250, freq=frequency, tz=zone
    )
    keep = np.random.default_rng(0).random(len(whole)) > 0.3
    keep[[0, -1]] = True
    table = pd.DataFrame({"a": np.arange(len(whole)) * 1.0}, index=whole)[keep]
    series = read(table, "ffill", frequency=frequency)
    assert series.frame.index.equals(whole.as_unit("ns"))
    assert series.observed is not None
    assert series.observed[:, 0].tolist() == keep.tolist()


def test_a_day_without_a_midnight_begins_when_its_clock_does() -> None:
    local = pd.date_range("2021-09-01", periods=10, freq="D").delete(4)  # 5 September begins at 01:00 in Santiago
    table = pd.DataFrame({"a": np.arange(9.0)}, index=local.tz_localize("America/Santiago"))
    index = read(table, "ffill", frequency="D").frame.index
    assert index[4] == pd.Timestamp("2021-09-05 01:00", tz="America/Santiago")
    assert index.delete(4).equals(table.index.as_unit("ns"))


def marked(values: list[float | None]) -> pd.DataFrame:
    dates = pd.date_range("2019-01-01", periods=len(values), freq="h")
    return pd.DataFrame({"date": dates, "a": values, "b": np.arange(len(values))})


@pytest.mark.parametrize("how", FILLS)
def test_a_number_that_means_a_missing_value_is_an_empty_cell(how: str) -> None:
    holes = [1.0, -9999, 3.0, None, 5.0, 9999.0, 7.0]
    found = series_from_frame(marked(holes), policies=Policies(missing=how, missing_values=(-9999, 9999)))
    empty = [None if each in (-9999, 9999) else each for each in holes]
    expected = series_from_frame(marked(empty), policies=Policies(missing=how))
    pd.testing.assert_frame_equal(found.frame, expected.frame)
    assert found.observed is not None
    assert np.array_equal(found.observed, expected.observed)  # type: ignore[arg-type]
    assert found.notes == ("2 cells hold -9999, 9999 and count as empty (data.missing_values)", *expected.notes)


def test_rows_that_hold_only_missing_values_end_the_series(tmp_path: Path) -> None:
    table = marked([1.0, 2.0, 3.0, -9999.0, -9999.0])
    table.to_csv(tmp_path / "ends.csv", index=False)
    policies = Policies(missing="ffill", missing_values=(-9999,))
    series = read_series(tmp_path / "ends.csv", columns=["a"], policies=policies)
    assert series.frame["a"].tolist() == [1.0, 2.0, 3.0]


def test_missing_values_without_a_policy_for_them_are_refused_with_the_row() -> None:
    with pytest.raises(InputError, match=r"column 'a', row 3: no value \(1 empty"):
        series_from_frame(marked([1.0, -9999, 3.0]), policies=Policies(missing_values=(-9999,)))
    assert series_from_frame(marked([1.0, -9999, 3.0])).frame["a"].tolist() == [1.0, -9999.0, 3.0]


HOLED = [1.0, -999.9, 3.0, 4.0]


@pytest.mark.parametrize(
    "cells",
    [
        pd.Series(HOLED, dtype="float32"),
        pd.Series(["1", "-999.9", " ", "4"]),
        pd.Series([1.0, "-999.9", "3", 4.0], dtype=object),
        pd.Series(HOLED, dtype="Float32"),
    ],
    ids=["float32", "text", "mixed", "nullable"],
)
def test_a_number_that_means_missing_is_found_in_a_column_of_any_type(cells: pd.Series) -> None:
    policies = Policies(missing="ffill", missing_values=(-999.9,))
    found = series_from_frame(marked([1.0, 2.0, 3.0, 4.0]).assign(a=cells), policies=policies)
    assert found.observed is not None
    assert not found.observed[1, 0]
    assert found.frame["a"].iloc[1] == 1.0
    assert found.notes[0] == "1 cells hold -999.9 and count as empty (data.missing_values)"


def test_true_and_false_are_no_numbers_that_mean_missing() -> None:
    table = marked([5.0, 2.0, 3.0, 4.0]).assign(b=7.0, flag=[True, False, False, True])
    policies = Policies(missing="ffill", missing_values=(0, 1))
    found = series_from_frame(table, covariates=["flag"], known=["flag"], policies=policies)
    assert found.frame["flag"].tolist() == [1.0, 0.0, 0.0, 1.0]


def test_a_number_that_means_missing_is_found_among_labels() -> None:
    table = marked([1.0, 2.0, 3.0, 4.0]).assign(sky=["clear", "-9999", "rain", "rain"])
    policies = Policies(missing="ffill", missing_values=(-9999,))
    found = series_from_frame(table, covariates=["sky"], known=["sky"], policies=policies)
    assert found.labels == {"sky": ("clear", "rain", EMPTY)}
    assert found.frame["sky"].tolist() == [0, 2, 1, 1]
