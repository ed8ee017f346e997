import csv
import io
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from forecast.attention._parsing import parse
from forecast.benchmark import report as picture
from forecast.benchmark.report import (
    CASES,
    PICTURE,
    SUMMARY,
    TABLES,
    crossing_table,
    exponent_table,
    layer_tables,
    summarise,
    sweep_tables,
    sweeps_of,
    write_report,
    write_unfinished,
)
from forecast.common.tables import Table, show, to_csv
from forecast.common.text import decimals, heads_of, mebibytes, per_cent, spread, three_digits
from tests.benchmark.made import sweep_rows

LENGTHS = (16, 32, 64, 1024)
TIMES = {
    "full": {length: length**2 / 1e3 for length in LENGTHS},
    "linear": {length: 64 * length / 1e3 for length in LENGTHS},
    "full:implementation=explicit": {16: 1.0, 32: 4.0},
}
FACTS = {
    "machine": "a machine", "torch": "2", "dtype": "fp32", "date": "today", "commit": "abc", "command": "python -m x",
}  # fmt: skip


def test_numbers_have_three_digits_and_unknown_ones_are_a_dash() -> None:
    assert [three_digits(x) for x in (0.12345, 9.876, 99.4, 99.6, 12345.6, None)] == [
        "0.123", "9.88", "99.4", "100", "12,346", "-",
    ]  # fmt: skip
    assert [spread(x) for x in (0.123, 9.6, 1234.5)] == ["0.12", "10", "1,234"]
    assert (mebibytes(3 * 2**19), per_cent(0.1234), decimals(2)) == ("1.5", "12.3", "2.00")
    assert (heads_of(1, 512), heads_of(2, 32)) == ("1 head of 512", "2 heads of 32")


def test_tables_by_length_have_a_column_per_mechanism_and_list_skipped_cases() -> None:
    (sweep,) = sweeps_of(sweep_rows(TIMES, {length: length * 2**20 for length in LENGTHS}))
    times, peaks = sweep_tables(sweep)
    assert times.headings == peaks.headings == ("tokens", "full", "linear", "full explicit")
    assert times.cells[-1] == ["1,024", "1,049 ±0", "65.5 ±0", "-"]
    assert peaks.cells[0] == ["16", "16", "16", "16"]
    assert times.notes == ("full explicit: skipped at 64: memory: none left",)


def test_the_summary_is_shown_in_two_tables() -> None:
    (sweep,) = sweeps_of(sweep_rows(TIMES, {length: length * 2**20 for length in LENGTHS}))
    lines = [summarise(sweep, parse(word), 16) for word in TIMES]
    exponents, crossings = exponent_table(lines, "forward"), crossing_table(lines, "forward")
    linear = ["linear", "O(L E²)", "1.00", "1.00", "O(E²)", "1.00", "1.00", "16 to 1,024"]
    assert exponents.cells[1] == linear
    assert exponents.cells[2][1:] == ["O(L² E)", "-", "-", "O(L²)", "-", "-", "-"]
    assert crossings.cells[1][:4] == ["linear", "64", "1,024", "0.06"]
    assert crossings.cells[0][1] == ""


def test_a_layer_has_a_table_for_each_layout() -> None:
    rows = [
        row | {"table": "layer", "d_model": 16}
        for heads in (1, 2)
        for row in sweep_rows({"full": {64: 4.0}, "linear": {64: 2.0}}, num_heads=heads)
    ]
    first, second = layer_tables(rows)
    assert first.title == "A layer at 64 tokens, d_model 16, 1 head of 8, forward"
    assert "2 heads of 8" in second.title
    assert first.cells[1][:6] == ["linear", "2", "2", "2 to 2", "0.50", "1"]


def test_a_layer_has_columns_for_mean_and_median() -> None:
    (row,) = sweep_rows({"full": {64: 4.0}})
    (table,) = layer_tables([row | {"table": "layer", "mean_ms": 5.0, "lower_ms": 3.0, "upper_ms": 7.0}])
    shown = dict(zip(table.headings, table.cells[0], strict=True))
    assert (shown["mean ms"], shown["median ms"], shown["quartiles ms"]) == ("5", "4", "3 to 7")


def test_markdown_and_screen_show_the_same_cells() -> None:
    table = Table("A title", ("mechanism", "ms"), [["full", "1.5"]], ("something else",))
    assert table.to_markdown().splitlines() == [
        "## A title", "", "| mechanism | ms |", "|---|---:|", "| full | 1.5 |", "", "- something else",
    ]  # fmt: skip
    console = Console(width=80, record=True, file=io.StringIO())
    show(console, [table])
    text = console.export_text()
    assert all(word in text for word in ("A title", "mechanism", "ms", "full", "1.5", "something else"))


def test_csv_survives_a_round_trip() -> None:
    rows = [{"a": 1.25, "b": None, "c": 'a "b", c'}, {"a": None, "b": True, "c": ""}]
    back = list(csv.DictReader(to_csv(rows).decode().splitlines()))
    assert back == [{"a": "1.25", "b": "", "c": 'a "b", c'}, {"a": "", "b": "True", "c": ""}]


def test_a_record_without_a_sweep_removes_an_earlier_one(tmp_path: Path) -> None:
    rows, variants = sweep_rows(TIMES), [parse(word) for word in TIMES]
    write_unfinished(tmp_path, rows)
    write_report(tmp_path, rows, variants, 16, FACTS)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([CASES, SUMMARY, TABLES, PICTURE])
    assert (tmp_path / PICTURE).read_bytes().startswith(b"\x89PNG")
    layer = [row | {"table": "layer", "d_model": 16} for row in rows]
    write_report(tmp_path, layer, variants, 16, FACTS)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([CASES, TABLES])


def test_a_stopped_run_keeps_the_earlier_record(tmp_path: Path) -> None:
    rows = sweep_rows(TIMES)
    write_report(tmp_path, rows, [parse(word) for word in TIMES], 16, FACTS)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    write_unfinished(tmp_path, rows[:1])
    assert {file: file.read_bytes() for file in before} == before
    assert len(list(tmp_path.iterdir())) == len(before) + 1


def test_the_picture_is_log_log_with_the_fused_softmax_bold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(picture, "FigureCanvasAgg", figures.append)
    rows = sweep_rows(TIMES, {length: length * 2**20 for length in LENGTHS})
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: None)
    picture.draw_sweeps(tmp_path / "x.png", list(sweeps_of(rows)), "title")
    time, memory = figures[0].axes
    assert {panel.get_xscale() for panel in (time, memory)} == {panel.get_yscale() for panel in (time, memory)}
    assert time.get_xscale() == "log"
    lines = {line.get_label(): line for line in time.get_lines()}
    assert set(lines) == {"full", "linear", "full explicit"}
    assert lines["full"].get_linewidth() > 2 * lines["linear"].get_linewidth()
    assert list(lines["full explicit"].get_xdata()) == [16, 32]
    assert list(lines["full"].get_ydata()) == list(TIMES["full"].values())
    assert list(memory.get_lines()[0].get_ydata()) == list(LENGTHS)


def test_the_note_names_only_what_the_full_run_would_raise() -> None:
    from argparse import Namespace

    from forecast.benchmark.attention import _left_out

    options = Namespace(longest=262_144, seconds=0.5, layer_length=4096, layer_repetitions=10, tables=["lengths"])
    assert _left_out(options, []) == (
        "skipped for lack of time: no case. Measured with seconds 0.5 of 2: use --full to measure all"
    )
    options.seconds = 2.0
    assert _left_out(options, []) == "skipped for lack of time: no case"
