"""A short file whose forecast is a combination: trained, resumed, exported, in an ensemble, with its attention."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import forecast
from forecast.export.__main__ import main as export
from forecast.predict.__main__ import main as predict
from forecast.predict.ensemble import Ensemble
from forecast.runs.run import Run
from forecast.runs.summary import best_line
from forecast.training.train import train
from tests.support.interruptions import assert_same, train_in_two_parts
from tests.support.small import HORIZON, quick, write


def short_table(rows: int = 420) -> pd.DataFrame:
    """Return a random walk, for which no forecast is surely better than the last value."""
    values = 40 + np.random.default_rng(1).standard_normal(rows).cumsum()
    return pd.DataFrame({"date": pd.date_range("2020-01-01", periods=rows, freq="h"), "flow": values})


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("combination")
    words = ["data=csv", f"data.path={write(folder / 'short.csv', short_table())}", "training.start_confidence=0.9"]
    words += ["model.linear_path=weighted", "model.encoder_layers=1"]
    return quick(folder / "outputs", *words)


@pytest.fixture(scope="module")
def whole(config: dict[str, Any]) -> tuple[Run, dict[str, Any]]:
    return train(config)


def test_the_last_line_says_what_the_forecast_is_made_of(whole: tuple[Run, dict[str, Any]]) -> None:
    start = whole[1]["linear_path_start"]
    assert start.count(" % ") >= 2
    assert best_line(whole[1]).endswith(f" Forecast = {start}.")


def test_intervals_are_calibrated_by_forecasts_that_their_windows_did_not_choose(
    whole: tuple[Run, dict[str, Any]],
) -> None:
    assert whole[1]["model"]["best_step"] == 0
    assert whole[1]["calibration"]["method"] in ("cross-fitting", "not selected")


def test_a_resumed_run_has_the_results_of_a_complete_run(
    config: dict[str, Any], whole: tuple[Run, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_same(*train_in_two_parts(config, tmp_path, 7, monkeypatch), whole)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["model.pt2", "model.onnx"])
def test_an_exported_file_forecasts_the_same(whole: tuple[Run, dict[str, Any]], tmp_path: Path, name: str) -> None:
    pytest.importorskip("onnxruntime") if name.endswith("onnx") else None
    assert export(["--run", str(whole[0].path), "--output", str(tmp_path / name)]) == 0
    if name.endswith("pt2"):
        file, run = (
            forecast.load(path).predict(short_table(), levels=[80]) for path in (tmp_path / name, whole[0].path)
        )
        pd.testing.assert_frame_equal(file, run, rtol=1e-5)


def test_an_ensemble_and_the_attention_take_it_as_it_is(
    config: dict[str, Any], whole: tuple[Run, dict[str, Any]], tmp_path: Path
) -> None:
    other, _ = train({**config, "seed": 2})
    alone = forecast.load(whole[0].path).predict(short_table())
    mean = Ensemble.load([whole[0].path, other.path]).predict(short_table())
    pd.testing.assert_frame_equal(mean, alone, rtol=1e-4)
    source = write(tmp_path / "short.csv", short_table())
    words = ["--run", str(whole[0].path), "--input", str(source), "--output", str(tmp_path / "f.csv")]
    assert predict([*words, "--attention", "probsparse"]) == 0
    assert len(pd.read_csv(tmp_path / "f.csv")) == HORIZON
