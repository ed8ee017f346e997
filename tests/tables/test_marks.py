"""Texts that mean missing are found in a column of numbers, and the printed option reads them as empty."""

import shlex
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data.contract import DataContract
from forecast.data.settings import DataSettings
from forecast.data.sources import load_source
from forecast.tables.marks import as_numbers, find_marks
from forecast.tables.numbers import to_numbers
from forecast.tables.repair import Policies
from forecast.tables.sentinels import sentinel_warnings
from tests.support.contracts import contract_of
from tests.support.reading import series_from_frame
from tests.support.small import compose, write

MARKS = [".", "-", "?", "M", "#DIV/0!", "#N/V", "k. A.", "brak danych", "--", "*", "null value", "${x}", "'", "Ausfall"]
VALUES = np.round(np.sin(np.arange(60.0)), 2)


def marked(*marks: str, column: str = "load") -> pd.DataFrame:
    """Return hours whose column holds each mark in two cells."""
    cells = VALUES.astype(object)
    for place, mark in enumerate(marks):
        cells[[10 + 5 * place, 12 + 5 * place]] = mark
    times = pd.date_range("2024-01-01", periods=60, freq="h")
    return pd.DataFrame({"date": times, column: cells, "oil": np.arange(60.0) ** 2})


def words_of(path: Path, *words: str) -> list[str]:
    """Return the options that the refusal names, as a shell reads them."""
    with pytest.raises(InputError) as caught:
        load_source(DataSettings.parse(compose("data=csv", f"data.path={path}", *words)["data"]))
    text = str(caught.value)
    assert "\n" not in text
    return shlex.split(text.rpartition("train with ")[2].partition("; to see the whole table")[0])


@pytest.mark.parametrize("mark", MARKS)
def test_the_printed_words_read_a_mark_as_an_empty_cell(mark: str, tmp_path: Path) -> None:
    path = write(tmp_path / "my.csv", marked(mark))
    words = words_of(path)
    series = load_source(DataSettings.parse(compose("data=csv", f"data.path={path}", *words)["data"])).series
    assert series.observed is not None
    assert np.flatnonzero(~series.observed[:, 0]).tolist() == [10, 12]
    assert series.frame["load"].to_numpy()[[9, 11, 13]].tolist() == VALUES[[9, 11, 13]].tolist()


def test_one_option_names_the_marks_of_all_columns_and_those_that_are_set(tmp_path: Path) -> None:
    table = marked(".", "M").assign(gas=marked("-")["load"])
    path = write(tmp_path / "my.csv", table)
    words = words_of(path, "data.missing_values=[-9999]", "data.missing=ffill")
    assert words == ['data.missing_values=[-9999,".",M,"-"]']
    series = load_source(
        DataSettings.parse(compose("data=csv", f"data.path={path}", "data.missing=ffill", *words)["data"])
    )
    assert series.series.notes[0] == "6 cells hold -9999, '.', 'M', '-' and count as empty (data.missing_values)"


def test_marks_of_a_covariate_are_no_labels() -> None:
    table = marked(".", column="wind")
    with pytest.raises(InputError, match=r"data\.missing_values=\[\".\"\]' data\.missing=mask"):
        series_from_frame(table, covariates=["wind"], known=["wind"])
    policies = Policies(missing="ffill", missing_values=(".",))
    assert series_from_frame(table, covariates=["wind"], known=["wind"], policies=policies).labels == {}


def test_text_with_digits_many_texts_and_labels_are_no_marks() -> None:
    for cells in (["12 kW", "3"], ["a", "b", "c", "1"], ["high", "low"], ["1,5", ".", "2", "3"], ["???", "1", "2"]):
        assert marks_of(cells * 5) == {}
    assert marks_of([" . ", "1", "2", None, "", ".", "3.5"]) == {".": 2}
    assert marks_of([*"abcdef", *map(str, range(20))]) == {}


def marks_of(cells: list[object]) -> Mapping[str, int]:
    column = pd.Series(cells, dtype=object)
    return find_marks(column, as_numbers(column))


def test_equal_cells_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parse, sizes = pd.to_numeric, list[int]()
    monkeypatch.setattr(pd, "to_numeric", lambda cells, **how: (sizes.append(len(cells)), parse(cells, **how))[1])

    table = pd.DataFrame({"load": ["a", "b", "1"] * 1000, "oil": 1.0})
    _, (flaw,) = to_numbers(table, np.arange(3000), "the frame")

    assert flaw.word == "data.targets=[oil]" or "'a' is not a number" in str(flaw)
    assert sizes == [3]


def test_cells_of_any_kind_are_the_numbers_that_pandas_reads() -> None:
    for cells in ([1, "2", True, None, 1.0], [[1], "3"], ["inf", "", " 4 ", "1e400", "1_0"], [Decimal("1.5"), b"2"]):
        column = pd.Series(cells * 2, dtype=object)
        read = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
        np.testing.assert_array_equal(as_numbers(column), read)


def test_a_mark_is_text_and_no_number() -> None:
    table = marked(".").assign(oil=7.0)
    policies = Policies(missing="ffill", missing_values=(".", "7"))
    series = series_from_frame(table, policies=policies)
    assert series.frame["oil"].tolist() == [7.0] * 60


def test_a_warning_of_numbers_keeps_the_marks() -> None:
    table = marked(".")
    table["oil"] = np.where(np.arange(60) % 7 == 3, -9999, np.arange(60.0))
    series = series_from_frame(table, policies=Policies(missing="ffill", missing_values=(".",)))
    (text,) = sentinel_warnings(series, ["load", "oil"])
    assert text.endswith("""train with 'data.missing_values=[".",-9999]'""")


def test_a_contract_keeps_the_marks() -> None:
    contract = contract_of(policies=Policies(missing="mask", missing_values=(-9999, "M", ".")))
    assert contract.to_dict()["data"]["missing_values"] == [-9999, "M", "."]
    again = DataContract.from_dict(contract.to_dict(), contract.context_length, contract.horizon)
    assert again.policies == contract.policies
