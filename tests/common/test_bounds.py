"""False sizes in a file are refused at once, before anything of that size is allocated."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from forecast.common.bounds import Room
from forecast.common.errors import InputError
from forecast.common.files import DEEPEST, MOST_BYTES, read_json
from forecast.export.parity import random_series
from forecast.model.presets import Mechanisms, Sizes
from forecast.predict.ensemble import load
from forecast.report.comparisons import _read as read_errors
from forecast.runs.read import FinishedRun
from forecast.runs.resume import start_state
from forecast.runs.run import Architecture, Run
from forecast.runs.settings import Settings
from tests.conftest import TinyRun
from tests.support.contracts import with_contract
from tests.support.small import SMALL, compose, quick

FULL = compose()["attention"]
SECONDS = 10.0
"""Seconds of processor time within which a false size is found."""


def made_run(folder: Path, model: str = "patch_informer", **lies: Any) -> Run:
    """Write a run folder with the weights of a small model, whose manifest contradicts them, and return it."""
    words = [f"model={model}", *SMALL[model]]
    options = compose(*words)["model"]
    preset = options.pop("name")
    architecture = Architecture(preset, options, Mechanisms(FULL, FULL, FULL), Sizes(1, 0, 4, 48, 12))
    folder.mkdir()
    run = Run(folder)
    run.save_weights(architecture.build())
    scores = {"scores": torch.zeros(3, 12, 1, 1), "trained": torch.zeros(0, dtype=torch.float64)}
    save_file(scores, folder / "calibration.safetensors")
    facts = asdict(architecture)
    for key, value in lies.items():
        group, _, name = key.partition("__")
        facts[group][name] = value
    run.seal({"architecture": facts})
    return run


@pytest.mark.parametrize("model", SMALL)
def test_an_honest_run_is_read(model: str, tmp_path: Path) -> None:
    assert isinstance(made_run(tmp_path / "run", model).load_model(), torch.nn.Module)


@pytest.mark.parametrize("value", [100, 100_000, 10**9, 2**70, -5])
@pytest.mark.parametrize(
    ("model", "key"),
    [
        *(("patch_informer", f"options__{name}") for name in ("encoder_layers", "decoder_layers", "d_model", "d_ff")),
        *(("patch_informer", f"options__{name}") for name in ("num_heads", "head_dim", "patch_length", "stride")),
        *(("patch_informer", f"sizes__{name}") for name in Sizes.__annotations__),
        *(("informer", f"sizes__{name}") for name in ("horizon", "num_targets", "num_known")),
        *(("informer", f"options__{name}") for name in ("encoder_layers", "decoder_layers", "d_ff")),
    ],
)
def test_a_size_that_contradicts_the_weights_is_found_at_once(model: str, key: str, value: int, tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", model, **{key: value})
    began = time.process_time()
    with pytest.raises(InputError) as caught:
        run.load_model()
    assert time.process_time() - began < SECONDS
    assert "\n" not in str(caught.value)


def test_a_model_is_built_within_the_size_of_its_weights() -> None:
    with Room(12):
        assert torch.nn.Linear(2, 4).weight.shape == (4, 2)
    for make in (lambda: torch.zeros(3, 5), lambda: torch.randn((3, 5)), lambda: torch.empty(size=(15,))):
        with Room(14), pytest.raises(ValueError, match="larger than its weights"):
            make()
    assert torch.zeros(3, 5).shape == (3, 5)


@pytest.mark.parametrize("name", ["config.json", "result.json", "manifest.json"])
def test_text_that_is_too_long_or_too_deep_is_an_error_of_one_line(name: str, tmp_path: Path) -> None:
    for content in (
        "[" * 100_000,
        '{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1),
        " " * MOST_BYTES + "{}",
        f"[{10**400}]",
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(InputError, match=r"is damaged$") as caught:
            read_json(tmp_path / name)
        assert "\n" not in str(caught.value)
    (tmp_path / name).write_text("[" * DEEPEST + "]" * DEEPEST)
    assert isinstance(read_json(tmp_path / name), list)


@pytest.mark.parametrize(("key", "value"), [("devices", 10**6), ("num_nodes", 2)])
def test_a_folder_starts_no_more_processes_than_the_machine_has_cores(key: str, value: int, tmp_path: Path) -> None:
    config = quick(tmp_path)
    (tmp_path / "run").mkdir()
    stored = {**config, "trainer": {**config["trainer"], key: value}}
    (tmp_path / "run" / "config.json").write_text(json.dumps(stored))
    word = f"resume={tmp_path / 'run'}"
    named = Settings.parse(compose(word))
    with pytest.raises(InputError, match=rf"add trainer\.{key}="), start_state(named, overrides=[word]):
        pass
    words = [word, f"trainer.{key}=1"]
    settings = Settings.parse({**stored, "resume": str(tmp_path / "run")})
    with start_state(settings, overrides=words) as start:
        assert start.run is not None


def test_a_table_of_errors_that_would_fill_the_memory_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 200_000
    table = pd.DataFrame({"part": "test", "origin": pd.date_range("2016", periods=rows, freq="min"), "mse": 1.0})
    table.to_parquet(tmp_path / "errors.parquet")
    run = FinishedRun("run", tmp_path, {"data": {"windows": {"test": rows}}}, "")
    assert len(read_errors(run)) == rows
    monkeypatch.setenv("FORECAST_MAX_TABLE_MIB", "1")
    assert read_errors(run) == "errors.parquet is not readable"


def test_random_rows_are_drawn_for_windows_of_a_bounded_length_alone(tiny_run: TinyRun) -> None:
    forecaster = load(tiny_run.path)
    with pytest.raises(InputError, match="give rows with --input"):
        random_series(with_contract(forecaster, context_length=10**6))
