"""A run with a map of each series and a response to known inputs: trained, resumed, exported, and forecast."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import forecast
from forecast.evaluation.linear_start import OWN
from forecast.export.__main__ import main as export
from forecast.runs.run import Run
from forecast.training.train import train
from tests.support.interruptions import assert_same, train_in_two_parts
from tests.support.small import HORIZON, quick, write


def laws(rows: int = 700) -> pd.DataFrame:
    """Return two series that follow the step before last with opposite signs, and answer to a known column."""
    random = np.random.default_rng(0)
    values, heat = np.zeros((rows, 2)), random.standard_normal(rows)
    for row in range(2, rows):
        values[row] = np.array([0.9, -0.9]) * values[row - 2] + 0.3 * random.standard_normal(2)
    dates = pd.date_range("2020-01-01", periods=rows, freq="h")
    return pd.DataFrame({"date": dates, "one": values[:, 0] + heat, "two": values[:, 1] - heat, "heat": heat})


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("series")
    source = write(folder / "hours.csv", laws())
    words = ["data=csv", f"data.path={source}", "data.targets=[one,two]", "data.known_covariates=[heat]"]
    words += ["model.path_weights=series", "model.response_width=8", "model.linear_path=weighted", "loss=quantile"]
    words += ["training.start_confidence=null", "training.max_steps=12", "training.validations_per_epoch=8"]
    return quick(folder / "outputs", *words)


@pytest.fixture(scope="module")
def whole(config: dict[str, Any]) -> tuple[Run, dict[str, Any]]:
    return train(config)


def test_the_result_names_the_maps_of_the_series(whole: tuple[Run, dict[str, Any]]) -> None:
    _, result = whole
    assert result["linear_path_start"] == OWN
    path, ridge = (row["test"]["scaled"]["mse"] for row in (result["linear_path"], result["baselines"]["linear"]))
    assert path < ridge


def test_a_resumed_run_has_the_results_of_a_complete_run(
    config: dict[str, Any], whole: tuple[Run, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_same(*train_in_two_parts(config, tmp_path, 7, monkeypatch), whole)


@pytest.mark.exhaustive
def test_an_exported_file_forecasts_the_same(whole: tuple[Run, dict[str, Any]], tmp_path: Path) -> None:
    assert export(["--run", str(whole[0].path), "--output", str(tmp_path / "model.pt2")]) == 0
    table = laws()
    past, known = table[:-HORIZON], table[["date", "heat"]][-HORIZON:]
    paths = (tmp_path / "model.pt2", whole[0].path)
    file, run = (forecast.load(path).predict(past, known, levels=[50, 80]) for path in paths)
    pd.testing.assert_frame_equal(file, run, rtol=1e-5)
    assert len(file) == HORIZON
