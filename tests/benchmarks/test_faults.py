"""Planted faults: what is changed, how they are drawn, and what a row says."""

import ast
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import faults
from benchmarks.faults import Fault, draw, places, summary, try_fault
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


def test_faults_are_drawn_by_seed_from_all_folders_and_each_is_python() -> None:
    drawn = draw(ROOT, 1, 40)
    assert drawn == draw(ROOT, 1, 40)
    assert drawn != draw(ROOT, 2, 40)
    assert len({fault.file.split("/")[1] for fault in drawn}) >= 13
    for fault in drawn:
        text = (ROOT / fault.file).read_text(encoding="utf-8")
        assert text[fault.start : fault.end] == fault.before
        ast.parse(text[: fault.start] + fault.after + text[fault.end :])


@pytest.mark.parametrize(
    ("codes", "tier"), [([1], "quick"), ([5, 1], "quick"), ([0, 0, 1], "all"), ([0, 0, 0, 5, 0], "")]
)
def test_the_first_stage_that_fails_names_the_tier(
    codes: list[int], tier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text("x = 1")
    seen: list[str] = []

    def run(command: list[str], **_: object) -> object:
        if command[0] == "git":
            seen.append("restored")
            return None
        seen.append((tmp_path / "a.py").read_text())
        return type("Ended", (), {"returncode": codes[len(seen) - 1], "stdout": "FAILED tests/test_a.py::b - x\n"})

    monkeypatch.setattr(faults.subprocess, "run", run)
    fault = Fault("a.py", 1, "1", "2", 4, 5)
    assert try_fault(fault, tmp_path, 1) == (tier, "tests/test_a.py::b" if tier else "")
    assert seen == ["x = 2"] * len(codes) + ["restored"]


def test_the_summary_counts_each_tier() -> None:
    rows = pd.DataFrame({"found_by": ["quick", "all", None, "quick"]})
    assert summary(rows) == "4 faults; all tests find 3, the quick tier 2"
