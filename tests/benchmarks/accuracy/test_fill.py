from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy import fill as module
from benchmarks.accuracy.cell import Cell
from benchmarks.accuracy.child import TrainingFailed
from benchmarks.accuracy.fill import Filling, fill, missing
from benchmarks.accuracy.rows import append, read_record
from forecast.common.files import folder_lock
from forecast.runs.run import Run
from tests.benchmarks.accuracy.made import row
from tests.benchmarks.accuracy.test_rows import RESULT

CELLS = [Cell("etth1", 96, name, "1", "main") for name in ("full", "linear", "mean")]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have trainings be noted by their mechanism, that of `linear` fail, and all of them find one result."""
    words: list[str] = []

    def train(given: list[str], folder: Path, threads: int | None) -> Run:
        (attention,) = [word.partition("=")[2] for word in given if word.startswith("attention=")]
        words.append(attention)
        if attention == "linear":
            raise TrainingFailed("the disk\nis full")
        return Run(folder)

    def read(path: Path) -> dict[str, Any]:
        return RESULT

    monkeypatch.setattr(module, "train_in_child", train)
    monkeypatch.setattr(module, "read_json", read)
    return words


def test_a_failure_is_a_line_and_the_next_command_makes_only_what_is_missing(
    trained: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filling = Filling(tmp_path / "results.csv", tmp_path)
    assert fill(CELLS, filling) == 1
    assert [each["attention"] for each in read_record(filling.record)] == ["full", "mean"]
    captured = capsys.readouterr()
    assert captured.err == "failed: etth1-96 linear, seed 1, main: the disk is full\n"
    assert "test MSE 0.2500 MAE 0.3750; ridge MSE 0.3667 MAE 0.3910; 2,785 windows; 71 s of training" in captured.out
    assert missing(CELLS, filling.record) == [CELLS[1]]
    assert fill(CELLS, filling) == 1
    assert trained == ["full", "linear", "mean", "linear"]


def test_after_its_minutes_no_run_is_begun(
    trained: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 59.0, 61.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    fill([CELLS[0], CELLS[2]], Filling(tmp_path / "results.csv", tmp_path, minutes=1))
    assert trained == ["full"]
    assert "1 minutes are over" in capsys.readouterr().out


def test_a_row_that_another_process_made_meanwhile_is_not_made_again(
    trained: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "results.csv"
    train = module.train_in_child

    def slow(*arguments: Any) -> Run:
        append(record, row(0.3, attention="mean"))
        return train(*arguments)

    monkeypatch.setattr(module, "train_in_child", slow)
    fill([CELLS[0], CELLS[2]], Filling(record, tmp_path))
    assert trained == ["full"]


def test_an_average_waits_for_its_seeds(trained: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    filling = Filling(tmp_path / "results.csv", tmp_path)
    append(filling.record, row(0.3, seed="2"))
    assert fill([Cell("etth1", 96, "full", "1+2+3", "ensemble")], filling) == 0
    assert "etth1-96 full, seed 1+2+3, ensemble: waits for seed 1, 3\n" in capsys.readouterr().out
    assert trained == []


def test_a_run_that_another_process_is_at_is_left_to_it(
    trained: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "cells" / "etth1_96_full_1_main"
    place.mkdir(parents=True)
    with folder_lock(place):
        assert fill([CELLS[0], CELLS[2]], Filling(tmp_path / "results.csv", tmp_path)) == 0
    assert trained == ["mean"]
    assert "etth1-96 full, seed 1, main: another process is at it\n" in capsys.readouterr().out
