import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from forecast.runs import results
from forecast.runs.results import _typical


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a checkout with a committed program and record, in which `commit` looks."""
    for name in ("forecast/runs/results.py", "benchmarks/records/results.csv"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("as committed\n")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(results, "__file__", str(tmp_path / "forecast" / "runs" / "results.py"))
    results.commit.cache_clear()
    yield tmp_path
    results.commit.cache_clear()


def test_the_commit_marks_changes_of_the_program_but_not_of_records(checkout: Path) -> None:
    clean = results.commit()
    assert clean is not None
    assert len(clean) == 40
    (checkout / "benchmarks" / "records" / "results.csv").write_text("one row more\n")
    results.commit.cache_clear()
    assert results.commit() == clean
    (checkout / "forecast" / "runs" / "results.py").write_text("changed\n")
    assert results.commit() == clean  # the code in memory is older
    results.commit.cache_clear()
    assert results.commit() == f"{clean}+changes"


@pytest.mark.parametrize(
    ("script", "command"),
    [
        ("/somewhere/forecast/training/__main__.py", "python -m forecast.training data=etth1"),
        ("train.py", "python train.py data=etth1"),
    ],
)
def test_the_command_line_can_be_run_again(script: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [script, "data=etth1"])
    assert results.command_line() == command


def test_the_typical_skill_is_that_of_the_median_series() -> None:
    """The mean over the series would be decided by the last one."""

    def row(*mse: float) -> Any:
        sums = SimpleNamespace(squared=torch.tensor([mse, mse]), count=torch.ones(2, len(mse)))
        return SimpleNamespace(test=SimpleNamespace(sums=sums, by_id=None))

    found = _typical(row(1.0, 1.2, 0.9, 0.5, 10.0), row(1.0, 1.0, 1.0, 0.0, 1000.0))
    assert found == {"skill": pytest.approx(0.05), "better": 2}  # a perfect seasonal naive forecast has no skill
    assert math.isnan(_typical(row(1.0), row(0.0))["skill"])
