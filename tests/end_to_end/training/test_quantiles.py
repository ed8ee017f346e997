"""A run with loss=quantile: trained, resumed, calibrated, exported, and forecast."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import forecast
from forecast.common.errors import InputError
from forecast.export.__main__ import main as export
from forecast.runs.run import Run
from forecast.training.train import train
from tests.support.boards import events
from tests.support.interruptions import assert_same, train_in_two_parts
from tests.support.small import HORIZON, compose, hourly, quick, write

WORDS = ["loss=quantile", "training.validations_per_epoch=8", "training.max_steps=12", "optimizer.lr=0.01"]
WORDS += ["model.encoder_layers=1"]  # a layer takes seconds to export


@pytest.fixture(scope="module", params=["patch_informer", pytest.param("informer", marks=pytest.mark.exhaustive)])
def config(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("quantiles")
    source = write(folder / "hours.csv", hourly())
    words = ["data=csv", f"data.path={source}", "data.past_covariates=[air]", *WORDS]
    return quick(folder / "outputs", *words, model=request.param)


@pytest.fixture(scope="module")
def whole(config: dict[str, Any]) -> tuple[Run, dict[str, Any]]:
    return train(config)


def test_the_result_has_the_levels_and_scores_of_its_quantiles(whole: tuple[Run, dict[str, Any]]) -> None:
    _, result = whole
    assert result["calibration"]["quantiles"] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert result["calibration"]["method"] == "cross-fitting"
    for part in (result["validation"], result["test"]):
        assert 0 < part["intervals"]["coverage_80"] < 1
        assert part["intervals"]["coverage_95"] is None  # beyond the trained levels
    assert 0 < result["test"]["intervals"]["sql"] < result["baselines"]["last_value"]["test"]["intervals"]["sql"]


def test_early_stopping_follows_the_quantile_loss_which_selects_the_step(whole: tuple[Run, dict[str, Any]]) -> None:
    scalars = events(whole[0].path)
    losses, selection = (
        [point.value for point in scalars.Scalars(name)] for name in ("val/quantile_loss", "val/selection")
    )
    assert len(losses) > 1
    assert selection == losses
    assert compose()["callbacks"]["early_stopping"]["monitor"] == "val/selection"


def test_a_resumed_run_has_the_results_of_a_complete_run(
    config: dict[str, Any], whole: tuple[Run, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, result = train_in_two_parts(config, tmp_path, 7, monkeypatch)
    assert_same(run, result, whole)
    assert (run.path / "calibration.safetensors").read_bytes() == (
        whole[0].path / "calibration.safetensors"
    ).read_bytes()


def test_trained_and_interpolated_levels_do_not_cross_and_wider_ones_are_refused(
    whole: tuple[Run, dict[str, Any]],
) -> None:
    forecaster = forecast.load(whole[0].path)
    table = forecaster.predict(hourly(), levels=[20, 50, 75, 80])
    for name in ("load", "oil"):
        order = [f"{name}_lower_{level}" for level in (80, 75, 50, 20)]
        order += [name, *(f"{name}_upper_{level}" for level in (20, 50, 75, 80))]
        assert (np.diff(table[order].to_numpy(), axis=1) >= 0).all()
    with pytest.raises(InputError, match=r"^levels: the 95 % interval .* is outside the trained quantiles 0.1 to 0.9"):
        forecaster.predict(hourly(), levels=[95])


@pytest.mark.exhaustive
def test_an_exported_file_forecasts_the_same_quantiles(whole: tuple[Run, dict[str, Any]], tmp_path: Path) -> None:
    assert export(["--run", str(whole[0].path), "--output", str(tmp_path / "model.pt2")]) == 0
    table = hourly()
    file, run = (
        forecast.load(path).predict(table, levels=[50, 80]) for path in (tmp_path / "model.pt2", whole[0].path)
    )
    pd.testing.assert_frame_equal(file, run, rtol=1e-5)
    assert len(file) == HORIZON
