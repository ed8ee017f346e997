"""The files of a forecast: every format of a table as input and output."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from python_calamine import CalamineWorkbook

from forecast.common.errors import InputError
from forecast.predict.__main__ import main
from forecast.predict.output import parse_cost
from forecast.tables.files import read_table
from tests.conftest import TinyRun
from tests.support.pictures import drawing
from tests.support.workbooks import xlsx


def test_the_costs_are_read_in_any_order() -> None:
    assert parse_cost(["over=1", "under=4"]) == parse_cost(["under=4", "over=1"]) == (1, 4)


@pytest.mark.parametrize(
    "words", [["over=1"], ["over=1", "under=4", "under=4"], ["over=1", "under=2", "x=3"], ["a", "b"]]
)
def test_other_costs_are_refused(words: list[str]) -> None:
    with pytest.raises(InputError, match="give both costs, such as --cost over=1 under=4"):
        parse_cost(words)


def test_a_forecast_in_every_format_is_that_in_csv(tiny_run: TinyRun, tmp_path: Path) -> None:
    words = ["--run", str(tiny_run.path), "--input", str(tiny_run.source), "--levels", "80", "--output"]
    names = ["next.csv", "next.xlsx", "next.parquet", "next.feather", "next.arrow"]

    with drawing():
        assert [main([*words, str(tmp_path / name)]) for name in names] == [0] * len(names)

    tables = [read_table(tmp_path / name).reset_index() for name in names]
    for table in tables:
        np.testing.assert_array_equal(table["load_lower_80"], tables[0]["load_lower_80"])
        assert list(pd.to_datetime(table["date"])) == list(pd.to_datetime(tables[0]["date"]))


def test_a_forecast_in_a_workbook_has_the_scores_of_its_run_and_its_picture(tiny_run: TinyRun, tmp_path: Path) -> None:
    output = tmp_path / "next.xlsx"
    with drawing():
        assert main(["--run", str(tiny_run.path), "--input", str(tiny_run.source), "--output", str(output)]) == 0

    with CalamineWorkbook.from_path(output) as book:
        assert book.sheet_names == ["forecast", "scores", "picture"]
        scores = book.get_sheet_by_name("scores").to_python()
    assert scores[2][0] == "model"
    assert scores[2][1] == pytest.approx(tiny_run.result["test"]["scaled"]["mse"], abs=5e-5)


def test_a_forecast_of_a_workbook_is_that_of_its_csv_file(tiny_run: TinyRun, tmp_path: Path) -> None:
    dates = [time.to_pydatetime() for time in tiny_run.table["date"]]
    numbers = tiny_run.table.drop(columns="date")
    cells = [[date, *row] for date, row in zip(dates, numbers.to_numpy().tolist(), strict=True)]
    rows = [["date", *numbers.columns], *cells]
    (tmp_path / "my.xlsx").write_bytes(xlsx({"Data": rows}))

    for source, name in ((tiny_run.source, "a.csv"), (tmp_path / "my.xlsx", "b.csv")):
        assert main(["--run", str(tiny_run.path), "--input", str(source), "--output", str(tmp_path / name)]) == 0

    first, second = (pd.read_csv(tmp_path / name, index_col=0) for name in ("a.csv", "b.csv"))
    pd.testing.assert_frame_equal(first, second, rtol=1e-6)


def test_a_damaged_workbook_is_one_line_and_exit_code_2(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my.xlsx").write_bytes(xlsx({"Data": [["date", "load"]]})[:500])

    code = main(
        ["--run", str(tiny_run.path), "--input", str(tmp_path / "my.xlsx"), "--output", str(tmp_path / "a.csv")]
    )

    assert code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert "cannot be read as a workbook" in lines[0]


def test_a_panel_is_forecast_into_a_workbook(panel_run: TinyRun, tmp_path: Path) -> None:
    output = tmp_path / "next.xlsx"
    words = ["--run", str(panel_run.path), "--input", str(panel_run.source)]
    with drawing():
        assert main([*words, "--output", str(output)]) == 0
    with CalamineWorkbook.from_path(output) as book:
        assert book.sheet_names == ["forecast", "scores", "picture"]
        assert book.get_sheet_by_name("forecast").to_python()[0][0] == "store"
