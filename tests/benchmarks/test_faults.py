"""Planted faults: what is changed, how they are drawn, and what a row says."""

import ast
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import faults
from benchmarks.faults import STAGES, Fault, draw, places, summary, try_fault
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
    ("finds", "unsteady", "tier"),
    [
        ({"affected": "a"}, set(), "quick"),
        ({"quick": "a"}, set(), "quick"),
        ({"end to end": "a"}, set(), "all"),
        ({}, set(), ""),
        ({"quick": "b"}, {"b"}, ""),  # b fails without the fault too
        ({"quick": "b", "slow": "a"}, {"b"}, "all"),
    ],
)
def test_the_first_stage_with_a_test_that_fails_by_the_fault_alone_names_the_tier(
    finds: dict[str, str], unsteady: set[str], tier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "a.py"
    program.write_text("x = 1")

    def run(command: list[str], _: Path) -> tuple[int, str]:
        planted = program.read_text() == "x = 2"
        words = command[command.index("-n") + 2 :]
        if words and words[0] in ("a", "b"):
            return int(planted or words[0] in unsteady), words[0]
        assert planted
        left_out = [word.removeprefix("--deselect=") for word in words if word.startswith("--deselect")]
        stage = next(name for name, wanted in STAGES.items() if wanted == words[: len(words) - len(left_out)])
        test = finds.get(stage, "")
        return (1, test) if test and test not in left_out else (0, "")

    monkeypatch.setattr(faults, "_run", run)
    monkeypatch.setattr(faults, "_restore", lambda _: program.write_text("x = 1"))
    found = try_fault(Fault("a.py", 1, "1", "2", 4, 5), tmp_path, 1)
    assert found == (tier, "a" if tier else "")
    assert program.read_text() == "x = 1"


def test_the_summary_counts_each_tier() -> None:
    rows = pd.DataFrame({"found_by": ["quick", "all", None, "quick"]})
    assert summary(rows) == "4 faults; all tests find 3, the quick tier 2"
