import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from forecast.sweeping.rows import FIGURES
from tests.small import ROOT, quick

TRIALS = 4
NAMES = [f"attention-{name}_seed-{seed}" for name in ("full", "linear") for seed in (1, 2)]
MEASURED = [name for name, place in FIGURES.items() if place.startswith("speed.") and name != "flops_per_window"]
TIMES = ["folder", *(f"{name}{end}" for name in MEASURED for end in ("", "_sd"))]
"""Columns of a sweep that differ from one to the next: what was measured, and where it lies."""


@pytest.mark.slow
def test_killed_at_random_instants_it_ends_where_it_would_have(tmp_path: Path) -> None:
    words = ["training.validations_per_epoch=8", "model.linear_path=zero", "optimizer.lr=0.01"]
    config = tmp_path / "config.json"
    config.write_text(json.dumps(quick(tmp_path / "outputs", *words, "training.max_steps=60")))
    ended = subprocess.run(
        [sys.executable, "-m", "tests.killing", str(config), str(TRIALS)],
        cwd=ROOT, capture_output=True, text=True, timeout=400, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout.splitlines()[-1])
    print("resumed:", report["resumed"])
    assert len(report["runs"]) == TRIALS
    assert report["resumed"] >= TRIALS // 4
    for run in report["runs"]:
        assert run == report["whole"]
    assert report["whole"]["leftovers"] == []


@pytest.mark.slow
def test_a_sweep_killed_half_way_runs_only_what_is_missing_and_ends_in_the_same_tables(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.killing_sweeps", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=400, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout.splitlines()[-1])
    assert report["codes"] == [0, -9, 0], (tmp_path / "killed.log").read_text()
    assert 2 <= len(report["finished"]) < 4
    log = (tmp_path / "killed.log").read_text()
    for name in NAMES:
        begun = log.count(f"{name} starts") + log.count(f"{name} goes on")
        assert log.count(f"{name}: finished,") == 1
        assert begun == 1 or (begun == 2 and name not in report["finished"])
    for name in ("sweep.csv", "jobs.csv"):
        whole, killed = (
            pd.read_csv(tmp_path / root / "sweeps" / "s" / name, dtype=str).drop(columns=TIMES, errors="ignore")
            for root in ("whole", "killed")
        )
        assert {"test_mse", "flops_per_window", "best_step", "status"} <= set(whole)
        pd.testing.assert_frame_equal(whole, killed)
