import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.tables.repair import Rows, one_row_a_time

HOW = ("mean", "first", "last")


def table(seed: int = 0, rows: int = 400, columns: int = 3) -> Rows:
    """Return rows in any order, many of them for the same time, a third of the cells empty."""
    draw = np.random.default_rng(seed)
    times = pd.DatetimeIndex(pd.date_range("2024-01-01", periods=150, freq="h")[draw.integers(0, 150, rows)])
    values = draw.standard_normal((rows, columns)) * 10.0 ** draw.integers(-3, 4, (rows, columns))
    values[draw.random((rows, columns)) < 0.35] = np.nan
    return times.as_unit("ns"), values, np.arange(2, rows + 2)


def slowly(given: Rows, how: str) -> tuple[list[pd.Timestamp], list[list[float]], list[int]]:
    """Merge by looking at each time and each cell, in the order of the file."""
    times, values, rows = list(given[0]), *given[1:]
    found: tuple[list[pd.Timestamp], list[list[float]], list[int]] = ([], [], [])
    for time in sorted(set(times)):
        same = [place for place in range(len(times)) if times[place] == time]
        merged = []
        for column in range(values.shape[1]):
            seen = [float(values[place, column]) for place in same if not np.isnan(values[place, column])]
            one = {"mean": lambda seen: sum(seen) / len(seen), "first": lambda seen: seen[0], "last": lambda s: s[-1]}
            merged.append(one[how](seen) if seen else np.nan)
        for place, part in zip(found, (time, merged, int(rows[same[0]])), strict=True):
            place.append(part)
    return found


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rows_of_one_time_are_merged_like_a_loop_over_cells(how: str, seed: int) -> None:
    given = table(seed)
    (times, values, rows), notes = one_row_a_time(given, how, "the frame", "date")
    wanted = slowly(given, how)
    assert list(times) == wanted[0]
    np.testing.assert_allclose(values, wanted[1], rtol=1e-13)
    assert rows.tolist() == wanted[2]
    doubled = int((pd.Series(given[0]).value_counts() > 1).sum())
    merged = int(pd.Series(given[0]).duplicated(keep=False).sum())
    assert (
        notes[1]
        == f"{doubled} times had several rows: {merged} rows were merged into {doubled} (data.duplicates={how})"
    )


@pytest.mark.parametrize("how", ["error", *HOW])
def test_without_a_duplicate_time_rows_are_sorted_and_no_digit_changes(how: str) -> None:
    times = pd.date_range("2024-01-01", periods=5, freq="h").as_unit("ns")
    values = np.array([[0.1], [1e30], [np.nan], [-7.3], [3e-9]])
    order = [3, 0, 1, 4, 2]
    (found, cells, rows), notes = one_row_a_time((times[order], values[order], np.arange(2, 7)), how, "x", "date")
    assert found.equals(times)
    np.testing.assert_array_equal(cells, values)
    assert rows.tolist() == [3, 4, 6, 2, 5]
    assert notes == ("3 rows out of order: sorted by date",)


@pytest.mark.parametrize("how", HOW)
def test_rows_next_to_a_duplicate_time_keep_every_digit(how: str) -> None:
    times = pd.DatetimeIndex(["2024-01-01 00:00", "2024-01-01 01:00", "2024-01-01 01:00", "2024-01-01 02:00"])
    values = np.array([[0.1, 1 / 3], [1.0, np.nan], [4.0, 5.0], [3.4e38, 2e-38]])
    (_, cells, rows), notes = one_row_a_time((times.as_unit("ns"), values, np.arange(2, 6)), how, "x", "date")
    np.testing.assert_array_equal(cells[[0, 2]], values[[0, 3]])
    assert cells[1].tolist() == [{"mean": 2.5, "first": 1.0, "last": 4.0}[how], 5.0]
    assert rows.tolist() == [2, 3, 5]
    assert notes == (f"1 time had several rows: 2 rows were merged into 1 (data.duplicates={how})",)


def test_first_and_last_are_those_of_the_file_whatever_its_order() -> None:
    times = pd.DatetimeIndex(["2024-01-01 01:00", "2024-01-01 00:00", "2024-01-01 01:00"]).as_unit("ns")
    given = (times, np.array([[1.0], [2.0], [3.0]]), np.array([2, 3, 4]))
    assert one_row_a_time(given, "first", "x", "date")[0][1].tolist() == [[2.0], [1.0]]
    assert one_row_a_time(given, "last", "x", "date")[0][1].tolist() == [[2.0], [3.0]]


def test_duplicate_times_are_refused_with_the_option_that_accepts_them() -> None:
    with pytest.raises(InputError, match=r"both are at .*keep one row per time, or train with data\.duplicates="):
        one_row_a_time(table(), "error", "the frame", "date")
