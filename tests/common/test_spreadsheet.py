"""CSV files hold no formulas, restore every text and leave numbers unchanged."""

import csv
import io
import re
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.accuracy.record import COLUMNS, read_record, write_record
from forecast.common.spreadsheet import csv_bytes, guard, read_rows, unguard, write_frame
from forecast.predict.__main__ import main as predict
from forecast.runs.read import damage
from forecast.training.train import train
from tests.support.reading import read_series
from tests.support.small import ROOT, hourly, quick, write

RUN = ["=cmd|' /C calc'!A0", "+1+1", "@SUM(1)", "-2+3", "\t=1", "\r=1", " =1+1", "\uff1d1+1", "'=1", "''@a"]
LEFT_ALONE = [
    "load",
    "-5",
    "+1.5e3",
    "-0.25",
    "a=b",
    "a-b",
    "",
    "'",
    "'quoted'",
    "2016-07-01",
    "12 kW",
    "-3.3%",
    "-.5 %",
]

TEXTS = st.text(st.sampled_from("'=+-@\t\r\n \u00a0\uff1da1.,;\"|e%"), max_size=8) | st.text(max_size=12)


@pytest.mark.parametrize("text", RUN)
def test_a_text_that_a_spreadsheet_runs_gets_an_apostrophe(text: str) -> None:
    assert guard(text) == f"'{text}"
    assert unguard(guard(text)) == text


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_other_texts_and_numbers_stay_as_they_are(text: str) -> None:
    assert guard(text) == unguard(text) == text


@pytest.mark.slow
@given(TEXTS)
def test_any_text_comes_back_and_no_cell_begins_as_a_formula(text: str) -> None:
    cell = guard(text)
    assert unguard(cell) == text
    assert re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)? ?%?", cell, re.I) or not re.match(r"\s*[=+\-@\uff1d]|[\t\r\n]", cell)


@given(st.lists(st.tuples(TEXTS, st.floats(allow_nan=False), st.integers()), max_size=4), st.tuples(TEXTS, TEXTS))
def test_rows_and_frames_of_any_text_come_back(rows: list[tuple[str, float, int]], names: tuple[str, str]) -> None:
    columns = [f"{names[0]}0", f"{names[1]}1", "2"]
    content = csv_bytes([dict(zip(columns, row, strict=True)) for row in rows], columns)
    file = io.BytesIO()
    write_frame(file, pd.DataFrame(rows, columns=columns), index=False)
    for written in (content, file.getvalue()):
        header, *cells = csv.reader(io.StringIO(written.decode(), newline=""))
        assert [unguard(cell) for cell in header] == columns
        assert [(unguard(text), float(one), int(other)) for text, one, other in cells] == rows


def test_a_file_that_was_written_is_read_with_its_own_reader(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(csv_bytes([{"=a": "+x", "n": -1.5}, {"=a": "'+x", "n": None}], ["=a", "n"]))
    assert path.read_text() == "'=a,n\n'+x,-1.5\n''+x,\n"
    names, rows = read_rows(path)
    assert (names, rows) == (["=a", "n"], [(2, ["+x", "-1.5"]), (3, ["'+x", ""])])


def test_the_record_keeps_a_command_that_a_spreadsheet_would_run(tmp_path: Path) -> None:
    row = dict.fromkeys(COLUMNS, "1") | {"command": "=1+1", "recipe": "-none", "test_mse": "-0.5"}
    write_record(tmp_path / "record.csv", [row])
    assert ",'=1+1," in (tmp_path / "record.csv").read_text()
    assert read_record(tmp_path / "record.csv") == [row]


def test_a_run_and_a_forecast_write_no_formula_and_read_their_own_files(tmp_path: Path) -> None:
    names = ["=cmd|' /C calc'!A0", "@SUM(1)"]
    table = hourly(300).set_axis(["-2+3", *names, "air"], axis=1)
    words = ["data=csv", f"data.path={write(tmp_path / 'my.csv', table)}", "training.max_steps=1"]
    run, result = train(quick(tmp_path / "outputs", *words))
    assert result["data"]["targets"] == [*names, "air"]
    output = tmp_path / "next.csv"
    assert predict(["--run", str(run.path), "--input", str(tmp_path / "my.csv"), "--output", str(output)]) == 0
    naive = ",'=cmd|' /C calc'!A0_naive,'@SUM(1)_naive,air_naive"
    for path, more in ((run.path / "forecast.csv", ""), (output, naive)):
        assert path.read_text().splitlines()[0] == f"'-2+3,'=cmd|' /C calc'!A0,'@SUM(1),air{more}"
        assert list(read_series(path).frame)[:3] == [*names, "air"]
        assert read_series(path).frame.index.name == "-2+3"


def test_every_csv_file_is_written_in_one_place() -> None:
    in_advice = (
        "forecast/tables/long_tables.py",
        "forecast/tables/formats/sheets.py",
    )  # pandas' own in a message; a sheet as text
    wanted = ("forecast/common/spreadsheet.py", *in_advice)
    writers = re.compile(r"\.to_csv\(|csv\.writer|DictWriter")
    places = [
        *(ROOT / "forecast").rglob("*.py"),
        *(ROOT / "benchmarks").glob("*.py"),
        *(ROOT / "benchmarks/accuracy").rglob("*.py"),
    ]
    sources = [path for path in places if writers.search(path.read_text(encoding="utf-8"))]
    assert sorted(path.relative_to(ROOT).as_posix() for path in sources) == sorted(wanted)


def test_negative_numbers_stay_numbers() -> None:
    file = io.BytesIO()
    frame = pd.DataFrame({"a": [-1.5, np.nan], "b": [-2, 3], "c": [None, "-x"]}, index=[-1, -2])
    write_frame(file, frame)
    assert file.getvalue() == b",a,b,c\n-1,-1.5,-2,\n-2,,3,'-x\n"


@pytest.mark.parametrize("where", ["name", "command", "config"])
def test_a_folder_whose_words_steer_a_terminal_is_damaged(tmp_path: Path, where: str) -> None:
    steering = r'"\u001b[31mred"'
    (tmp_path / "config.json").write_text(f'{{"data": {{"{where}": {steering}}}}}')
    assert damage(tmp_path) == "config.json holds control characters: the folder is damaged"
    (tmp_path / "config.json").write_text('{"data": {"name": "a\\nb\\tc ä"}}')
    assert damage(tmp_path) is None


@pytest.mark.parametrize("name", ["load;=1+1", "load\t=1+1", "load; @SUM(1)"])
def test_a_formula_after_a_semicolon_or_tab_is_in_quotation_marks(name: str) -> None:
    file = io.BytesIO()
    write_frame(file, pd.DataFrame({name: [1.5]}), index=False)
    assert file.getvalue().decode() == f'"{name}"\n1.5\n'
    assert csv_bytes([{name: name}], [name]).decode() == f'"{name}"\n"{name}"\n'
    assert csv_bytes([{"a": "b; c"}], ["a"]).decode() == "a\nb; c\n"


@pytest.mark.parametrize("cell", ["+" + "1" * 100_000 + "x", "\t " * 50_000 + "x", "'" * 100_000, ";\t" * 50_000])
def test_a_long_cell_takes_a_moment(cell: str) -> None:
    began = time.process_time()
    write_frame(io.BytesIO(), pd.DataFrame({"a": [cell]}))
    assert unguard(guard(cell)) == cell
    assert time.process_time() - began < 1
