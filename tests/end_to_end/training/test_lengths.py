"""The first command on an own table: its lengths follow from the table, in every command."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.plan import planner
from forecast.plan.__main__ import main as plan
from forecast.plan.messages import Answer, Request
from forecast.predict.ensemble import load
from forecast.runs.run import CONFIG
from forecast.training.train import train
from tests.plan.made import measured
from tests.support.small import SMALL, compose, write

Command = Callable[..., tuple[int, str, str]]

WIDTH = [*SMALL["patch_informer"][:3], "trainer.accelerator=cpu", "training.progress=false", "training.max_steps=2"]


@pytest.fixture
def monthly(tmp_path: Path) -> Path:
    month = np.arange(120)
    dates = pd.date_range("2010-01-01", periods=120, freq="MS")
    values = 50 + month / 10 + 8 * np.sin(2 * np.pi * month / 12) + np.random.default_rng(0).normal(size=120)
    return write(tmp_path / "my.csv", pd.DataFrame({"date": dates, "sales": values.round(2)}))


def chosen(config: dict[str, Any]) -> list[int]:
    return [config["context_length"], config["horizon"], config["model"]["patch_length"], config["model"]["stride"]]


def test_a_monthly_table_trains_and_resumes_with_lengths_that_are_printed_and_kept(
    command: Command, monthly: Path
) -> None:
    words = ["data=csv", f"data.path={monthly}", *WIDTH]
    code, printed, _ = command(*words)
    assert code == 0
    line = "my: context_length=24 horizon=6 model.patch_length=6 model.stride=6: chosen for 120 rows of step MS"
    assert printed.splitlines().count(line) == 1
    (run,) = (path.parent for path in Path("outputs").glob(f"*/*/{CONFIG}"))
    stored = json.loads((run / CONFIG).read_text(encoding="utf-8"))
    assert chosen(stored) == [24, 6, 6, 6]
    forecast = load(run).predict(pd.read_csv(monthly, index_col="date", parse_dates=True), levels=[80])
    assert list(forecast.index.strftime("%Y-%m")) == [f"2020-0{month}" for month in range(1, 7)]

    code, printed, _ = command(*words, "resume=auto")
    assert (code, "already finished" in printed) == (0, True)
    code, _, error = command(*words, f"resume={run}", "horizon=3")
    assert code == 2
    assert "horizon is 6 there and 3 here" in error

    table = pd.read_csv(monthly)
    longer = pd.DataFrame({"date": pd.date_range("2010-01-01", periods=240, freq="MS"), "sales": [*table["sales"]] * 2})
    write(monthly, longer)
    config = {**compose(*words), "resume": str(run), "output_dir": "outputs"}
    with pytest.raises(InputError, match="holds another run: horizon is 6 there and 12 here"):
        train(config)


def test_jobs_and_an_ensemble_on_an_own_table_share_its_lengths(command: Command, monthly: Path) -> None:
    words = ["data=csv", f"data.path={monthly}", *WIDTH]
    code, _, error = command("-m", "attention=full,mean", "sweep.name=two", "sweep.repeat_timing=0", *words)
    assert (code, error) == (0, "")
    jobs = [json.loads(path.read_text(encoding="utf-8")) for path in Path("outputs/sweeps/two").glob(f"*/{CONFIG}")]
    assert [chosen(job) for job in jobs] == [[24, 6, 6, 6]] * 2
    code, printed, _ = command("ensemble=2", *words)
    assert code == 0
    assert "Ensemble folder" in printed


def test_a_plan_measures_the_lengths_of_the_table(
    monthly: Path, monkeypatch: pytest.MonkeyPatch, signals_and_threads: None, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[dict[str, Any]] = []

    def request_child(request: Request, label: str, limit: float) -> Answer:
        asked.append(request.config)
        return measured()

    monkeypatch.setattr(planner, "request_child", request_child)
    words = ["data=csv", f"data.path={monthly}", "--mechanisms", "full", "mean", "--rounds", "1", "--threads", "1"]
    assert plan([*words, "--quiet", "--memory-gib", "2"]) == 0
    assert [chosen(config) for config in asked] == [[24, 6, 6, 6]] * 2
    assert "look-back 24, horizon 6" in capsys.readouterr().out
