"""Benchmarks of whole models, from the command line to their files."""

import sys
from pathlib import Path

import pytest
import torch

from benchmarks import peers, step
from tests.support.small import read_rows

SMALL = ["--windows", "24:6", "48:12", "--batch", "2", "--channels", "3", "--device", "cpu", "--threads", "1"]
SIZES = "d_model=16,num_heads=2,d_ff=32"
MODEL = ["--model", f"informer:start_length=0,{SIZES}"]

pytestmark = pytest.mark.usefixtures("signals_and_threads")


def test_peers_writes_every_comparison_and_the_differences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    transformers = pytest.importorskip("transformers")
    assert peers.main([*SMALL, *MODEL, "--pairs", "3", "--output", str(tmp_path)]) == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["cases.csv", "tables.md"]
    rows = read_rows(tmp_path / "cases.csv")
    assert len(rows) == 2 * 2 * 3
    for row in rows:
        assert (row["pairs"], row["transformers"], row["threads"]) == ("3", transformers.__version__, "1")
        least, middle, most = (float(row[f"times_as_fast{end}"]) for end in ("_least", "", "_most"))
        assert 0 < least <= middle <= most
        assert int(row["ours_peak_bytes"]) > 0
        assert row["command"].startswith("python -m benchmarks.peers --windows 24:6 48:12")
    assert {(row["look_back"], row["horizon"]) for row in rows} == {("24", "6"), ("48", "12")}
    assert {(row["ours_precision"], row["theirs_precision"]) for row in rows} == {
        ("fp32", "fp32"), ("bf16", "bf16"), ("bf16", "fp32"),
    }  # fmt: skip
    tables, printed = (tmp_path / "tables.md").read_text(encoding="utf-8"), capsys.readouterr().out
    for words in ("Training step, batch 2: ours", "Inference, batch 2: ours", "negative log-likelihood", "start token"):
        assert words in tables
        assert words in " ".join(printed.split())
    assert "both decode the horizon" in tables


def test_peers_without_transformers_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert peers.main([*SMALL, *MODEL, "--output", str(tmp_path / "new")]) == 2
    out, error = capsys.readouterr()
    assert (out, error) == ("", "error: transformers is not installed: pip install -e '.[peers]'\n")
    assert not (tmp_path / "new").exists()


def test_step_writes_the_fraction_of_the_limit_and_the_operations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--repetitions", "2", "--top", "3", "--attention", "probsparse:factor=2", "--output", str(tmp_path)]
    assert step.main([*SMALL, *MODEL, *words]) == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["cases.csv", "operations.csv", "tables.md"]
    rows = read_rows(tmp_path / "cases.csv")
    assert [(row["look_back"], row["precision"]) for row in rows] == [
        ("24", "fp32"), ("24", "bf16"), ("48", "fp32"), ("48", "bf16"),
    ]  # fmt: skip
    for row in rows:
        assert 0 < float(row["share_of_product"]) < 1
        assert 0 < float(row["update_share"]) < 1
        assert int(row["operations"]) > 0
    operations = [int(row["operations"]) for row in rows]
    assert operations[0] == pytest.approx(
        operations[1], rel=0.02
    )  # a layer of few queries computes differently in fp32
    operations = read_rows(tmp_path / "operations.csv")
    assert {row["kind"] for row in operations} == {"products", "optimizer", "rest"}
    tables, printed = (tmp_path / "tables.md").read_text(encoding="utf-8"), capsys.readouterr().out
    assert tables.count("## Time of a step by operation, 24 → 6, batch 2, fp32") == 1
    assert "probsparse factor=2" in tables
    assert printed.splitlines()[-1] == f"{tmp_path}: cases.csv, operations.csv, tables.md"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--attention", "softmax"], "--attention softmax: 'softmax' does not exist: choose one of"),
        (["--model", "informer:size=3"], "model.size: no such option: choose from d_ff, "),
        (["--device", "cuda"], "--device cuda: no CUDA device available"),
    ],
)
def test_an_impossible_step_is_one_line_and_writes_nothing(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert step.main([*words, "--output", str(tmp_path / "new")]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert message in error
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("words", [["--windows", "96"], ["--windows", "96:0"], ["--top", "0"]])
def test_argparse_refuses_an_option_out_of_range(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        (step if "--top" in words else peers).main(words)
    assert ended.value.code == 2
