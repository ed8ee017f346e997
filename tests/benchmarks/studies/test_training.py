import re
from pathlib import Path

import pytest

from benchmarks.studies import training
from tests.support.small import ROOT, read_rows

RECORD = ROOT / "benchmarks" / "records" / "attention" / "training"
WORDS = ["--mechanisms", "linear", "--length", "70", "--heads", "1", "--head-dim", "8", "--pairs", "2"]


@pytest.mark.exhaustive
def test_the_command_measures_this_checkout_beside_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert training.main([*WORDS, "--against", str(ROOT), "--output", str(tmp_path)]) == 0
    rows = read_rows(tmp_path / "cases.csv")
    assert [(row["mechanism"], row["causal"]) for row in rows] == [("linear", "False"), ("linear", "True")]
    for row in rows:
        assert row["peak_before"] == row["peak_now"]  # the same program
        assert float(row["lower"]) <= float(row["ratio"]) <= float(row["upper"])
        assert int(row["graphs"]) <= 3
    assert "Training: 70 tokens, 1 head of 8" in capsys.readouterr().out


def test_a_folder_without_the_program_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert training.main([*WORDS, "--against", str(tmp_path), "--output", str(tmp_path)]) != 0
    assert "choose a checkout of the program" in capsys.readouterr().err


def test_the_record_holds_the_bounds_of_memory_and_of_graphs() -> None:
    rows = read_rows(RECORD / "cases.csv")
    assert {(row["length"], row["heads"], row["head_dim"]) for row in rows} == {("8192", "8", "64")}
    assert {row["mechanism"] for row in rows} == set(training.MECHANISMS)
    for row in rows:
        name = f"{row['mechanism']} causal={row['causal']}"
        assert float(row["peak_now"]) <= 6.01, name
        assert int(row["nodes"]) < 600, name
        assert int(row["graphs"]) <= 4, name  # probsparse: one for each value of ⌈ln L⌉
    text = (RECORD / "tables.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\| (\w+)(, causal)? \|", text, re.M)) >= len(rows)
