"""The command line: printed lines, files and exit codes."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.accuracy import fill
from benchmarks.accuracy.__main__ import main
from benchmarks.accuracy.recipes import Cell
from benchmarks.accuracy.record import add
from benchmarks.accuracy.tables import BEGIN, END
from tests.benchmarks.accuracy.made import row
from tests.support.small import ROOT

pytestmark = pytest.mark.usefixtures("signals_and_threads")


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """Return a record with one row."""
    path = tmp_path / "results.csv"
    add(path, [row(0.3)])
    return path


def test_a_dry_run_lists_what_is_missing_with_its_commands(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--dataset", "etth1", "--horizon", "96", "720", "--attention", "full", "--recipe", "main", "no_*path"]
    before = record.read_bytes()
    assert main(["--record", str(record), *words, "--seed", "1", "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{record}: 1 of 4 rows, 3 missing",
        "etth1-720 full, seed 1, main: python train.py experiment=etth1 horizon=720 attention=full seed=1",
        *(
            f"etth1-{horizon} full, seed 1, no_linear_path: python train.py experiment=etth1 horizon={horizon} "
            "attention=full seed=1 model.linear_path=false"
            for horizon in (96, 720)
        ),
    ]
    assert record.read_bytes() == before


def test_a_run_that_fails_is_exit_code_1(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(group: list[Cell], filling: fill.Filling, minutes: float | None) -> int:
        assert (filling.folder, filling.threads, minutes) == (tmp_path / "elsewhere", 3, None)
        return 1

    monkeypatch.setattr(fill, "_run", fails)
    one = ["--dataset", "pjme", "--horizon", "96", "--attention", "full", "--seed", "1", "--recipe", "main"]
    assert main(["--record", str(record), *one, "--threads", "3", "--output-dir", str(tmp_path / "elsewhere")]) == 1
    assert capsys.readouterr().out == f"{record}: 0 of 1 rows, 1 missing\n"


def test_the_tables_are_written_into_a_file(record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "notes.md"
    file.write_text(f"{BEGIN}\n{END}\n")
    assert main(["--record", str(record), "--write", str(file)]) == 0
    text = file.read_text(encoding="utf-8")
    assert "| `full` | 0.300 / 0.350 |" in text
    assert capsys.readouterr().out == f"{file}: 1 rows of {record}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--record", "nowhere/results.csv"], "nowhere: no such folder: run this in the checkout"),
        (["--dataset", "etth3"], "--dataset etth3: no row has it: choose from etth1, etth2, pjme"),
        (["--dataset", "pjme", "--horizon", "720"], "--horizon 720: no row has it: choose from 96, 336"),
        (["--minutes", "0"], "--minutes 0.0: must be above 0"),
        (["--threads", "-1"], "--threads -1: must be above 0"),
        (["--write", "notes.md", "--seed", "1"], "--write runs nothing and uses the whole record"),
        (["--write", "none.md"], "none.md: no such file"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    words: list[str], message: str, record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--record", str(record), *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: {message}")
    assert captured.err.count("\n") == 1


@pytest.mark.exhaustive
def test_a_closed_pipe_is_one_line_and_no_traceback(record: Path) -> None:
    words = [sys.executable, "-m", "benchmarks.accuracy", "--record", str(record), "--dry-run"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (141, "stopped: output pipe closed\n")
