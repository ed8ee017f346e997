"""The benchmark of intervals: its commands compose, and its comparison is that of the stored scores."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import intervals
from benchmarks.intervals import ARMS, TASKS, Cell, compare, tables
from forecast.common.errors import InputError
from forecast.evaluation import evaluate
from forecast.runs.run import Run
from forecast.runs.settings import Settings
from tests.conftest import TinyRun
from tests.report.made import result_of, write_run
from tests.support.covering import covering
from tests.support.small import compose

pytest.importorskip("crepes")


@pytest.mark.parametrize(("task", "arm"), covering(TASKS, ARMS, every=len(ARMS)))
def test_every_command_composes(task: tuple[str, int], arm: str) -> None:
    data, horizon = task
    cell = Cell(data, horizon, arm)
    settings = Settings.parse(compose(*cell.words))
    assert settings.horizon == horizon
    assert settings.data.name == data


def test_the_comparison_has_the_models_own_errors(tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORECAST_DATA_DIR", str(tiny_run.source.parent))
    facts = compare(Run.open(tiny_run.path))
    for percent in (80, 95):
        for kind in ("plain", "crepes"):
            low, mean, high = (
                facts[f"{kind}_{name}_{percent}"] for name in ("lowest_step", "coverage", "highest_step")
            )
            assert 0 < low <= mean <= high <= 1
        assert facts[f"plain_width_{percent}"] > 0
    ours = tiny_run.result["test"]["intervals"]["sql"]
    assert facts["plain_sql"] == pytest.approx(ours, rel=0.5)
    for module in (intervals, evaluate):  # a split of many windows is scored in pieces
        monkeypatch.setattr(module, "MAX_RESIDUALS", 7 * 12 * 2)
    monkeypatch.setattr(evaluate, "LEAST_KEPT", 1)
    assert compare(Run.open(tiny_run.path)) == pytest.approx(facts, rel=1e-5)


def test_a_record_is_continued_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(intervals, "RECORD", tmp_path / "intervals.csv")
    row = {"data": "etth1", "horizon": 96, "arm": "defaults"}
    numbers = {
        f"{kind}_{score}_{percent}": 0.8
        for kind in ("ours", "plain", "crepes")
        for score in ("coverage", "width", "lowest_step", "highest_step")
        for percent in (80, 95)
    }
    held_out = {f"held_out_coverage_{percent}": 0.79 for percent in (80, 95)}
    losses = {"ours_sql": 0.7, "plain_sql": 0.8, "ridge_sql": 0.75, "ridge_plain_sql": 0.9, "naive_sql": np.nan}
    pd.DataFrame([{**row, **numbers, **held_out, **losses}]).to_csv(tmp_path / "intervals.csv", index=False)
    assert intervals.main(["--tasks", "etth1:96", "etth2:96", "--dry-run"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("python train.py data=etth2 horizon=96 ")
    text = tables(intervals.read())
    assert "| `etth1`, 96 | 80.0 % | 80.0 % to 80.0 % | 0.800 |" in text
    assert "-22.2 %" in text


def test_two_finished_runs_in_one_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "FOLDER", tmp_path)
    cell = Cell("etth1", 96, "defaults")
    assert cell.run is None
    for name in ("first", "second"):
        write_run(cell.folder / "etth1" / name, result_of())
        if name == "first":
            assert cell.run == cell.folder / "etth1" / name
    with pytest.raises(InputError, match="holds 2 finished runs"):
        cell.run  # noqa: B018
