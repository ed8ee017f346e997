"""The first day of a user, as commands: one training, one forecast from it, one sweep and its report in a browser."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.support.browser import open_page
from tests.support.small import HORIZON, QUICK, ROOT, SMALL, hourly, write
from tests.support.sweeps import typed

WORDS = [*SMALL["patch_informer"], *QUICK, "data=csv", "data.past_covariates=[air]", "training.max_steps=3"]


def run(*words: str) -> str:
    """Run a command in a process of its own, and return what it printed; it must succeed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.usefixtures("drawn")
def test_a_file_is_trained_on_and_forecast_by_two_commands(tmp_path: Path) -> None:
    table = hourly()
    source = write(tmp_path / "my.csv", table)
    printed = run("train.py", *WORDS, f"data.path={source}", f"output_dir={tmp_path / 'outputs'}")
    (folder,) = (tmp_path / "outputs" / "my").iterdir()
    assert "seasonal naive" in printed
    assert f"python -m forecast.predict --run {folder} --input {source} --output forecast.csv" in printed
    forecast = tmp_path / "next.csv"
    run(
        "-m",
        "forecast.predict",
        "--run",
        str(folder),
        "--input",
        str(source),
        "--output",
        str(forecast),
        "--levels",
        "80",
    )
    following = pd.date_range(table["date"].iloc[-1], periods=HORIZON + 1, freq="h")[1:]
    written = pd.read_csv(forecast, parse_dates=["date"])
    assert list(written["date"]) == list(following)
    assert (written["load_lower_80"] < written["load_upper_80"]).all()
    assert written["load"].between(500, 1500).all()
    assert forecast.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("drawn")
def test_a_sweep_trains_each_job_and_its_report_opens_without_a_network(tmp_path: Path) -> None:
    source = write(tmp_path / "my.csv", hourly())
    words = ["-m", "attention=full,mean", "sweep.repeat_timing=0", f"output_dir={tmp_path / 'outputs'}"]
    ended = typed(*words, *WORDS, f"data.path={source}")
    assert ended.code == 0, ended.err.getvalue()
    (sweep,) = (tmp_path / "outputs" / "sweeps").iterdir()
    jobs = {json.loads(path.read_text())["config"]["attention"]["name"] for path in sweep.glob("*/result.json")}
    assert jobs == {"full", "mean"}
    opened = open_page(sweep / "report.html", tmp_path)
    assert "<table" in opened.document
    assert opened.requests == []
    assert opened.blocked == []
