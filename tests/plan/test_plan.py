"""The planner, from the command line to its table and its file."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from forecast.plan import clock, planner, worker
from forecast.plan.__main__ import main
from forecast.plan.clock import FIRST_VALIDATION, WARM_UP, StepClock
from forecast.plan.messages import AGAIN, MEASURE, Answer, Request
from forecast.plan.pace import Pace
from tests.plan.made import PACE, measured
from tests.support.small import QUICK, SIMULATED, SMALL

WORDS = [*SIMULATED, *QUICK, *SMALL["patch_informer"]]

pytestmark = pytest.mark.usefixtures("signals_and_threads")


def plan(*words: str) -> int:
    return main([*WORDS, "--threads", "1", "--memory-gib", "2", "--quiet", *words])


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Replace the measuring processes, with `linear` twice as fast as `full`; return the list of requests."""
    seen: list[tuple[str, str]] = []

    def request_child(request: Request, label: str, limit: float) -> Answer:
        seen.append((label, request.what))
        fast = replace(PACE, step=0.2) if label == "linear" else PACE
        if label == "linformer":
            return Answer("refused: attention=linformer cannot be causal: set attention@decoder_attention=full")
        assert request.memory_bytes == 2 * 2**30
        return measured(pace=fast)

    monkeypatch.setattr(planner, "request_child", request_child)
    return seen


def test_a_plan_has_a_row_per_mechanism_and_the_reason_of_a_refusal(
    requests: list[tuple[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--mechanisms", "full", "linear", "linformer", "--output", str(tmp_path / "plan.json")]
    assert plan(*words) == 0
    again = [("linear", AGAIN), ("full", AGAIN)]  # a refused mechanism is not measured again
    assert requests == [*((name, MEASURE) for name in ("full", "linear", "linformer")), *again, *reversed(again)]
    written = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    assert written["command"].startswith("python -m forecast.plan data=synthetic")
    assert (written["context_length"], written["batch"], written["memory_gib"]) == (48, 10, 2.0)
    assert written["rounds"] == 3
    full, linear, linformer = written["mechanisms"]
    assert full["epoch_seconds"] == pytest.approx(106)
    assert linear["epoch_seconds"] == pytest.approx(56)
    assert (linformer["epoch_seconds"], linformer["why"][:9]) == (None, "refused: ")
    printed = " ".join(capsys.readouterr().out.split())
    assert "1.77 min" in printed
    assert (
        "training: linear < full; peak: full ≈ linear; <: less in every round; ≈: order uncertain, rounds overlap"
        in printed
    )
    assert "linformer: refused: attention=linformer cannot be causal: set attention@decoder_attention=full" in printed


def test_a_plan_first_prints_its_work_and_its_progress(
    requests: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--mechanisms", "full", "linear", "--threads", "1", "--memory-gib", "2"]
    assert main([*WORDS, *words]) == 0
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert first == (
        "planning 2 mechanisms in 3 rounds for 700 rows and 1 target: each round reads the data, fits the linear maps "
        "and runs 4 s of training steps; no training is completed"
    )
    assert second.startswith("0 of 6, ")
    assert second.endswith(": full: measure")


def test_an_interrupted_plan_says_that_nothing_was_written_and_how_to_shorten_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(planner, "request_child", interrupt)
    assert plan("--mechanisms", "full") == 130
    error = capsys.readouterr().err
    assert error.startswith("stopped: interrupted: nothing was written, since a plan cannot resume: for a shorter plan")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--output", "{folder}/none/plan.json"], "{folder}/none: no such folder: create it, or choose another"),
        (["data.rows=many"], "data.rows=many: must be int"),
        (["seed=1,2"], "seed=1,2"),
        (["--mechanisms", "linformer"], "attention=linformer cannot be causal: set attention@decoder_attention=full"),
    ],
)
def test_an_impossible_plan_ends_with_one_line_and_code_2(
    words: list[str], message: str, requests: list[tuple[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan(*(word.format(folder=tmp_path) for word in words)) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message.format(folder=tmp_path) in error


@pytest.mark.exhaustive
def test_a_real_plan_has_times_memory_and_the_sizes_that_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paces: list[Pace | None] = []

    def answer_here(request: Request, label: str, limit: float) -> Answer:
        answer = Answer.of(json.loads(json.dumps(worker.answer_request(**json.loads(json.dumps(asdict(request)))))))
        paces.append(answer.pace)
        return answer

    monkeypatch.setattr(planner, "request_child", answer_here)
    monkeypatch.setattr(
        worker, "limit_process", lambda _: None
    )  # else the later tests in this process would be limited
    monkeypatch.setattr(clock, "LEAST", 16)
    clocks: list[StepClock] = []

    def new_clock(seconds: float) -> StepClock:
        clocks.append(StepClock(seconds))
        return clocks[-1]

    monkeypatch.setattr(worker, "StepClock", new_clock)
    monkeypatch.chdir(tmp_path)
    words = ["--mechanisms", "mean", "--seconds", "0", "--rounds", "2", "--confirm"]
    assert plan(*words, "--output", "plan.json") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
    written = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    (mean,) = written["mechanisms"]
    assert (mean["why"], mean["steps_timed"]) == ("", 16 - WARM_UP)
    assert [[validation.after for validation in made.validations] for made in clocks] == [[FIRST_VALIDATION, 16]] * 2
    assert (written["train"], written["steps"]) == (430, 12)
    assert 0 < mean["loop_seconds"] < mean["epoch_seconds"]
    assert mean["training_seconds"] < mean["result_seconds"]
    assert all(pace.scoring > pace.window > 0 for pace in paces if pace is not None)  # five rows, not one
    assert len([pace for pace in paces if pace is not None]) == 2
    assert (mean["largest_batch"], mean["batch_bound"]) == (written["train"], "data")
    assert (mean["largest_look_back"], mean["look_back_bound"]) == (477, "data")
    assert [trial["why"] for trial in mean["trials"]] == ["", ""]


@pytest.mark.exhaustive
def test_a_real_process_reports_a_refused_mechanism(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SIMULATED, *QUICK, *SMALL["informer"], "model=informer", "--mechanisms", "linformer", "--quiet"]
    assert main(words) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("error: attention=linformer cannot be causal: set attention@decoder_attention=full")


@pytest.mark.parametrize(
    ("why", "code", "words"),
    [
        ("memory: the process ran out of memory", 6, "reduce one of training.batch_size="),
        ("disk: No space left on device: free some disk space", 4, "error: No space left on device"),
    ],
)
def test_a_plan_without_a_mechanism_ends_with_the_code_of_the_reason(
    why: str, code: int, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(planner, "request_child", lambda *_: Answer(why))
    assert plan("--mechanisms", "full") == code
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
