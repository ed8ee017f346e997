"""The benchmark of what is known ahead: its commands, its pairs and its tables, on made runs."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import known_ahead
from benchmarks.known_ahead import ARMS, SEEDS, TASKS, Cell, compare, main, tables
from forecast.common.conf_files import load_choice
from forecast.common.errors import InputError
from forecast.data.settings import DataSettings
from tests.support.covering import covering
from tests.support.small import ROOT, compose


@pytest.mark.parametrize(("task", "arm"), covering(TASKS, ARMS, every=len(TASKS)))
def test_every_command_composes_and_without_knows_the_calendar_alone(task: str, arm: str) -> None:
    config = compose(*Cell(task, arm, 2).words)
    data = DataSettings.parse(config["data"])
    assert bool(data.known_covariates) is (arm != "without")
    assert config["seed"] == 2
    if task != "gefcom2014":
        recipe = load_choice(ROOT / "conf/experiment/known_ahead.yaml")
        assert config["training"]["batch_size"] == recipe.training.batch_size
    everywhere = config["cross_attention"]["name"] == "mean"
    assert everywhere is (arm == "mean everywhere")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make finished runs whose window errors differ by 10 % on average, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    known_ahead.RUNS.parent.mkdir(parents=True)
    generator = np.random.default_rng(0)
    base = 1 + 0.1 * generator.random(600)
    for seed in SEEDS[:2]:
        for arm, factor in (("full", 0.9), ("mean", 1.0)):
            folder = Cell("epf_np", arm, seed).folder / "epf_np" / "run"
            folder.mkdir(parents=True)
            for name in ("result.json", "manifest.json"):
                (folder / name).write_text(json.dumps({}))
            origin = pd.date_range("2024-01-01", periods=600, freq="h")
            mae = factor * base + 0.01 * generator.standard_normal(600)
            parts = [pd.DataFrame({"part": part, "origin": origin, "mae": mae}) for part in ("validation", "test")]
            pd.concat(parts).to_parquet(folder / "errors.parquet")
    return tmp_path


def test_a_pair_says_how_much_lower_full_is(made: Path) -> None:
    pair = compare("epf_np", "mean")
    assert pair is not None
    assert (pair["seeds"], pair["windows"]) == (2, 600)
    assert pair["mean"] == pytest.approx(10, abs=0.3)
    assert pair["low"] < 10 < pair["high"] < 11
    assert compare("epf_np", "linear") is None


def test_several_finished_runs_of_a_cell_are_refused(made: Path) -> None:
    run = Cell("epf_np", "mean", 1).run
    assert run is not None
    later = run.with_name("later")
    later.mkdir()
    (later / "manifest.json").write_text("{}")
    with pytest.raises(InputError, match="holds 2 finished runs: delete those that are not to count"):
        compare("epf_np", "mean")


def test_a_cell_with_other_words_has_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Cell("epf_np", "mean", 1).folder
    monkeypatch.setitem(known_ahead.TASKS, "epf_np", (*TASKS["epf_np"], "loss=huber"))  # type: ignore[arg-type]
    assert Cell("epf_np", "mean", 1).folder != before


def test_the_time_limit_has_its_exit_code(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_ahead.time, "monotonic", iter([0.0, 120.0]).__next__)
    assert main(["--tasks", "epf_np", "--arms", "full", "--seeds", "1", "--minutes", "1"]) == 5


def test_only_missing_runs_are_commands(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pd.DataFrame({"task": ["epf_np"], "arm": ["full"], "seed": [1]}).to_csv(known_ahead.RUNS, index=False)
    assert main(["--tasks", "epf_np", "--arms", "full", "without", "--seeds", "1", "--dry-run"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("python train.py data=epf_np experiment=known_ahead horizon=24")
    assert "'data.known_covariates=[]'" in line


def test_the_tables_compare_with_and_without() -> None:
    numbers = {"test_mae": 0.3, "ridge_test_mae": 0.5, "path_test_mae": 0.4}
    rows = [{"task": "epf_np", "arm": "full", "seed": seed, **numbers} for seed in (1, 2)]
    rows += [
        {"task": "epf_np", "arm": "without", "seed": 1, "test_mae": 0.6, "ridge_test_mae": 0.75, "path_test_mae": 0.7}
    ]
    rows += [{"task": "epf_np", "arm": "mean", "seed": 1, **numbers}]
    pairs = [{"task": "epf_np", "arm": "mean", "mean": 1.23, "low": -0.5, "high": 3.0}]
    text = tables(pd.DataFrame(rows), pd.DataFrame(pairs))
    assert "| `epf_np`, 24 | 0.7500 | 0.6000 | 0.5000 | 0.3000 | 1 | -50.0 % | -40.0 % |" in text
    assert "| `epf_np` | `mean` | 0.3000 | 1 | 1.2 % | -0.5 to 3.0 % |" in text
    assert "| `epf_np` | linear path of `full` | 0.4000 | 2 |" in text
