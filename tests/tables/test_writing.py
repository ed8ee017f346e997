"""Tables as files: each format gives the table back, and no cell of a workbook is a formula."""

import importlib.util
import re
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from python_calamine import CalamineWorkbook

from forecast.common.errors import InputError
from forecast.common.tables import Table
from forecast.tables import writing
from forecast.tables.files import read_table
from forecast.tables.writing import OUTPUTS, check_output, write_table


def frame(**times: object) -> pd.DataFrame:
    index = pd.date_range("2022-03-10", periods=5, name="time", **({"freq": "h"} | times))  # type: ignore[call-overload]
    return pd.DataFrame({"load": [1.25, 2.5, np.nan, 1e-7, 12345.75], "load_naive": range(5)}, index=index)


@pytest.mark.parametrize("ending", OUTPUTS)
@pytest.mark.parametrize("times", [{}, {"freq": "D"}, {"tz": "Europe/Berlin"}, {"freq": "ms"}])
def test_a_table_comes_back_from_every_format(tmp_path: Path, ending: str, times: dict[str, object]) -> None:
    table, path = frame(**times), tmp_path / f"forecast{ending}"

    write_table(path, table)

    back = read_table(path)
    back = back if isinstance(back.index, pd.DatetimeIndex) else back.set_index("time")
    found = pd.to_datetime(back.index, utc=True)
    assert list(found) == list(pd.to_datetime(table.index, utc=True))
    np.testing.assert_array_equal(back.to_numpy(np.float64), table.to_numpy())


def test_dates_before_those_of_a_workbook_are_text(tmp_path: Path) -> None:
    table = pd.DataFrame({"load": [1.5, 2.5]}, index=pd.DatetimeIndex(["1850-01-01", "1851-01-01"], name="year"))
    write_table(tmp_path / "forecast.xlsx", table)
    assert list(read_table(tmp_path / "forecast.xlsx")["year"]) == ["1850-01-01", "1851-01-01"]


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    for ending in OUTPUTS:
        first, second = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
        write_table(first, frame())
        write_table(second, frame())
        assert first.read_bytes() == second.read_bytes(), ending


def test_a_workbook_shows_five_digits_and_holds_all(tmp_path: Path) -> None:
    table = pd.DataFrame({"power": [4.789989, -0.5], "load": [45_678.9, 1.0], "count": [3.0, np.nan], "dust": 1.5e-9})

    write_table(tmp_path / "forecast.xlsx", table, index=False)

    with zipfile.ZipFile(tmp_path / "forecast.xlsx") as archive:
        styles, cells = (archive.read(f"xl/{part}.xml").decode() for part in ("styles", "worksheets/sheet1"))
    assert {*re.findall(r'formatCode="([^"]*)"', styles)} == {"0.0000"}  # of the power; the others have a number
    assert "<v>4.789989</v>" in cells
    assert [writing._shown_digits(table[name].to_numpy()) for name in table] == ["0.0000", "0", "0", "General"]


def test_no_cell_of_a_workbook_is_a_formula_or_a_link(tmp_path: Path) -> None:
    texts = ["=1+1", "@SUM(A1)", "+1", "-1", "{=1+1}", "https://example.org", "mailto:a@example.org", "internal:A1"]
    table = pd.DataFrame({"=cmd|' /C calc'!A0": texts, "http://example.org": texts})
    scores = Table("=1+1", ["=a", "b"], [["=1+1", "=2"], ["{=1}", "https://example.org"]], ["=note", "http://note.org"])

    write_table(tmp_path / "forecast.xlsx", table, index=False, scores=[scores])

    with zipfile.ZipFile(tmp_path / "forecast.xlsx") as archive:
        for name in archive.namelist():
            part = archive.read(name)
            assert b"<f>" not in part, name
            assert b"<f " not in part, name
            assert b"<hyperlink " not in part, name
    with CalamineWorkbook.from_path(tmp_path / "forecast.xlsx") as book:
        rows = book.get_sheet_by_name("forecast").to_python()
    assert rows == [list(table.columns), *([text, text] for text in texts)]


def test_a_workbook_has_sheets_of_scores_and_the_picture(tmp_path: Path) -> None:
    scores = Table(
        "my: 12 windows", ["forecast", "MSE", "skill"], [["model", "0.1250", "+12.5%"], ["naive", "none", "1.5e+07"]]
    )
    picture = tmp_path / "forecast.png"
    picture.write_bytes(PIXEL)

    write_table(tmp_path / "forecast.xlsx", frame(), scores=[scores, scores], picture=picture)

    with CalamineWorkbook.from_path(tmp_path / "forecast.xlsx") as book:
        assert book.sheet_names == ["forecast", "scores", "picture"]
        rows = book.get_sheet_by_name("scores").to_python()
    table = [
        ["my: 12 windows", "", ""],
        ["forecast", "MSE", "skill"],
        ["model", 0.125, 0.125],
        ["naive", "none", 1.5e7],
    ]
    assert rows == [*table, ["", "", ""], *table]
    with zipfile.ZipFile(tmp_path / "forecast.xlsx") as archive:
        assert archive.read("xl/media/image1.png") == PIXEL
        assert b'"0.0000"' in archive.read("xl/styles.xml")
        assert b'"0.0%"' in archive.read("xl/styles.xml")


PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c63600000000200"
    "01e221bc330000000049454e44ae426082"
)


def test_a_table_that_fits_no_sheet_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_MOST_ROWS", 4)
    with pytest.raises(InputError, match=r"5 rows and 3 columns do not fit a sheet .* choose an --output in \.csv"):
        write_table(tmp_path / "forecast.xlsx", frame())
    assert list(tmp_path.iterdir()) == []


def test_an_ending_that_is_not_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"must end in \.csv, \.parquet, \.feather, \.arrow or \.xlsx"):
        check_output(tmp_path / "forecast.xls")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    check_output(tmp_path / "forecast.csv")
    with pytest.raises(InputError, match=r'pip install -e "\.\[excel\]"'):
        check_output(tmp_path / "forecast.xlsx")
