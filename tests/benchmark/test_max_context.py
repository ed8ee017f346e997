"""The search for the longest look-back, from one step to the command line and its files."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from forecast.attention._parsing import parse
from forecast.benchmark import max_context as module
from forecast.benchmark.__main__ import main
from forecast.benchmark.limits import limit_cuda
from forecast.benchmark.max_context import (
    Request,
    Trial,
    attempt_of,
    largest,
    search,
    smallest_failed,
    try_confined,
    try_here,
    try_in_child,
)
from forecast.benchmark.models import Task, parse_preset
from forecast.common.memory import peak_memory_mib
from tests.benchmark.made import CPU
from tests.support.small import read_rows

SIZES = "d_model=16,num_heads=2,d_ff=32"
GIB = 2**30
REQUEST = Request(
    preset=parse_preset("patch_informer:patch_length=1,level=window,linear_path=false,d_model=8,num_heads=2,d_ff=16"),
    variant=parse("probsparse:factor=3"),
    task=Task(context_length=32, horizon=4, batch=2, channels=1),
    precision="fp32",
    device="cpu",
    memory_bytes=64 * GIB,
)

pytestmark = pytest.mark.usefixtures("signals_and_threads")


def up_to(most: int, tried: list[int]) -> Callable[[int], Trial]:
    """Return an attempt that fits up to `most`."""

    def attempt(look_back: int) -> Trial:
        tried.append(look_back)
        return Trial(look_back, look_back, 1.0, "" if look_back <= most else "memory: no more")

    return attempt


@pytest.mark.parametrize("most", [100, 101, 137, 150, 199, 1000, 12_345])
@pytest.mark.parametrize("within", [0.1, 0.01])
def test_the_result_fits_and_a_slightly_longer_look_back_does_not(most: int, within: float) -> None:
    tried: list[int] = []
    trials = list(search(up_to(most, tried), shortest=100, longest=10**6, within=within))
    best, failed = largest(trials), smallest_failed(trials)
    assert best is not None
    assert failed is not None
    assert best.look_back <= most < failed.look_back
    assert failed.look_back - best.look_back <= max(1, within * best.look_back)
    assert [trial.look_back for trial in trials] == tried
    assert len(set(tried)) == len(tried)


def test_lengths_double_and_then_bisect() -> None:
    tried: list[int] = []
    assert len(list(search(up_to(500, tried), shortest=100, longest=10**6, within=0.1))) == 7
    assert tried == [100, 200, 400, 800, 600, 500, 550]


def test_nothing_is_tried_beyond_the_longest() -> None:
    tried: list[int] = []
    trials = list(search(up_to(10**9, tried), shortest=100, longest=300, within=0.1))
    assert tried == [100, 200, 300]
    assert smallest_failed(trials) is None


def test_no_look_back_fits_if_the_shortest_does_not() -> None:
    trials = list(search(up_to(10, []), shortest=100, longest=300, within=0.1))
    assert largest(trials) is None
    assert len(trials) == 1


@pytest.mark.parametrize("why", ["time: too long", "refused: cannot be causal"])
def test_a_failure_for_another_reason_than_memory_ends_the_search(why: str) -> None:
    def attempt(look_back: int) -> Trial:
        return Trial(look_back, 1, 1.0) if look_back < 400 else Trial(look_back, why=why)

    trials = list(search(attempt, shortest=100, longest=10**6, within=0.1))
    assert [trial.look_back for trial in trials] == [100, 200, 400]


def test_a_failure_during_bisection_ends_the_search_too() -> None:
    def attempt(look_back: int) -> Trial:
        if look_back == 300:
            return Trial(look_back, why="time: too long")
        return Trial(look_back, why="" if look_back < 400 else "memory: no more")

    trials = list(search(attempt, shortest=100, longest=10**6, within=0.1))
    assert [trial.look_back for trial in trials] == [100, 200, 400, 300]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_that_fits_reports_its_memory_and_time(precision: str) -> None:
    trial = try_here(replace(REQUEST, precision=precision))
    assert trial.fits
    assert trial.look_back == 32
    assert trial.peak_bytes is not None
    assert 0 < trial.peak_bytes <= peak_memory_mib(CPU) * 2**20
    assert trial.seconds is not None
    assert trial.seconds > 0


def test_a_step_above_the_memory_limit_does_not_fit() -> None:
    trial = try_here(replace(REQUEST, memory_bytes=2**20))
    assert not trial.fits
    assert trial.why.startswith("memory: took ")


def test_a_refused_mechanism_has_a_reason() -> None:
    preset = parse_preset("informer:start_length=0,d_model=8,num_heads=2,d_ff=16")
    trial = try_here(replace(REQUEST, preset=preset, variant=parse("linformer")))
    assert trial == Trial(32, why=trial.why)
    assert trial.why.startswith("refused: attention=linformer cannot be causal")


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("can't allocate memory"), MemoryError()]
)
def test_running_out_of_memory_is_a_failed_trial(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(module, "training_step", fail)
    assert try_here(REQUEST).why.startswith("memory: ")


def test_any_other_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(module, "training_step", fail)
    with pytest.raises(RuntimeError, match="shapes differ"):
        try_here(REQUEST)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_recovers_after_running_out_of_memory() -> None:
    device = torch.device("cuda")
    request = replace(REQUEST, device="cuda", variant=parse("full:implementation=explicit"), memory_bytes=GIB)
    limit_cuda(GIB, device)
    try:
        assert try_here(replace(request, task=replace(request.task, context_length=16_384))).why.startswith("memory: ")
        assert try_here(request).fits
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, 0)


def test_a_child_runs_the_requested_step_within_its_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def measure_in_child(function: str, request: Any, limit: float, *, label: str, late: str) -> Any:
        calls.append((function, limit, label, late))
        return try_confined(**json.loads(json.dumps(request)))

    limits: list[int] = []
    monkeypatch.setattr(module, "measure_in_child", measure_in_child)
    monkeypatch.setattr(module, "limit_process", limits.append)
    monkeypatch.setattr(
        module, "try_here", lambda request: Trial(request.task.context_length, 5, 0.5 * (request == REQUEST))
    )
    assert try_in_child(REQUEST, limit=30) == Trial(32, 5, 0.5)
    assert limits == [REQUEST.memory_bytes]
    label = "look-back 32 of probsparse factor=3"
    assert calls == [
        ("forecast.benchmark.max_context:try_confined", 30, label, "the step took more than 30 s"),
    ]


def test_a_reply_with_only_a_reason_is_a_failed_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "measure_in_child", lambda *_, **__: {"why": "memory: the process ran out of memory"})
    trial = try_in_child(REQUEST, limit=30)
    assert not trial.fits
    assert "ran out of memory" in trial.why


def test_a_look_back_that_is_predicted_to_be_too_slow_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def try_it(request: Request, limit: float) -> Trial:
        tried.append(request.task.context_length)
        return Trial(request.task.context_length, 1, 10.0)

    monkeypatch.setattr(module, "try_in_child", try_it)
    attempt = attempt_of(replace(REQUEST, variant=parse("full")), 39.0, lambda _: None)
    assert attempt(100).fits
    assert attempt(200) == Trial(200, why="time: would take about 40 s, the limit is 39 s")
    assert attempt(150).fits
    assert tried == [100, 150]


def test_a_gpu_trial_runs_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "try_here", lambda request: Trial(request.task.context_length, 7, 1.0))
    progress: list[str] = []
    attempt = attempt_of(replace(REQUEST, device="cuda"), 39.0, progress.append)
    assert attempt(2048) == Trial(2048, 7, 1.0)
    assert progress == ["probsparse factor=3: 2,048"]


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such limit")
def test_a_real_child_fits_or_runs_out_of_memory() -> None:
    explicit = replace(REQUEST, variant=parse("full:implementation=explicit"), memory_bytes=GIB)
    small = try_in_child(explicit, limit=60)
    assert small.fits
    assert small.peak_bytes is not None
    assert 2**26 < small.peak_bytes < GIB
    scores = 2 * 2 * 16_384**2 * 4
    assert scores > GIB
    large = try_in_child(replace(explicit, task=replace(explicit.task, context_length=16_384)), limit=60)
    assert large.why.startswith("memory: "), json.dumps(large.why)


def test_max_context_writes_each_trial_and_each_largest_look_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    most = {"full": 300, "linear": 10**6, "linformer": 0}

    def try_it(request: Request, limit: float) -> Trial:
        assert (request.task.batch, request.precision, request.memory_bytes) == (3, "bf16", 2**30)
        look_back = request.task.context_length
        if request.variant.name == "linformer":
            return Trial(look_back, why="refused: cannot")
        fits = look_back <= most[request.variant.name]
        return Trial(look_back, 1000 * look_back, 0.5, "" if fits else "memory: took 2.00 GiB")

    monkeypatch.setattr(module, "try_in_child", try_it)
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
    assert "- linear: fits up to --longest" in tables
    assert "- linformer: 64: refused: cannot" in tables
    assert capsys.readouterr().out.splitlines()[-1] == f"{tmp_path}: cases.csv, summary.csv, tables.md"


@pytest.mark.exhaustive
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
        (["max-context", "--memory-gib", "1e9"], "GiB are free: use less"),
        (["max-context", "--model", "informer:d_model=30"], "model.d_model 30 is not divisible"),
    ],
)
def test_an_impossible_search_is_one_line_and_writes_nothing(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main([*words, "--output", str(tmp_path / "new")]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert message in error
    assert not (tmp_path / "new").exists()


def test_argparse_refuses_an_option_out_of_range() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["max-context", "--within", "0"])
    assert ended.value.code == 2
