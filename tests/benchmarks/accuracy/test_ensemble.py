import shutil
from pathlib import Path

import pytest
import torch

from benchmarks.accuracy.ensemble import score_runs
from benchmarks.accuracy.recipes import Cell
from benchmarks.accuracy.record import row_of
from benchmarks.run_data import data_of
from forecast.common.errors import InputError
from forecast.runs.run import Run
from tests.conftest import LIGHTNING, TinyRun
from tests.support.small import rewrite

pytestmark = [pytest.mark.filterwarnings(text) for text in LIGHTNING]


@pytest.fixture(autouse=True)
def data_folder(tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the runs' folder the data folder: a run folder may name no file elsewhere."""
    monkeypatch.setenv("FORECAST_DATA_DIR", str(tiny_run.source.parent))


@pytest.fixture
def pair(tiny_run: TinyRun, second_run: Path) -> list[Run]:
    """Return two runs that differ only in their seed."""
    return [Run(tiny_run.path), Run(second_run)]


def test_the_score_is_that_of_the_mean_forecast_on_every_window(pair: list[Run], tiny_run: TinyRun) -> None:
    result = score_runs(pair)
    run = Run(tiny_run.path)
    windows = data_of(run).parts["test"]
    batch = windows.batch(torch.arange(len(windows)))
    with torch.inference_mode():
        first, second = (run.load_model()(*batch[:4]) for run in pair)
    assert float((first - second).abs().max()) > 1e-3
    error = ((first + second) / 2 - batch.future).double()
    assert result["test"]["scaled"]["mse"] == pytest.approx(float(error.square().mean()), rel=1e-6)
    assert result["test"]["scaled"]["mae"] == pytest.approx(float(error.abs().mean()), rel=1e-6)
    assert result["data"]["windows"]["test"] == len(windows)
    assert result["model"]["parameters"] == 2 * tiny_run.result["model"]["parameters"]
    assert result["speed"]["fit_seconds"] > tiny_run.result["speed"]["fit_seconds"]


def test_a_run_averaged_with_itself_scores_as_it_does_alone(tiny_run: TinyRun) -> None:
    result = score_runs([Run(tiny_run.path)] * 2)
    for part in ("validation", "test"):
        for unit in ("scaled", "original"):
            assert result[part][unit] == pytest.approx(tiny_run.result[part][unit], rel=1e-5)


def test_runs_that_differ_in_more_than_their_seed_are_not_averaged(tiny_run: TinyRun, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(tiny_run.path, other)
    config = {**tiny_run.config, "seed": 2, "context_length": 60}
    rewrite(other / "config.json", config)
    with pytest.raises(InputError, match=r"other: differs from .* in more than the seed: context_length is 60 there"):
        score_runs([Run(tiny_run.path), Run(other)])


def test_a_real_result_fills_every_column_but_the_step_of_a_single_run(pair: list[Run], tiny_run: TinyRun) -> None:
    single = row_of(Cell("etth1", 96, "full", "1", "main"), tiny_run.result)
    assert [column for column, text in single.items() if not text] == []
    together = row_of(Cell("etth1", 96, "full", "1+2", "ensemble"), score_runs(pair))
    assert [column for column, text in together.items() if not text] == ["best_step"]
    assert together["command"].startswith("python -m benchmarks.accuracy --recipe ensemble")
