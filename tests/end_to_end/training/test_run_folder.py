"""The files of a run folder."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from forecast.common.files import read_json
from forecast.runs.checkpoint import newest_checkpoint
from forecast.runs.run import Architecture, Run
from tests.conftest import TinyRun
from tests.support.small import CONTEXT, HORIZON

SCORES = {"mse", "mae"}


def scores(result: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a result that a second run must reproduce exactly."""
    return {key: result[key] for key in ("validation", "test", "linear_path", "baselines", "model", "linear_fit")}


def test_the_run_folder_has_all_files(tiny_run: TinyRun) -> None:
    names = {path.name for path in tiny_run.path.iterdir()}
    files = {"model.safetensors", "config.json", "manifest.json", "result.json", "errors.parquet"}
    assert names >= files | {"calibration.safetensors", "forecast.png", "forecast.csv", "checkpoints"}
    assert any(name.startswith("events.out.tfevents") for name in names)
    checkpoints = {path.name for path in (tiny_run.path / "checkpoints").iterdir()}
    assert checkpoints == {"step-000000040.ckpt", "step-000000035.ckpt"}
    assert not [path for path in tiny_run.path.rglob("*") if path.suffix == ".tmp"]


def test_the_result_has_the_keys_that_reports_read(tiny_run: TinyRun) -> None:
    result = json.loads((tiny_run.path / "result.json").read_text())
    facts = {"command", "config", "seed", "status", "device", "versions", "commit"}
    assert set(result) >= facts | {"data", "model", "validation", "test", "linear_path", "baselines", "speed"}
    assert set(result["data"]) >= {"name", "rows", "channels", "frequency", "windows"}
    assert set(result["model"]) >= {"parameters", "steps"}
    assert set(result["baselines"]) == {"training_mean", "last_value", "seasonal_naive", "linear"}
    for row in (result, result["linear_path"], *result["baselines"].values()):
        for part in ("validation", "test"):
            assert set(row[part]["scaled"]) >= SCORES | {"rmse"}
            assert set(row[part]["original"]) >= SCORES | {"rmse", "smape", "wape", "mase"}
    assert len(result["test"]["by_step"]) == HORIZON
    assert set(result["test"]["by_step"][0]) >= {
        "mse",
        "mae_original",
        "rmse_original",
        "smape",
        "wape",
        "mase",
        "skill",
    }
    assert set(result["test"]["by_series"]) == {"load", "oil"}
    speed = {"train_windows_per_s", "inference_windows_per_s", "step_ms_p50", "step_ms_p95", "data_wait_share"}
    more = {"arithmetic_share", "peak_memory_mib", "fit_seconds", "flops_per_window", "logging_share"}
    assert set(result["speed"]) >= speed | more


def test_the_result_has_the_scores_and_the_configuration_of_the_training(tiny_run: TinyRun) -> None:
    result = json.loads((tiny_run.path / "result.json").read_text())
    assert scores(result) == scores(tiny_run.result)
    config = {
        **tiny_run.config,
        "data": {**tiny_run.config["data"], "name": tiny_run.source.stem},
    }  # its file
    assert result["config"] == config
    assert read_json(tiny_run.path / "config.json") == config
    assert (result["status"], result["seed"], result["model"]["steps"]) == ("finished", 1, 40)


def test_the_skills_compare_with_seasonal_naive_and_last_value(tiny_run: TinyRun) -> None:
    for part in ("validation", "test"):
        scores = tiny_run.result[part]
        for key, row in (("skill", "seasonal_naive"), ("skill_last_value", "last_value")):
            reference = tiny_run.result["baselines"][row][part]["scaled"]["mse"]
            assert scores[key] == pytest.approx(1 - scores["scaled"]["mse"] / reference)


def test_every_window_of_every_split_is_scored(tiny_run: TinyRun) -> None:
    errors = pd.read_parquet(tiny_run.path / "errors.parquet")
    date = tiny_run.table["date"]
    wanted = {"train": 489 - CONTEXT - HORIZON + 1, "validation": 71 - HORIZON + 1, "test": 140 - HORIZON + 1}
    assert tiny_run.result["data"]["windows"] == wanted
    for part, first in (("validation", 489), ("test", 560)):
        origins = errors.loc[errors["part"] == part, "origin"]
        assert list(origins) == list(date.iloc[first : first + wanted[part]])
        for name in SCORES:
            mean = float(errors.loc[errors["part"] == part, name].mean())
            assert mean == pytest.approx(tiny_run.result[part]["scaled"][name], rel=1e-9)


def test_scores_in_original_units_are_scaled_per_series(tiny_run: TinyRun) -> None:
    naive = tiny_run.result["baselines"]["seasonal_naive"]["test"]["scaled"]["mse"]
    shares = [1 - row["skill"] for row in tiny_run.result["test"]["by_series"].values()]
    mses = [row["mse"] for row in tiny_run.result["test"]["by_series"].values()]
    assert sum(mse / share for mse, share in zip(mses, shares, strict=True)) / len(mses) == pytest.approx(naive)
    rows, spread = tiny_run.result["test"]["by_series"], tiny_run.table.iloc[:489].std(ddof=0, numeric_only=True)
    for name in ("load", "oil"):
        assert rows[name]["mae_original"] == pytest.approx(rows[name]["mae"] * spread[name], rel=1e-9)
    mean = (rows["load"]["mse_original"] + rows["oil"]["mse_original"]) / 2
    assert tiny_run.result["test"]["original"]["mse"] == pytest.approx(mean, rel=1e-9)


def test_relative_scores_equal_a_computation_from_the_file(tiny_run: TinyRun) -> None:
    values = tiny_run.table[["load", "oil"]].to_numpy()
    origins = range(560, 700 - HORIZON + 1)
    future = np.stack([values[origin : origin + HORIZON] for origin in origins])
    last = np.stack([values[origin - 1 : origin] for origin in origins])
    error, naive = np.abs(last - future), np.abs(values[24:489] - values[: 489 - 24]).mean(0)
    scores = tiny_run.result["baselines"]["last_value"]["test"]["original"]
    assert scores["mase"] == pytest.approx((error.mean((0, 1)) / naive).mean(), rel=1e-4)
    assert scores["wape"] == pytest.approx(100 * error.sum() / np.abs(future).sum(), rel=1e-4)
    assert scores["smape"] == pytest.approx((200 * error / (np.abs(last) + np.abs(future))).mean(), rel=1e-4)
    steps = tiny_run.result["test"]["by_step"]
    assert np.mean([step["mase"] for step in steps]) == pytest.approx(tiny_run.result["test"]["original"]["mase"])
    assert max(step["skill"] for step in steps) >= tiny_run.result["test"]["skill"]


def test_the_saved_weights_have_the_best_validation_score(tiny_run: TinyRun) -> None:
    last = newest_checkpoint(tiny_run.path / "checkpoints")
    assert last is not None
    best = last["best"]
    saved = load_file(tiny_run.path / "model.safetensors")
    assert saved
    for name, tensor in saved.items():
        assert torch.equal(tensor, best["weights"][f"network.{name}"])
    assert tiny_run.result["model"]["best_step"] == best["step"]


def test_the_calibration_has_sorted_scores_per_step_and_series(tiny_run: TinyRun) -> None:
    scores = load_file(tiny_run.path / "calibration.safetensors")["scores"]
    assert scores.shape[1:] == (HORIZON, 2, 1)
    assert len(scores) == tiny_run.result["calibration"]["windows"]
    assert bool((scores.diff(dim=0) >= 0).all())
    assert float(scores[0].min()) >= 0


def test_runs_of_the_same_second_have_different_folders(tmp_path: Path) -> None:
    assert len({Run.create(tmp_path, "csv").path for _ in range(5)}) == 5


def test_an_architecture_is_rebuilt_from_its_plain_values(tiny_run: TinyRun) -> None:
    manifest = Run.open(tiny_run.path).manifest()
    architecture = Architecture.from_dict(manifest["architecture"])
    built = {name: tensor.shape for name, tensor in architecture.build().state_dict().items()}
    assert built == {name: tensor.shape for name, tensor in load_file(tiny_run.path / "model.safetensors").items()}
    wider = replace(architecture, options={**architecture.options, "d_model": 16})
    assert {name: tensor.shape for name, tensor in wider.build().state_dict().items()} != built
