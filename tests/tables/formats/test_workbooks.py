"""Workbooks, Feather and Arrow: read in a process of its own, with the values of the same table as text."""

import importlib.util
import io
import struct
import zipfile
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from forecast.common.errors import InputError
from forecast.tables.files import read_table
from forecast.tables.formats import workbooks
from forecast.tables.formats.layout import Layout
from forecast.tables.formats.sheets import _text
from forecast.tables.formats.unpacking import LIMIT
from tests.support import reading
from tests.support.small import hourly
from tests.support.workbooks import Rows, ods, xls, xlsx
from tests.support.written.judge import words_of

HOURS = [datetime(2021, 1, 1) + timedelta(hours=hour) for hour in range(200)]
ROWS: Rows = [["time", "load", "air"], *([hour, 0.25 * place, -(place % 24)] for place, hour in enumerate(HOURS))]


def frame(rows: int = 200) -> pd.DataFrame:
    return pd.DataFrame(
        {"time": pd.DatetimeIndex(HOURS[:rows]), "load": 0.25 * np.arange(rows), "air": -(np.arange(rows) % 24)}
    )


def feather(table: pd.DataFrame) -> bytes:
    content = io.BytesIO()
    table.to_feather(content)
    return content.getvalue()


def stream(table: pa.Table) -> bytes:
    content = io.BytesIO()
    with pa.ipc.new_stream(content, table.schema) as file:
        file.write_table(table)
    return content.getvalue()


FILES: dict[str, Callable[[], bytes]] = {
    "my.xlsx": lambda: xlsx({"Data": ROWS}),
    "my.xlsm": lambda: xlsx({"Data": ROWS}),
    "my.ods": lambda: ods({"Data": ROWS}),
    "my.xls": lambda: xls("Data", ROWS),
    "xlsx-within.xls": lambda: xlsx({"Data": ROWS}),
    "my.feather": lambda: feather(frame()),
    "my.arrow": lambda: stream(pa.Table.from_pandas(frame())),
}

KINDS = ["my.xlsx", "my.ods", "my.xls", "my.feather", "my.arrow"]


def written(folder: Path, content: bytes, name: str = "my.xlsx") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def refusal_of(path: Path, layout: Layout | None = None) -> str:
    """Return the message of a refusal, which is one line."""
    with pytest.raises(InputError) as caught:
        read_table(path, layout or Layout())
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_series(tmp_path: Path, name: str) -> None:
    series = reading.read_series(written(tmp_path, FILES[name](), name))

    assert list(series.frame.index) == HOURS
    assert (series.frame.to_numpy() == frame()[["load", "air"]].to_numpy()).all()
    assert series.frequency == "h"


def test_titles_totals_and_text_cells_are_read_as_in_a_text_file(tmp_path: Path) -> None:
    table = hourly(200)[["date", "load"]].assign(load=[1.5 + place for place in range(200)])
    text = [[f"{stamp:%Y-%m-%d %H:%M}", f"{value:.1f}".replace(".", ",")] for stamp, value in table.to_numpy()]
    path = written(
        tmp_path, xlsx({"A": [["Lastgang", None], [None, None], ["Datum", "Verbrauch"], *text, ["Summe", "9,5"]]})
    )

    series = reading.read_series(path)

    assert list(series.frame["Verbrauch"]) == list(table["load"])
    assert series.frame.index[0] == table["date"][0]
    assert len(series.frame) == 200


def test_a_note_beside_the_table_is_a_column_that_can_be_left_out(tmp_path: Path) -> None:
    rows = [
        ["time", "load", None, "note"],
        *([hour, 2.5, None, "see page 2" if hour.hour == 3 else None] for hour in HOURS),
    ]
    path = written(tmp_path, xlsx({"Data": rows}))
    with pytest.raises(InputError, match=r"train with 'data\.targets=\[load\]'|data\.targets"):
        reading.read_series(path)
    assert list(reading.read_series(path, columns=["load"]).frame["load"]) == [2.5] * 200


def test_a_title_that_is_wider_than_the_table_adds_no_columns(tmp_path: Path) -> None:
    rows = [["TOA5", "Meadow", "CR6", "8812", "CR6.Std.09"], *ROWS]
    assert list(read_table(written(tmp_path, xlsx({"Data": rows}))).columns) == ["time", "load", "air"]


def test_a_message_names_the_row_of_the_sheet(tmp_path: Path) -> None:
    rows = [[None] * 3, ["Title", None, None], *ROWS[:50], [HOURS[49], "broken", 1], *ROWS[51:]]

    with pytest.raises(InputError, match="row 53: 'broken' is not a number"):
        reading.read_series(written(tmp_path, xlsx({"Data": rows})))


def test_the_first_sheet_with_a_column_of_dates_is_read_and_said(tmp_path: Path) -> None:
    later = [["time", "load"], *([f"{hour:%Y-%m-%d %H:%M}", 7.5] for hour in HOURS)]
    notes = [["Station", "Harbour"], ["Height", 43.5]]
    path = written(
        tmp_path, xlsx({"Notes": notes, "Hidden": ROWS, "Data": later, "Other": ROWS, "Empty": []}, ["Hidden"])
    )

    series = reading.read_series(path)

    assert (series.frame["load"] == 7.5).all()
    assert any("'Data' of 'Notes', 'Data', 'Other', 'Empty'" in note for note in series.notes)


@pytest.mark.parametrize("sheet", ["Second", "second", 2, "2"])
def test_a_sheet_has_a_name_and_a_number_from_1(tmp_path: Path, sheet: str | int) -> None:
    path = written(tmp_path, xlsx({"First": ROWS, "Second": [["time", "load"], *([hour, 7.5] for hour in HOURS)]}))
    assert (read_table(path, Layout(sheet=sheet))["load"] == 7.5).all()
    assert len(read_table(path).columns) == 3


def test_the_name_of_a_sheet_counts_before_its_number(tmp_path: Path) -> None:
    path = written(tmp_path, xlsx({"2": ROWS, "b": [["time", "load"], *([hour, 7.5] for hour in HOURS)], "2021": ROWS}))
    assert len(read_table(path, Layout(sheet="2")).columns) == 3
    assert len(read_table(path, Layout(sheet=2021)).columns) == 3


@pytest.mark.parametrize("sheet", ["Third", 0, 3, -1, "", "1.5", "\u0661"])
def test_a_sheet_that_is_not_there_is_refused_with_the_names(tmp_path: Path, sheet: str | int) -> None:
    path = written(tmp_path, xlsx({"First": ROWS, "Second": ROWS}))
    assert "'First', 'Second': name one, such as data.sheet=First" in refusal_of(path, Layout(sheet=sheet))


def test_several_sheets_without_dates_are_refused_with_the_option(tmp_path: Path) -> None:
    numbers = [["a", "b"], *([place, place] for place in range(9))]
    path = written(tmp_path, xlsx({"Tabelle 1": numbers, "Second": numbers}))
    message = refusal_of(path)
    assert "'Tabelle 1', 'Second' has a column of dates: name one, such as 'data.sheet=\"Tabelle 1\"'" in message
    assert words_of(message) == {"sheet": "Tabelle 1"}


@pytest.mark.parametrize("layout", [Layout(delimiter=";"), Layout(encoding="cp1252")])
def test_an_option_of_text_files_is_refused_for_a_workbook(tmp_path: Path, layout: Layout) -> None:
    assert "does not apply to a .xlsx file" in refusal_of(written(tmp_path, FILES["my.xlsx"]()), layout)
    assert "does not apply to a .feather file" in refusal_of(written(tmp_path, b"", "my.feather"), Layout(sheet=1))
    assert "does not apply to a .csv file" in refusal_of(written(tmp_path, b"", "my.csv"), Layout(sheet=1))


def test_the_options_of_header_and_marks_act_on_a_workbook(tmp_path: Path) -> None:
    text = [[hour, "1.234"] for hour in HOURS]
    path = written(tmp_path, xlsx({"Data": [["x", "y"], ["time", "load"], *text]}))
    assert list(read_table(path, Layout(header_row=2, decimal="."))["load"]) == [1.234] * 200
    assert list(read_table(path, Layout(header_row=2, thousands="."))["load"]) == [1234] * 200
    path = written(tmp_path, xlsx({"Data": text}))
    assert list(read_table(path, Layout(columns=("a", "b"), decimal=".")).columns) == ["a", "b"]


def test_numbers_in_text_cells_that_may_be_thousands_are_refused(tmp_path: Path) -> None:
    rows = [["time", "load", "air"], *([hour, "1.234", 0.5] for hour in HOURS)]
    assert 'set data.decimal="."' in refusal_of(written(tmp_path, xlsx({"Data": rows})))


def test_numbers_beside_numbers_in_text_cells_keep_their_value(tmp_path: Path) -> None:
    rows = [["time", "load", "air"], *([hour, 2.5, "1.234,5"] for hour in HOURS)]
    rows[7][1], rows[9][2] = "3,75", 1.25
    series = reading.read_series(written(tmp_path, xlsx({"Data": rows})))
    assert list(series.frame["load"]) == [2.5] * 6 + [3.75] + [2.5] * 193
    assert list(series.frame["air"]) == [1234.5] * 8 + [1.25] + [1234.5] * 191
    assert any("numbers in text cells have the decimal mark" in note for note in series.notes)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (0.1 + 0.2, "0.30000000000000004"),
        (201901.0, "201901"),
        (1e22, "1e+22"),
        (True, "True"),
        ("a\r\nb", "a b"),
        (date(2021, 1, 2), "2021-01-02"),
        (datetime(2021, 1, 2, 3, 0, 0, 999), "2021-01-02 03:00:00"),
        (datetime(2021, 1, 2, 2, 59, 59, 999_000), "2021-01-02 03:00:00"),
        (datetime(2021, 1, 2, 3, 0, 0, 250_000), "2021-01-02 03:00:00.250000"),
        (time(18, 30), "18:30:00"),
        (time(23, 59, 59, 999_500), "00:00:00"),
        (timedelta(hours=24), "24:00:00"),
    ],
)
def test_a_cell_becomes_the_text_that_keeps_its_value(cell: Any, text: str) -> None:
    assert _text(cell, timed=False) == text


def test_a_date_has_a_time_of_day_where_its_column_has(tmp_path: Path) -> None:
    assert _text(date(2021, 1, 2), timed=True) == "2021-01-02 00:00:00"


def test_hours_that_a_formula_adds_up_are_whole_hours(tmp_path: Path) -> None:
    import xlsxwriter

    path, serial = tmp_path / "my.xlsx", 44197.0
    with xlsxwriter.Workbook(path) as book:
        form, sheet = book.add_format({"num_format": "dd.mm.yyyy hh:mm"}), book.add_worksheet()
        sheet.write_row(0, 0, ["time", "load", "ratio"])
        for row in range(1, 201):
            sheet.write_number(row, 0, serial, form)
            sheet.write_formula(row, 1, "=A2*0+7.5", None, 7.5)
            sheet.write_formula(row, 2, "=1/0", None, "#DIV/0!")
            serial += 1 / 24
    table = read_table(path)
    assert list(pd.to_datetime(table["time"])) == HOURS
    assert (table["load"] == 7.5).all()
    assert table["ratio"].isna().all()


def test_without_its_package_a_workbook_is_refused_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert 'pip install -e ".[excel]"' in refusal_of(written(tmp_path, FILES["my.xlsx"]()))


@pytest.mark.parametrize("name", KINDS)
def test_an_empty_or_cut_file_is_refused(tmp_path: Path, name: str) -> None:
    content = FILES[name]()
    for part in (b"", content[: len(content) // 2], b"x" * 5000):
        assert str(tmp_path / name) in refusal_of(written(tmp_path, part, name))


def test_a_workbook_without_cells_is_refused(tmp_path: Path) -> None:
    assert "all its sheets are empty" in refusal_of(written(tmp_path, xlsx({"First": [], "Second": []})))


def test_a_file_that_takes_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(*_: object, **__: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(workbooks, "run_python", wait)
    assert "reading it takes more than 120 s" in refusal_of(written(tmp_path, FILES["my.xlsx"]()))


SHEET, CELLS = "xl/worksheets/sheet1.xml", b"</sheetData>"


def edited(content: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    """Return a zip file with a part changed."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new:
        for part in old.namelist():
            new.writestr(part, change(old.read(part)) if part == name else old.read(part))
    return changed.getvalue()


def with_lies(content: bytes) -> bytes:
    """Return a zip file that says of each large part that it is small."""
    changed, place = bytearray(content), 0
    while (place := changed.find(b"PK\x01\x02", place)) >= 0:
        (size,) = struct.unpack_from("<I", changed, place + 24)
        if size > 2**20:
            struct.pack_into("<I", changed, place + 24, 100)
        place += 4
    return bytes(changed)


def bombs() -> dict[str, bytes]:
    """Return small files whose table, or what they unpack to, is over the limit of 8 MiB."""
    book, many, blanks = FILES["my.xlsx"](), 400_000, b" " * (2**26 + 1)
    corner = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    long = edited(book, SHEET, lambda part: part.replace(CELLS, blanks + CELLS))
    cell, row = b'<table:table-cell office:value-type="float"', b"<table:table-row>"
    repeated = cell.replace(b"cell ", b'cell table:number-columns-repeated="16384" ')
    rows = row.replace(b">", b' table:number-rows-repeated="1048576">')
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, np.int8)), pa.array(["a" * 2**18]))
    return {
        "corner.xlsx": edited(book, SHEET, lambda part: part.replace(CELLS, corner + CELLS)),
        "long.xlsx": long,
        "lies.xlsx": with_lies(long),
        "rows.xlsx": edited(
            book, SHEET, lambda part: part.replace(CELLS, b"<row><c><v>1</v></c></row>" * many + CELLS)
        ),
        "shared.xlsx": edited(book, "xl/sharedStrings.xml", lambda _: b"<sst><si><t>" + blanks + b"</t></si></sst>"),
        "repeated.ods": edited(
            FILES["my.ods"](), "content.xml", lambda part: part.replace(cell, repeated).replace(row, rows)
        ),
        "zeros.feather": feather(pd.DataFrame(np.zeros((2**20, 2)), columns=["a", "b"])),
        "empty.arrow": stream(pa.table({"a": pa.nulls(2**24)})),
        "texts.arrow": stream(pa.table({"a": texts})),
    }


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, "8")
    monkeypatch.setattr(workbooks, "_BASE", 2**28)
    for name, content in bombs().items():
        assert len(content) < 2**20, name
        message = refusal_of(written(tmp_path, content, name))
        assert LIMIT in message or "cannot be read as a workbook" in message, message


@pytest.mark.parametrize("column", [pa.array([[1]]), pa.array([{"a": 1}])])
def test_a_column_of_lists_or_records_is_refused(tmp_path: Path, column: Any) -> None:
    path = written(tmp_path, stream(pa.table({"time": pa.array([HOURS[0]]), "load": column})), "my.arrow")
    assert "column 'load': holds" in refusal_of(path)


def flip_bytes(folder: Path, name: str, count: int) -> None:
    """Read a file with flipped bits, many times; whatever is not refused in one line is a table."""
    content, random = FILES[name](), Random(name)
    for turn in range(count):
        damaged = bytearray(content)
        for _ in range(1 + turn % 3):
            damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
        path = written(folder, bytes(damaged), name)
        try:
            table = read_table(path)
        except InputError as error:
            table, lines = None, str(error).splitlines()
            assert len(lines) == 1
        assert table is None or isinstance(table, pd.DataFrame)


@pytest.mark.parametrize("name", KINDS)
def test_a_file_with_flipped_bits_is_a_table_or_refused_in_one_line(tmp_path: Path, name: str) -> None:
    flip_bytes(tmp_path, name, 3)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", KINDS)
def test_a_thousand_files_with_flipped_bits_are_tables_or_refused_in_one_line(tmp_path: Path, name: str) -> None:
    flip_bytes(tmp_path, name, 1000)
