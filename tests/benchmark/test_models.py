"""The benchmarks that train whole models, from the command line to the files."""

import sys
from pathlib import Path

import pytest
import torch

from forecast.benchmark import trial as tries
from forecast.benchmark.__main__ import main
from forecast.benchmark.trial import Ask, Trial
from tests.support.small import read_rows

SMALL = ["--windows", "24:6", "48:12", "--batch", "2", "--channels", "3", "--device", "cpu", "--threads", "1"]
SIZES = "d_model=16,num_heads=2,d_ff=32"
MODEL = ["--model", f"informer:start_length=0,{SIZES}"]


pytestmark = pytest.mark.usefixtures("signals_and_threads")


def test_peers_leaves_every_comparison_and_says_what_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transformers = pytest.importorskip("transformers")
    assert main(["peers", *SMALL, *MODEL, "--pairs", "3", "--output", str(tmp_path)]) == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["cases.csv", "tables.md"]
    rows = read_rows(tmp_path / "cases.csv")
    assert len(rows) == 2 * 2 * 3
    for row in rows:
        assert (row["pairs"], row["transformers"], row["threads"]) == ("3", transformers.__version__, "1")
        least, middle, most = (float(row[f"times_as_fast{end}"]) for end in ("_least", "", "_most"))
        assert 0 < least <= middle <= most
        assert int(row["ours_peak_bytes"]) > 0
        assert row["command"].startswith("python -m forecast.benchmark peers --windows 24:6 48:12")
    assert {(row["look_back"], row["horizon"]) for row in rows} == {("24", "6"), ("48", "12")}
    assert {(row["ours_precision"], row["theirs_precision"]) for row in rows} == {
        ("fp32", "fp32"), ("bf16", "bf16"), ("bf16", "fp32"),
    }  # fmt: skip
    tables, printed = (tmp_path / "tables.md").read_text(encoding="utf-8"), capsys.readouterr().out
    for words in ("Training step, batch 2: ours", "Inference, batch 2: ours", "negative log-likelihood", "start token"):
        assert words in tables
        assert words in " ".join(printed.split())
    assert "both decode the horizon" in tables


def test_peers_without_the_extra_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert main(["peers", *SMALL, *MODEL, "--output", str(tmp_path / "new")]) == 2
    out, error = capsys.readouterr()
    assert (out, error) == ("", "error: transformers is not installed: pip install -e '.[peers]'\n")
    assert not (tmp_path / "new").exists()


def test_step_leaves_the_share_of_the_limit_and_the_operations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--repetitions", "2", "--top", "3", "--attention", "probsparse:factor=2", "--output", str(tmp_path)]
    assert main(["step", *SMALL, *MODEL, *words]) == 0
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
    assert operations[0] == pytest.approx(operations[1], rel=0.02)  # few queries go another way in fp32
    operations = read_rows(tmp_path / "operations.csv")
    assert {row["kind"] for row in operations} == {"products", "optimizer", "rest"}
    tables, printed = (tmp_path / "tables.md").read_text(encoding="utf-8"), capsys.readouterr().out
    assert tables.count("## Where a step's time goes, 24 → 6, batch 2, fp32") == 1
    assert "probsparse factor=2" in tables
    assert printed.splitlines()[-1] == f"{tmp_path}: cases.csv, operations.csv, tables.md"


def test_max_context_leaves_each_trial_and_each_mechanism_s_largest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    most = {"full": 300, "linear": 10**6, "linformer": 0}

    def try_it(ask: Ask, limit: float) -> Trial:
        assert (ask.task.batch, ask.precision, ask.memory_bytes) == (3, "bf16", 2**30)
        look_back = ask.task.context_length
        if ask.variant.name == "linformer":
            return Trial(look_back, why="refused: cannot")
        fits = look_back <= most[ask.variant.name]
        return Trial(look_back, 1000 * look_back, 0.5, "" if fits else "memory: took 2.00 GiB")

    monkeypatch.setattr(tries, "try_in_child", try_it)
    words = [
        "--mechanisms",
        "full",
        "linear",
        "linformer",
        "--memory-gib",
        "1",
        "--shortest",
        "64",
        "--longest",
        "1000",
    ]
    words += [
        "--batch",
        "3",
        "--dtype",
        "bf16",
        "--device",
        "cpu",
        "--model",
        f"patch_informer:patch_length=1,level=window,{SIZES}",
    ]
    assert main(["max-context", *words, "--output", str(tmp_path)]) == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["cases.csv", "summary.csv", "tables.md"]
    full, linear, linformer = read_rows(tmp_path / "summary.csv")
    assert 256 <= int(full["look_back"]) <= 300 < int(full["does_not_fit"]) <= 1.1 * int(full["look_back"])
    assert (linear["look_back"], linear["does_not_fit"], linear["peak_bytes"]) == ("1000", "", "1000000")
    assert (linformer["look_back"], linformer["why"]) == ("", "refused: cannot")
    assert {row["memory_gib"] for row in read_rows(tmp_path / "cases.csv")} == {"1.0"}
    tables = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "The largest look-back within 1.00 GiB" in tables
    assert "- linear: fits as far as was asked" in tables
    assert "- linformer: 64: refused: cannot" in tables
    assert capsys.readouterr().out.splitlines()[-1] == f"{tmp_path}: cases.csv, summary.csv, tables.md"


@pytest.mark.slow
def test_max_context_searches_with_real_steps(tmp_path: Path) -> None:
    words = ["--mechanisms", "mean", "--memory-gib", "4", "--shortest", "64", "--longest", "128", "--batch", "1"]
    words += ["--device", "cpu", "--model", f"patch_informer:patch_length=1,level=window,{SIZES}", "--quiet"]
    assert main(["max-context", *words, "--output", str(tmp_path)]) == 0
    for row in read_rows(tmp_path / "summary.csv"):
        assert (row["look_back"], row["does_not_fit"]) == ("128", "")
        assert 2**26 < int(row["peak_bytes"]) < 4 * 2**30


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["max-context", "--longest", "8"], "--longest 8 is below --shortest 1024"),
        (["max-context", "--memory-gib", "1e9"], "GiB are there: ask for less"),
        (["max-context", "--model", "informer:d_model=30"], "model.d_model 30 is not divisible"),
        (["step", "--attention", "softmax"], "--attention softmax: 'softmax' is none of"),
        (["step", "--model", "informer:size=3"], "size missing or unknown"),
        (["step", "--device", "cuda"], "--device cuda: no CUDA device here"),
    ],
)
def test_what_cannot_be_measured_is_one_line_and_nothing_written(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main([*words, "--output", str(tmp_path / "new")]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert message in error
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["peers", "--windows", "96"],
        ["peers", "--windows", "96:0"],
        ["max-context", "--within", "0"],
        ["step", "--top", "0"],
    ],
)
def test_an_option_out_of_range_is_argparse_s_own_complaint(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
