from functools import partial
from pathlib import Path

import pytest
import torch

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import parts as real
from benchmarks.gpu.parts import Bench, Part
from benchmarks.gpu.targets import TARGETS, Target
from tests.support.small import read_rows

SMALL = ["--device", "cpu", "--small"]


@pytest.mark.exhaustive
def test_every_part_runs_on_small_shapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traced: None, signals_and_threads: None
) -> None:
    monkeypatch.setattr(real, "gpu_tests", lambda bench: {"failures": 0.0})  # a second pytest takes seconds
    assert command.main([*SMALL, "--output", str(tmp_path)]) == 0
    rows = read_rows(tmp_path / "results.csv")
    assert sorted((row["part"], row["case"]) for row in rows) == sorted(target.key for target in TARGETS)
    failed = {row["part"] for row in rows if row["error"]}
    assert failed <= {"against the plain form"}, rows  # without kernels


def stubs(*values: float) -> list[Part]:
    """Return three parts of 1, 1,000 and 1 s that measure `values` in turn; a negative one fails."""
    left = list(values)

    def measure(target: Target, bench: Bench) -> dict[str, float]:
        if (value := left.pop(0)) < 0:
            raise RuntimeError("first line\nsecond line")
        return {target.case: value}

    durations = zip(TARGETS[1:4], (1.0, 1000.0, 1.0), strict=True)
    return [Part([target], seconds, partial(measure, target)) for target, seconds in durations]


def test_a_part_that_fails_is_a_row_and_the_next_one_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "parts", lambda: stubs(-1.0, 2.0, float("nan")))
    assert command.main([*SMALL, "--output", str(tmp_path)]) == 0
    rows = read_rows(tmp_path / "results.csv")
    assert [(row["value"], row["error"]) for row in rows] == [
        ("", "RuntimeError: first line"),
        ("2", ""),
        ("", "ValueError: a value is not a number"),
    ]


def test_a_part_without_time_is_left_for_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "parts", lambda: stubs(1.0, 3.0))
    arguments = ["--device", "cpu", "--minutes", "1", "--output", str(tmp_path)]
    assert command.main(arguments) == 0
    assert [row["value"] for row in read_rows(tmp_path / "results.csv")] == ["1", "3"]
    assert "not begun" in capsys.readouterr().out
    monkeypatch.setattr(command, "parts", lambda: stubs(2.0))
    assert command.main([*arguments, "--minutes", "30"]) == 0
    assert [row["value"] for row in read_rows(tmp_path / "results.csv")] == ["1", "3", "2"]


def test_passes_are_timed_in_turn_on_a_cpu() -> None:
    calls: list[str] = []
    clock = command.Clock(torch.device("cpu"), 2)
    times = clock.rounds_of({"one": lambda: calls.append("one"), "other": lambda: calls.append("other")})
    assert {name: len(seconds) for name, seconds in times.items()} == {"one": 2, "other": 2}
    assert calls[-4:] == ["one", "other", "other", "one"]
