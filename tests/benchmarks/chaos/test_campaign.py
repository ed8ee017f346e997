"""A short campaign holds and writes a record; the long campaign runs only on request."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.chaos.campaign import FULL, Row, planned, program, table
from tests.support.small import ROOT

SHORT = "interruption=2,corruption=1,disk=1,not_finite=1"


def chaos(*words: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.chaos", *words],
        cwd=ROOT, capture_output=True, text=True, timeout=timeout, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_short_campaign_holds(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    words = ("--quick", "--seed", "4", "--counts", SHORT, "--workers", "2", "--patience", "60", "--record", str(record))
    ended = chaos(*words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    tried = Counter(row["kind"] for row in rows)
    assert tried == {kind: int(count) for kind, count in (word.split("=") for word in SHORT.split(","))}
    assert "equal, resumed" in {row["came"] for row in rows}  # at least one interruption was resumed
    assert "| interruption | 2 | 2 | 0 |" in ended.stdout


@pytest.mark.record
def test_the_long_campaign_holds(tmp_path: Path) -> None:
    ended = chaos("--full", "--record", str(tmp_path / "record.jsonl"), timeout=3 * 3600)
    assert ended.returncode == 0, ended.stdout


def row(kind: str, seed: int, held: bool = True) -> Row:
    return Row(kind, seed, held, "what was done", "equal" if held else "lost", "", False, 1.0, 0.5, 10.0, program())


def test_the_table_has_a_row_per_kind_and_the_seed_of_each_failure() -> None:
    text = table([row("corruption", 1), row("corruption", 7, held=False), row("disk", 0)])
    assert "| corruption | 2 | 1 | 1 |" in text
    assert "| disk | 1 | 1 | 0 |" in text
    assert "- `--trial corruption:7`: what was done: lost" in text
    assert "interruption" not in text


def test_a_stopped_campaign_has_trials_of_each_kind() -> None:
    trials = list(planned(FULL, 5))
    assert Counter(kind for kind, _ in trials) == FULL
    assert {kind for kind, _ in trials[:60]} == set(FULL)
    assert min(seed for _, seed in trials) == 5
    assert len(set(trials)) == len(trials)
