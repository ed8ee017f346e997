"""The search for the longest look-back, from the command line to the files."""

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


def test_an_option_out_of_range_is_argparse_s_own_complaint() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["max-context", "--within", "0"])
    assert ended.value.code == 2
