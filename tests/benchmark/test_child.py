import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from forecast.attention._parsing import parse
from forecast.benchmark import trial as tries
from forecast.benchmark.trial import Ask, Trial, Watch, attempt_of, try_in_child
from tests.benchmark.test_trial import ASK, GIB


def ended(code: int, out: str = "", error: str = "") -> Callable[..., Any]:
    return lambda command, **_: subprocess.CompletedProcess(command, code, out, error)


def test_a_child_is_given_the_question_the_threads_and_this_package(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        seen.update(options, command=command)
        return subprocess.CompletedProcess(
            command, 0, 'noise\n{"look_back": 32, "peak_bytes": 5, "seconds": 0.5}\n', ""
        )

    monkeypatch.setattr(subprocess, "run", run)
    assert try_in_child(ASK, limit=30) == Trial(32, 5, 0.5)
    assert Ask.from_json(seen["command"][-1]) == ASK
    assert seen["env"]["OMP_NUM_THREADS"] == str(torch.get_num_threads())
    assert seen["timeout"] >= 30


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (-9, ""),
        (-6, "terminate called after throwing an instance of 'std::bad_alloc'"),
        (1, "MemoryError"),
        (1, "libgomp: Thread creation failed: Resource temporarily unavailable"),
    ],
)
def test_a_child_that_died_of_the_limit_did_not_fit(code: int, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", ended(code, error=error))
    assert try_in_child(ASK, limit=30) == Trial(32, why="memory: the process had no more")


def test_a_child_that_died_of_anything_else_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", ended(1, error="ImportError: no module"))
    with pytest.raises(RuntimeError, match=r"look-back 32 of probsparse factor=3 ended with 1: ImportError: no module"):
        try_in_child(ASK, limit=30)


def test_a_child_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], *, timeout: float, **_: Any) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", run)
    assert try_in_child(ASK, limit=30) == Trial(32, why="time: the step took more than 30 s")


def test_a_look_back_that_the_last_one_foretells_to_be_too_slow_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def try_it(ask: Ask, limit: float) -> Trial:
        tried.append(ask.task.context_length)
        return Trial(ask.task.context_length, 1, 10.0)

    monkeypatch.setattr(tries, "try_in_child", try_it)
    attempt = attempt_of(replace(ASK, variant=parse("full")), 39.0, Watch())
    assert attempt(100).fits
    assert attempt(200) == Trial(200, why="time: would take about 40 s, the limit is 39 s")
    assert attempt(150).fits
    assert tried == [100, 150]


def test_a_gpu_is_tried_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries, "try_here", lambda ask: Trial(ask.task.context_length, 7, 1.0))
    said: list[str] = []
    added: list[Trial] = []
    attempt = attempt_of(replace(ASK, device="cuda"), 39.0, Watch(said.append, lambda _, trial: added.append(trial)))
    assert attempt(2048) == Trial(2048, 7, 1.0)
    assert said == ["probsparse factor=3: 2,048"]
    assert added == [Trial(2048, 7, 1.0)]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such limit")
def test_a_real_child_fits_or_runs_out_and_says_which() -> None:
    explicit = replace(ASK, variant=parse("full:implementation=explicit"), memory_bytes=GIB)
    small = try_in_child(explicit, limit=60)
    assert small.fits
    assert small.peak_bytes is not None
    assert 2**26 < small.peak_bytes < GIB
    scores = 2 * 2 * 16_384**2 * 4
    assert scores > GIB
    large = try_in_child(replace(explicit, task=replace(explicit.task, context_length=16_384)), limit=60)
    assert large.why.startswith("memory: "), json.dumps(large.why)
