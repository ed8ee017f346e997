"""Planted faults: what is changed, how they are drawn, and what a row says."""

import ast
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import faults
from benchmarks.faults import LATER, Fault, affected_test, apart, draw, found_together, places, summary
from tests.support.small import ROOT


def changed(text: str) -> list[str]:
    return [text[: fault.start] + fault.after + text[fault.end :] for fault in places("a.py", text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = a < b", ["x = a <= b"]),
        ("x = (a) - (b)", ["x = (a) + (b)"]),
        ("x = a and b", ["x = a or b"]),
        ("x = not a", ["x = bool(a)"]),
        ("x = max(a, True)", ["x = min(a, True)", "x = max(a, False)"]),
        ("if é:\n    x = 2", ["if not (é):\n    x = 2", "if é:\n    x = 3"]),
        ("x: Literal[1] = 0.5", ["x: Literal[1] = 1.0"]),
        ('def f(a: Literal[1] = 2) -> int:\n    """3"""', ['def f(a: Literal[1] = 3) -> int:\n    """3"""']),
        ("raise E(f'{a + 1}')", []),
        ("if TYPE_CHECKING:\n    x = 1", []),
    ],
)
def test_each_place_is_changed_once(text: str, expected: list[str]) -> None:
    assert changed(text) == expected


@pytest.mark.exhaustive
def test_faults_are_drawn_by_seed_from_all_folders_and_each_is_python() -> None:
    drawn = draw(ROOT, 1, 40)
    assert drawn == draw(ROOT, 1, 40)
    assert drawn != draw(ROOT, 2, 40)
    assert len({fault.file.split("/")[1] for fault in drawn}) >= 13
    for fault in drawn:
        text = (ROOT / fault.file).read_text(encoding="utf-8")
        assert text[fault.start : fault.end] == fault.before
        ast.parse(text[: fault.start] + fault.after + text[fault.end :])


class Pytest:
    """A stand-in for pytest on a program `x = 1; y = 1`, by tests and the texts that each of them fails with."""

    def __init__(self, program: Path, tests: dict[str, tuple[list[str], str]]) -> None:
        self.program, self.tests = program, tests

    def __call__(self, words: list[str], _: Path) -> tuple[int, list[str]]:
        left_out = [word.removeprefix("--deselect=") for word in words if word.startswith("--deselect")]
        text, own = self.program.read_text(), [word for word in words[words.index("-n") + 2 :] if word[:2] != "--"]
        failed = [
            name
            for name, (stage, planted) in self.tests.items()
            if name != "--hang" and planted in text and name not in left_out and (name in own or own == stage)
        ]
        if "--hang" in self.tests and own == self.tests["--hang"][0] and self.tests["--hang"][1] in text:
            return 124, []
        return int(bool(failed)), failed[: 1 if "-x" in words else None]


ONE, TWO = Fault("a.py", 1, "1", "2", 4, 5), Fault("a.py", 2, "1", "3", 10, 11)


def plant_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **tests: tuple[list[str], str]) -> None:
    program = tmp_path / "a.py"
    program.write_text("x = 1\ny = 1")
    monkeypatch.setattr(faults, "_run", Pytest(program, tests))
    monkeypatch.setattr(faults, "_restore", lambda _: program.write_text("x = 1\ny = 1"))


def test_a_fault_is_found_by_an_affected_test_that_fails_by_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_in(tmp_path, monkeypatch, unsteady=([], "x"), good=([], "x = 2"), later=(["-m", "slow"], "y = 3"))
    assert affected_test(ONE, tmp_path, 1) == "good"
    assert affected_test(TWO, tmp_path, 1) == ""
    assert (tmp_path / "a.py").read_text() == "x = 1\ny = 1"


def test_faults_that_are_planted_together_are_each_found_by_a_test_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = ["-m", "slow"]
    plant_in(tmp_path, monkeypatch, a=(slow, "y = 3"), b=(slow, "x"), c=(["tests/end_to_end"], "x = 2"))
    assert found_together([ONE, TWO], tmp_path, 1, LATER) == {TWO: "a", ONE: "c"}
    plant_in(tmp_path, monkeypatch, both=(slow, "x = 2\ny = 3"))  # neither alone
    assert found_together([ONE, TWO], tmp_path, 1, LATER) == {}


def test_a_fault_that_stops_a_stage_is_found_among_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = ["-m", "slow"]
    plant_in(tmp_path, monkeypatch, **{"a": (slow, "x = 2"), "--hang": (slow, "y = 3")})
    assert found_together([ONE, TWO], tmp_path, 1, LATER) == {ONE: "a", TWO: "exit code 124"}


def test_a_stage_that_stops_without_a_fault_finds_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant_in(tmp_path, monkeypatch, **{"--hang": (["-m", "slow"], "x")})
    assert found_together([ONE, TWO], tmp_path, 1, LATER) == {}


def test_a_test_that_fails_without_a_fault_finds_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant_in(tmp_path, monkeypatch, unsteady=(["-m", "slow"], "x"))
    assert found_together([ONE, TWO], tmp_path, 1, LATER) == {}


def test_faults_at_one_place_are_planted_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Fault("a.py", 1, "x = 1", "z = 2", 0, 5)
    assert apart([ONE, other, TWO]) == [ONE, TWO]
    plant_in(tmp_path, monkeypatch, a=(["-m", "slow"], "z"))
    assert found_together([ONE, other, TWO], tmp_path, 1, LATER) == {other: "a"}


def test_the_summary_counts_each_tier() -> None:
    rows = pd.DataFrame({"found_by": ["quick", "all", None, "quick"]})
    assert summary(rows) == "4 faults; all tests find 3, the quick tier 2"
