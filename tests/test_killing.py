import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.small import ROOT, quick

TRIALS = 20


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
