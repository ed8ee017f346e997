import argparse
import itertools
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from forecast import attention
from forecast.benchmark import options
from forecast.benchmark.__main__ import main
from forecast.benchmark.attention import plan_of, powers_of_two
from forecast.benchmark.options import open_folder
from tests.support.small import ROOT, read_rows

TINY = [
    "--shortest", "16", "--longest", "64", "--heads", "2", "--head-dim", "8", "--fit-from", "16", "--seconds", "0",
    "--repetitions", "2", "--layer-length", "32", "--d-model", "64", "--layer-repetitions", "3", "--device", "cpu",
]  # fmt: skip
LOOP = "full, loop over heads"
LABELS = {*attention.available(), "full explicit"}
FILES = ["cases.csv", "lengths.png", "summary.csv", "tables.md"]


pytestmark = pytest.mark.usefixtures("signals_and_threads")


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecast.benchmark.machine.SIDE", {"cpu": 64, "cuda": 64})
    monkeypatch.setattr("forecast.benchmark.machine.COPIED", {"cpu": 2**12, "cuda": 2**12})


@pytest.mark.slow
def test_a_run_writes_every_case_the_tables_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "folder"
    assert main(["attention", *TINY, "--causal", "--threads", "1", "--output", str(folder)]) == 0
    assert sorted(file.name for file in folder.iterdir()) == FILES
    rows = read_rows(folder / "cases.csv")
    assert len(rows) == len(LABELS) * (3 + 4 * 3) + 2
    assert {row["mechanism"] for row in rows} == LABELS | {LOOP}
    assert {(row["table"], row["heads"]) for row in rows if row["mechanism"] == LOOP} == {
        ("layer", "2"),
        ("layer", "8"),
    }
    layouts = {(row["heads"], row["head_dim"], row["repetitions"]) for row in rows if row["table"] == "layer"}
    assert layouts == {("1", "64", "3"), ("2", "32", "3"), ("8", "8", "3")}
    for row in rows:
        assert (row["threads"], row["dtype"], row["torch"]) == ("1", "fp32", torch.__version__)
        assert row["command"].startswith("python -m forecast.benchmark attention --shortest 16")
        if row["skipped"]:
            assert (row["causal"], row["median_ms"]) == ("True", "")
            assert "cannot be causal" in row["skipped"]
            continue
        assert 0 < float(row["shortest_ms"]) <= float(row["lower_ms"]) <= float(row["median_ms"])
        assert float(row["median_ms"]) <= float(row["upper_ms"])
        assert row["mechanism"] != "full" or float(row["times_fused"]) == 1
        assert int(row["peak_bytes"]) > 0
    summary = read_rows(folder / "summary.csv")
    assert len(summary) == 4 * len(LABELS)
    assert {row["time_fitted_from"] for row in summary if row["time_exponent"]} == {"16"}
    tables, printed = (folder / "tables.md").read_text(encoding="utf-8"), capsys.readouterr().out
    for title in (
        "A layer at 32 tokens, d_model 64, 2 heads of 32, forward",
        "Exponents in the length, forward, causal",
    ):
        assert f"## {title}" in tables
        assert title in printed
    assert all(f"\n| {label} | " in tables for label in LABELS)
    assert (folder / "lengths.png").read_bytes().startswith(b"\x89PNG\r\n")
    assert printed.splitlines()[-1] == f"{folder}: cases.csv, summary.csv, tables.md, lengths.png"


@pytest.mark.slow
def test_the_default_benchmark_is_attention_in_a_new_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert main([*TINY, "--tables", "layer", "--mechanisms", "mean", "--quiet"]) == 0
    folders = list((tmp_path / "outputs" / "benchmark").iterdir())
    assert len(folders) == 2
    assert sorted(file.name for file in folders[0].iterdir()) == ["cases.csv", "tables.md"]
    out, error = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert error == ""


def test_half_precision_and_mechanism_arguments_are_measured(tmp_path: Path) -> None:
    words = ["--mechanisms", "probsparse:sampling=per_query", "--dtype", "bf16", "--no-backward", "--tables", "lengths"]
    assert main([*TINY, *words, "--quiet", "--output", str(tmp_path)]) == 0
    rows = read_rows(tmp_path / "cases.csv")
    assert {(row["mechanism"], row["dtype"], row["passes"]) for row in rows} == {
        ("full", "bf16", "forward"),
        ("probsparse per_query", "bf16", "forward"),
    }
    assert int(rows[0]["least_bytes"]) == 4 * 16 * 2 * 8 * 2


def test_a_full_run_measures_the_layer_and_the_lengths_of_the_readme() -> None:
    parser = argparse.ArgumentParser()
    options.add_options(parser)
    plan = plan_of(parser.parse_args(["--device", "cpu", "--full"]))
    assert (plan.layer_repetitions, plan.seconds, plan.budget) == (50, 2.0, None)
    assert [(shape.length, shape.d_model) for shape in plan.layers] == [(16_384, 512)] * 3
    assert [(shape.num_heads, shape.head_dim) for shape in plan.layers] == [(1, 512), (2, 32), (8, 64)]
    assert [shape.length for shape in plan.sweeps[0]] == [2**n for n in range(8, 17)]
    assert [shape.passes for sweep in plan.sweeps for shape in sweep[:1]] == ["forward", "forward+backward"]
    assert {variant.name for variant in plan.variants} == set(attention.available())


def test_a_run_takes_five_minutes_by_default_and_given_values_hold() -> None:
    parser = argparse.ArgumentParser()
    options.add_options(parser)
    plan = plan_of(parser.parse_args(["--device", "cpu", "--layer-repetitions", "7"]))
    assert (plan.budget, plan.seconds, plan.layer_repetitions) == (300.0, 0.5, 7)
    assert (plan.layers[0].length, plan.sweeps[0][-1].length) == (4_096, 16_384)


def test_a_plan_has_the_layer_in_three_layouts_and_four_sweeps() -> None:
    parser = argparse.ArgumentParser()
    options.add_options(parser)
    words = ["--device", "cpu", "--mechanisms", "mean", "linear", "--causal", *TINY]
    plan = plan_of(parser.parse_args(words))
    assert [(shape.num_heads, shape.head_dim) for shape in plan.layers] == [(1, 64), (2, 32), (8, 8)]
    kinds = [[(shape.length, shape.causal, shape.backward) for shape in sweep] for sweep in plan.sweeps]
    assert kinds[1] == [(length, False, True) for length in powers_of_two(16, 64)]
    assert [kind[0][1:] for kind in kinds] == [(False, False), (False, True), (True, False), (True, True)]
    loops = 2  # one in each layer of several heads
    assert plan.num_cases == 3 * (3 + 4 * 3) + loops
    assert plan_of(parser.parse_args([*words, "--tables", "layer"])).num_cases == 3 * 3 + loops
    assert plan_of(parser.parse_args([*words, "--tables", "lengths"])).num_cases == 3 * 4 * 3


@pytest.mark.slow
def test_cases_without_time_are_skipped_and_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = itertools.count()  # a second at each look at the clock: a fast machine measures a case in 6 ms
    monkeypatch.setattr("forecast.benchmark.measure.monotonic", lambda: float(next(seconds)))
    words = ["--minutes", "0.0001", "--mechanisms", "mean", "--tables", "lengths", "--threads", "1"]
    assert main([*TINY, *words, "--output", str(tmp_path)]) == 0
    rows = read_rows(tmp_path / "cases.csv")
    assert all(row["skipped"].startswith("time: ") for row in rows)
    out, error = capsys.readouterr()
    (note,) = [line for line in out.splitlines() if line.startswith("skipped for lack of time: ")]
    assert "mean (forward from 16 tokens, forward+backward from 16 tokens)" in note
    assert note.endswith(": use --full to measure all")
    assert "longest 64 of 65,536" in note
    lines = error.splitlines()
    first = "2 mechanisms, 12 cases, within about 6 ms (--minutes); cases without time are skipped and listed"
    assert lines[0] == first
    assert lines[1].startswith("0 of 12, ")


def test_a_stopped_run_keeps_its_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("forecast.benchmark.attention.write_report", stop)
    assert main([*TINY, "--mechanisms", "mean", "--quiet", "--output", str(tmp_path)]) == 130
    assert [file.name for file in tmp_path.iterdir()] == ["cases.unfinished.csv"]
    assert len(read_rows(tmp_path / "cases.unfinished.csv")) == 2 * (3 + 2 * 3) + 2  # two loops over heads


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dtype", "fp16"], "--dtype fp16: requires a CUDA device"),
        (["--device", "cuda"], "--device cuda: no CUDA device available"),
        (["--full", "--minutes", "3"], "--full --minutes 3: a full run has no time limit: use only one of them"),
        (["--d-model", "12"], "--d-model 12: must be a multiple of 8"),
        (["--longest", "8"], "--longest 8 is below --shortest 16"),
        (["--mechanisms", "softmax"], "'softmax' does not exist: choose one of"),
        (["--mechanisms", "linear:factor=3"], "attention=linear has no argument factor"),
    ],
)
def test_an_impossible_benchmark_is_one_line_and_writes_nothing(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main([*TINY, *words, "--output", str(tmp_path / "new")]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert message in error
    assert not (tmp_path / "new").exists()


def test_an_output_that_is_a_file_is_refused_before_any_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("forecast.benchmark.attention.measure_limits", None)
    (tmp_path / "file").write_text("mine")
    for output in (tmp_path / "file", tmp_path / "file" / "below"):
        assert main([*TINY, "--output", str(output)]) == 2
        assert "is not a folder: choose another --output" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("words", [["--heads", "0"], ["--seconds", "-1"], ["--limit", "soon"], ["delays"]])
def test_argparse_refuses_an_option_out_of_range(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2


def test_each_new_folder_has_a_unique_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_folder(None) != open_folder(None)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_benchmark_does_not_import_lightning_and_prints_no_errors(tmp_path: Path) -> None:
    words = ["--mechanisms", "mean", "--tables", "lengths", "--threads", "1", "--quiet"]
    script = (
        "import sys\nfrom forecast.benchmark.__main__ import main\n"
        "loaded = {name.split('.')[0] for name in sys.modules} & {'lightning', 'hydra', 'torch'}\n"
        "from forecast.benchmark import machine\n"
        "machine.SIDE, machine.COPIED = {'cpu': 64}, {'cpu': 2**12}\n"
        f"code = main({[*TINY, *words, '--output', str(tmp_path)]!r})\n"
        "print(code, loaded, {name.split('.')[0] for name in sys.modules} & {'lightning', 'hydra'})\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert ended.stdout.splitlines()[-1] == "0 set() set()"
    assert ended.stderr == ""
