from pathlib import Path

import pytest

from benchmarks.accuracy.recipes import Cell
from benchmarks.accuracy.record import COLUMNS, add, read_record, row_of, write_record
from forecast.common.errors import InputError
from tests.benchmarks.accuracy.made import row

SCORES = {"scaled": {"mse": 0.25, "mae": 0.375}, "original": {"mase": 0.7}}
RESULT = {
    "command": "python -m forecast.training and words of ours",
    "commit": "abc+changes",
    "device": "a processor, 2 threads",
    "precision": "bf16-mixed",
    "status": "finished",
    "config": {"context_length": 512},
    "data": {"windows": {"train": 1, "test": 2785}},
    "model": {"parameters": 176152, "steps": 279, "best_step": 0},
    "validation": {"scaled": {"mse": 0.625}},
    "test": SCORES,
    "baselines": {"linear": {"test": {"scaled": {"mse": 0.3667163568770727, "mae": 0.391}}}},
    "speed": {"fit_seconds": 71.23456},
}


def test_a_row_has_the_numbers_of_the_result_and_the_command_to_type() -> None:
    cell = Cell("etth1", 96, "full", "1", "main")
    found = row_of(cell, RESULT)
    assert tuple(found) == COLUMNS
    assert ",".join(COLUMNS[:15]) == (
        "dataset,horizon,attention,seed,recipe,context_length,test_mse,test_mae,validation_mse,windows,seconds,"
        "parameters,command,commit,machine"
    )
    assert list(found.values()) == [
        *("etth1", "96", "full", "1", "main", "512", "0.25", "0.375", "0.625", "2785", "71.2", "176152"),
        *("python train.py experiment=etth1 horizon=96 attention=full seed=1", "abc+changes", "a processor, 2 threads"),
        *("bf16-mixed", "0.3667163568770727", "0.391", "0", "279", "0.7", "finished"),
    ]
    assert row_of(cell, {**RESULT, "commit": None})["commit"] == "none"


def test_what_is_added_is_read_back_in_order_and_never_twice(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    assert read_record(path) == []
    rows = [row(0.3, machine='a "machine", ü'), row(0.4, horizon=192)]
    assert add(path, rows[:1]) == rows[:1]
    assert add(path, [row(0.9), rows[1]]) == rows[1:]
    assert add(path, rows) == []
    assert read_record(path) == rows
    assert [file.name for file in tmp_path.iterdir()] == ["results.csv"]


def test_another_file_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "etth1.csv"
    path.write_text("label,test_mse\nlast value,1.29\n")
    with pytest.raises(InputError, match=r"etth1\.csv: wrong columns: the record has"):
        add(path, [row(0.3)])
    assert path.read_text() == "label,test_mse\nlast value,1.29\n"


@pytest.mark.parametrize(("line", "message"), [("etth1,96", "needs 22 cells"), (None, "occurs twice")])
def test_a_flawed_line_is_named(line: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    write_record(path, [row(0.3)])
    text = path.read_text()
    path.write_text(text + (text.splitlines()[1] if line is None else line) + "\n")
    with pytest.raises(InputError, match=f"line 3: .*{message}"):
        read_record(path)
