import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from forecast.plan.messages import MEASURE, Answer, Ask, ask_child
from tests.plan.made import measured

ASK = Ask(MEASURE, {}, 1.0, 2**30)


def ended(code: int, out: str = "", error: str = "") -> Callable[..., Any]:
    return lambda command, **_: subprocess.CompletedProcess(command, code, out, error)


def test_the_last_line_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", ended(0, f"training: …\n{measured().to_json()}\n"))
    assert ask_child(ASK, "full", 30) == measured()


def test_a_process_without_memory_or_time_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", ended(-9))
    assert ask_child(ASK, "full", 30) == Answer("memory: the process had no more")

    def run(command: list[str], *, timeout: float, **_: Any) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", run)
    assert ask_child(ASK, "full", 30) == Answer("time: took more than 30 s: raise --limit")


def test_a_process_that_died_of_anything_else_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", ended(1, error="ImportError: no module"))
    with pytest.raises(RuntimeError, match="full ended with 1: ImportError: no module"):
        ask_child(ASK, "full", 30)
