"""Whole trainings on long tables, and the commands that take a panel or refuse it in one line."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.benchmark.__main__ import main as benchmark
from forecast.common.files import read_json, sha256
from forecast.predict.__main__ import predict
from forecast.predict.ensemble import load
from forecast.report.__main__ import main as report
from forecast.runs.run import Run
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.interruptions import assert_same, train_in_two_parts
from tests.support.panels import long_table, stores
from tests.support.small import QUICK, SMALL, quick, snapshot, write
from tests.support.sweeps import typed

exhaustive = pytest.mark.exhaustive


def retrained(panel_run: TinyRun, folder: Path, table: pd.DataFrame, *words: str) -> tuple[Run, dict[str, Any]]:
    """Train as for `panel_run`, on another table."""
    folder.mkdir(exist_ok=True)
    path = write(folder / "stores.csv", table)
    return train(quick(folder / "outputs", *panel_run.words, f"data.path={path}", *words))


@exhaustive
def test_rows_and_ids_in_another_order_give_the_same_weights(panel_run: TinyRun, tmp_path: Path) -> None:
    run, result = retrained(panel_run, tmp_path, stores().sample(frac=1, random_state=0))
    for name in ("model.safetensors", "calibration.safetensors", "series.parquet", "errors.parquet", "forecast.csv"):
        assert sha256(run.path / name) == sha256(panel_run.path / name), name
    assert result["test"] == panel_run.result["test"]


@exhaustive
@pytest.mark.parametrize(("missing", "value"), [("ffill", 1e9), ("interpolate", np.nan), ("mask", np.nan)])
def test_the_test_split_of_a_series_changes_neither_weights_nor_calibration(
    panel_run: TinyRun, missing: str, value: float, tmp_path: Path
) -> None:
    table, word = stores(), f"data.missing={missing}"
    clean, before = retrained(panel_run, tmp_path / "clean", table, word)
    test = (table["store"] == 4) & (table["date"] >= "2024-01-11 18:00") & table["sales"].notna()
    assert test.sum() > 12
    run, result = retrained(
        panel_run, tmp_path / "poisoned", table.assign(sales=table["sales"].mask(test, value)), word
    )
    for name in ("model.safetensors", "calibration.safetensors"):
        assert sha256(run.path / name) == sha256(clean.path / name), name
    assert result["validation"]["scaled"] == before["validation"]["scaled"]


@exhaustive
def test_a_panel_of_one_id_equals_the_table_without_it(tmp_path: Path) -> None:
    table, results = long_table({"a": 700}), []
    for name, changed in (("one", table), ("plain", table.drop(columns="unique_id"))):
        path = write(tmp_path / f"{name}.csv", changed)
        results.append(train(quick(tmp_path / name, "data=csv", f"data.path={path}")))
    (one, first), (plain, second) = results
    for name in ("model.safetensors", "calibration.safetensors", "errors.parquet", "forecast.csv"):
        assert sha256(one.path / name) == sha256(plain.path / name), name
    for part in ("validation", "test"):
        assert first[part] == second[part]


@exhaustive
def test_a_run_in_two_parts_equals_one_in_one(
    panel_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, result = train_in_two_parts(panel_run.config, tmp_path, 12, monkeypatch)
    assert_same(run, result, (Run(panel_run.path), panel_run.result))


def small_words(folder: Path, *words: str) -> list[str]:
    """Return the command line of `quick`."""
    return [*SMALL["patch_informer"], *QUICK, *words, f"output_dir={folder}"]


@exhaustive
def test_a_sweep_takes_a_panel_and_reports_it(panel_run: TinyRun, tmp_path: Path) -> None:
    words = small_words(tmp_path, *panel_run.words, "training.max_steps=4", "sweep.repeat_timing=0", "sweep.name=two")
    end = typed("-m", *words, "attention=full,mean")
    assert end.code == 0
    assert len(list((tmp_path / "sweeps" / "two").glob("*/result.json"))) == 2


@pytest.mark.slow
def test_an_ensemble_of_a_panel_forecasts_the_mean_of_its_runs(panel_run: TinyRun, tmp_path: Path) -> None:
    end = typed(*small_words(tmp_path, *panel_run.words), "training.max_steps=4", "ensemble=2", "sweep.name=two")
    assert end.code == 0, end.err.getvalue()
    folder = tmp_path / "sweeps" / "two"
    mean, table = load(folder), stores()
    one, two = (load(path.parent).predict(table, levels=[80]) for path in sorted(folder.glob("*/result.json")))
    found = mean.predict(table, levels=[80])
    for name in ("sales", "sales_lower_80", "sales_upper_80"):
        np.testing.assert_allclose(found[name], (one[name] + two[name]) / 2, atol=1e-4)
    assert not one["sales"].equals(two["sales"])
    scores = read_json(folder / "ensemble.json")
    assert scores["test"]["scaled"]["mse"] < sum(each["test"]["mse"] for each in scores["alone"])
    assert predict([folder], write(tmp_path / "s.csv", table), tmp_path / "f.csv") is None
    assert len(read_json(tmp_path / "f.json")["models"]) == 2


def test_a_report_reads_a_panel(panel_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(["--runs", str(panel_run.path), "--output", str(tmp_path / "report")]) == 0
    assert "Traceback" not in capsys.readouterr().err


def test_the_benchmark_of_latency_refuses_a_panel(
    panel_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(tmp_path)
    assert benchmark(["latency", "--run", str(panel_run.path), "--output", str(tmp_path / "times")]) == 2
    error = capsys.readouterr().err
    assert "a model of a long table" in error
    assert error.count("\n") == 1
    assert snapshot(tmp_path) == before
