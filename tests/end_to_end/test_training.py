import json
import math
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from forecast import attention
from forecast.attention.full import FullAttention
from forecast.common.errors import InputError, NotFiniteError
from forecast.common.files import read_json
from forecast.common.processes import SIGNALS
from forecast.data.settings import DataSettings
from forecast.evaluation.evaluate import evaluate
from forecast.model.informer import Informer
from forecast.runs.checkpoint import newest_checkpoint, read_checkpoint
from forecast.runs.run import Architecture, Run
from forecast.runs.settings import TRAINER_KEYS_OF_OURS
from forecast.runs.summary import print_table, summary, title
from forecast.training import command_line
from forecast.training.task import ForecastTask
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.small import CONTEXT, HORIZON, QUICK, ROOT, SMALL, changed, hourly, quick, snapshot, write

pytestmark = pytest.mark.usefixtures("undrawn")

SCORES = {"mse", "mae"}


def scores(result: dict[str, Any]) -> dict[str, Any]:
    """Return what a second run has to give again, digit for digit."""
    return {key: result[key] for key in ("validation", "test", "linear_path", "baselines", "model", "linear_fit")}


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """Return the configuration of a run of 12 steps into an empty folder."""
    return quick(tmp_path / "outputs")


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    """Yield what runs `python train.py <words>` in this process: exit code, standard output, error stream."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["train.py", *words])
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        captured = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, captured.out, captured.err

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


# --- what a run leaves


def test_the_run_folder_is_whole(tiny_run: TinyRun) -> None:
    names = {path.name for path in tiny_run.path.iterdir()}
    files = {"model.safetensors", "config.json", "manifest.json", "result.json", "errors.parquet"}
    assert names >= files | {"calibration.safetensors", "forecast.png", "forecast.csv", "checkpoints"}
    assert any(name.startswith("events.out.tfevents") for name in names)
    kept = {path.name for path in (tiny_run.path / "checkpoints").iterdir()}
    assert kept == {"step-000000040.ckpt", "step-000000035.ckpt"}
    assert not [path for path in tiny_run.path.rglob("*") if path.suffix == ".tmp"]


def test_the_result_has_the_keys_that_reports_read(tiny_run: TinyRun) -> None:
    result = json.loads((tiny_run.path / "result.json").read_text())
    facts = {"command", "config", "seed", "status", "device", "versions", "commit"}
    assert set(result) >= facts | {"data", "model", "validation", "test", "linear_path", "baselines", "speed"}
    assert set(result["data"]) >= {"name", "rows", "channels", "frequency", "windows"}
    assert set(result["model"]) >= {"parameters", "steps"}
    assert set(result["baselines"]) == {"last_value", "seasonal_naive", "linear"}
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


def test_the_result_holds_what_train_gave_and_was_given(tiny_run: TinyRun) -> None:
    result = json.loads((tiny_run.path / "result.json").read_text())
    assert scores(result) == scores(tiny_run.result)
    config = {**tiny_run.config, "data": {**tiny_run.config["data"], "name": tiny_run.source.stem}}  # by its file
    assert result["config"] == config
    assert read_json(tiny_run.path / "config.json") == config
    assert (result["status"], result["seed"], result["model"]["steps"]) == ("finished", 1, 40)


def test_the_skill_is_against_the_season_and_another_against_the_last_value(tiny_run: TinyRun) -> None:
    for part in ("validation", "test"):
        scores = tiny_run.result[part]
        for key, row in (("skill", "seasonal_naive"), ("skill_last_value", "last_value")):
            reference = tiny_run.result["baselines"][row][part]["scaled"]["mse"]
            assert scores[key] == pytest.approx(1 - scores["scaled"]["mse"] / reference)


def test_every_window_of_every_part_is_counted(tiny_run: TinyRun) -> None:
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


def test_scores_in_original_units_are_those_of_each_series_in_its_unit(tiny_run: TinyRun) -> None:
    naive = tiny_run.result["baselines"]["seasonal_naive"]["test"]["scaled"]["mse"]
    shares = [1 - row["skill"] for row in tiny_run.result["test"]["by_series"].values()]
    mses = [row["mse"] for row in tiny_run.result["test"]["by_series"].values()]
    assert sum(mse / share for mse, share in zip(mses, shares, strict=True)) / len(mses) == pytest.approx(naive)
    rows, spread = tiny_run.result["test"]["by_series"], tiny_run.table.iloc[:489].std(ddof=0, numeric_only=True)
    for name in ("load", "oil"):
        assert rows[name]["mae_original"] == pytest.approx(rows[name]["mae"] * spread[name], rel=1e-9)
    mean = (rows["load"]["mse_original"] + rows["oil"]["mse_original"]) / 2
    assert tiny_run.result["test"]["original"]["mse"] == pytest.approx(mean, rel=1e-9)


def test_relative_scores_are_those_of_the_rows_of_the_file_itself(tiny_run: TinyRun) -> None:
    values = tiny_run.table[["load", "oil"]].to_numpy()
    origins = range(560, 700 - HORIZON + 1)
    future = np.stack([values[origin : origin + HORIZON] for origin in origins])
    last = np.stack([values[origin - 1 : origin] for origin in origins])
    error, naive = np.abs(last - future), np.abs(values[24:489] - values[: 489 - 24]).mean(0)
    found = tiny_run.result["baselines"]["last_value"]["test"]["original"]
    assert found["mase"] == pytest.approx((error.mean((0, 1)) / naive).mean(), rel=1e-4)
    assert found["wape"] == pytest.approx(100 * error.sum() / np.abs(future).sum(), rel=1e-4)
    assert found["smape"] == pytest.approx((200 * error / (np.abs(last) + np.abs(future))).mean(), rel=1e-4)
    steps = tiny_run.result["test"]["by_step"]
    assert np.mean([step["mase"] for step in steps]) == pytest.approx(tiny_run.result["test"]["original"]["mase"])
    assert max(step["skill"] for step in steps) >= tiny_run.result["test"]["skill"]


def test_the_saved_weights_are_those_of_the_best_validation(tiny_run: TinyRun) -> None:
    last = newest_checkpoint(tiny_run.path / "checkpoints")
    assert last is not None
    best = last["best"]
    saved = load_file(tiny_run.path / "model.safetensors")
    assert saved
    for name, tensor in saved.items():
        assert torch.equal(tensor, best["weights"][f"network.{name}"])
    assert tiny_run.result["model"]["best_step"] == best["step"]


def test_the_calibration_has_the_quantiles_of_every_step_and_series(tiny_run: TinyRun) -> None:
    quantiles = load_file(tiny_run.path / "calibration.safetensors")["quantiles"]
    assert quantiles.shape[1:] == (HORIZON, 2)
    assert bool((quantiles.diff(dim=0) >= 0).all())
    assert float(quantiles[-1].min()) > float(quantiles[0].max())


def test_two_runs_of_the_same_second_have_folders_of_their_own(tmp_path: Path) -> None:
    assert len({Run.create(tmp_path, "csv").path for _ in range(5)}) == 5


# --- the same again, and what acts


def test_the_same_configuration_gives_the_same_digits(tiny_run: TinyRun, tmp_path: Path) -> None:
    torch.rand(7)  # what was drawn before must not matter
    run, result = train({**tiny_run.config, "output_dir": str(tmp_path)})
    assert scores(result) == scores(tiny_run.result)
    for name in ("model.safetensors", "calibration.safetensors", "forecast.csv", "errors.parquet"):
        assert (run.path / name).read_bytes() == (tiny_run.path / name).read_bytes()


def test_another_seed_gives_other_scores_and_the_same_baselines(tiny_run: TinyRun, tmp_path: Path) -> None:
    _, result = train({**tiny_run.config, "output_dir": str(tmp_path), "seed": 2})
    assert result["test"]["scaled"] != tiny_run.result["test"]["scaled"]
    assert result["baselines"] == tiny_run.result["baselines"]


def test_a_training_that_only_does_harm_gives_back_the_closed_form(config: dict[str, Any]) -> None:
    _, result = train(changed(config, optimizer__lr=1.0))
    assert result["model"]["best_step"] == 0
    for part in ("validation", "test"):
        assert result[part]["scaled"] == pytest.approx(result["linear_path"][part]["scaled"], rel=1e-6)
    assert result["linear_path_start"] == "ridge"


@pytest.mark.parametrize(("confidence", "left"), [(None, True), (0.9999, False)])
def test_the_start_is_left_only_where_validation_is_sure_enough(
    config: dict[str, Any], confidence: float | None, left: bool
) -> None:
    _, result = train(changed(config, training__start_confidence=confidence))
    assert (result["model"]["best_step"] > 0) == left


def test_training_moves_the_model_away_from_its_linear_path(tiny_run: TinyRun) -> None:
    assert tiny_run.result["test"]["scaled"] != tiny_run.result["linear_path"]["test"]["scaled"]


def can_be_causal(mechanism: dict[str, Any]) -> bool:
    try:
        attention.build(**mechanism, num_heads=1, head_dim=4, causal=True, max_key_length=8)
    except InputError:
        return False
    return True


@pytest.mark.parametrize("model", ["patch_informer", "informer"])
@pytest.mark.parametrize("name", attention.available())
def test_each_mechanism_trains_in_each_preset(name: str, model: str, tmp_path: Path) -> None:
    config = quick(tmp_path, f"attention={name}", "training.max_steps=2", model=model)
    if model == "informer" and not can_be_causal(config["attention"]):
        config["decoder_attention"] = config["cross_attention"]
    run, result = train(config)
    assert result["model"]["steps"] == 2
    assert math.isfinite(result["test"]["scaled"]["mse"])
    assert result["linear_path"] is None or model == "patch_informer"
    assert isinstance(run.load_model(), Informer)


def test_without_a_linear_path_its_row_is_null(config: dict[str, Any], command: Any) -> None:
    run, result = train(changed(config, model__linear_path=False, training__max_steps=1))
    assert result["linear_path"] is None
    assert json.loads((run.path / "result.json").read_text())["linear_path"] is None


def test_a_series_shorter_than_a_season_has_no_seasonal_row(tmp_path: Path) -> None:
    table = hourly(400).assign(date=pd.date_range("2016-07-01", periods=400, freq="min"))
    source = write(tmp_path / "minutes.csv", table)
    _, result = train(quick(tmp_path / "outputs", "data=csv", f"data.path={source}", "training.max_steps=1"))
    assert result["baselines"]["seasonal_naive"] is None
    assert "skill" not in result["test"]


def test_a_series_that_repeats_itself_or_never_moves_has_a_table_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = hourly(700)[["date"]].assign(load=0.0, oil=[float(hour % 24) for hour in range(700)])
    source = write(tmp_path / "exact.csv", table)
    _, result = train(quick(tmp_path / "outputs", "data=csv", f"data.path={source}", "training.max_steps=1"))
    assert result["baselines"]["seasonal_naive"]["test"]["scaled"]["mse"] == 0
    print_table(result)
    assert "seasonal naive" in capsys.readouterr().out


def test_each_loss_trains_another_model(config: dict[str, Any]) -> None:
    found = {loss: train({**config, "loss": loss})[1]["test"]["scaled"]["mse"] for loss in ("mse", "mae", "huber")}
    assert len(set(found.values())) == 3


def test_max_steps_is_counted_exactly(config: dict[str, Any]) -> None:
    _, result = train(changed(config, training__max_steps=5))
    assert (result["model"]["steps"], result["status"]) == (5, "finished")


def test_max_epochs_is_passes_over_the_training_windows(config: dict[str, Any]) -> None:
    _, result = train(changed(config, training__max_steps=None, training__max_epochs=0.1))
    assert result["model"]["steps"] == round(0.1 * result["data"]["windows"]["train"] / 16)


def test_max_time_ends_a_run_that_is_whole(config: dict[str, Any]) -> None:
    config = changed(config, callbacks={}, training__max_epochs=None, training__max_steps=10_000)  # far off
    run, result = train(changed(config, training__max_time="00:00:00:01"))
    assert result["status"] == "out of time"
    assert 0 < result["model"]["steps"] < 10_000
    assert Run.open(run.path).load_model().linear_path is not None


def test_early_stopping_ends_a_run_that_gets_no_better(config: dict[str, Any]) -> None:
    config = changed(config, callbacks__early_stopping__patience=1, training__validations_per_epoch=13)
    _, result = train(changed(config, training__max_steps=60, optimizer__lr=0.0, optimizer__weight_decay=0.0))
    assert result["status"] == "stopped early"
    assert result["model"]["steps"] < 10


def test_a_callback_can_be_taken_out(config: dict[str, Any]) -> None:
    config = changed(config, training__validations_per_epoch=13, training__max_steps=20, optimizer__lr=0.0)
    _, result = train({**config, "callbacks": {}})
    assert result["status"] == "finished"


def test_windows_scored_one_in_five_are_counted_as_that_wherever_they_are_shown(tmp_path: Path) -> None:
    words = ["training.evaluation_stride=5", "training.first_origin=60", "training.max_steps=1"]
    run, result = train(quick(tmp_path, *words))
    data = result["data"]
    errors = pd.read_parquet(run.path / "errors.parquet")
    for part in ("validation", "test"):
        origins = errors.loc[errors["part"] == part, "origin"]
        assert len(origins) == data["windows"][part]
        assert set(origins.diff().dropna()) == {pd.Timedelta(hours=5)}
    assert data["evaluation_stride"] == 5
    counted = f"{data['windows']['test']:,} test windows, 1 in 5"
    assert counted in title(result)
    assert counted in summary(result)
    assert "all" not in title(result)
    hours = pd.Timestamp(data["first_test_target"]) - pd.Timestamp(data["first_train_target"])
    assert hours == pd.Timedelta(hours=560 + (140 - HORIZON) % 5 - 60)  # the last window is kept


def test_scores_do_not_depend_on_the_evaluation_batch_size(tiny_run: TinyRun) -> None:
    from forecast.data.datamodule import ForecastData
    from forecast.data.sources import load_source

    data = ForecastData(
        load_source(DataSettings.parse(tiny_run.config["data"])),
        tiny_run.config["data"]["split"],
        context_length=CONTEXT,
        horizon=HORIZON,
        batch_size=16,
        evaluation_batch_size=64,
        seed=1,
    )
    network = Run.open(tiny_run.path).load_model()
    for size in (1, 7, 64):
        found = evaluate(lambda batch: network(*batch[:4]), data.parts["test"], size).sums.scaled()
        for name in SCORES:
            assert found[name] == pytest.approx(tiny_run.result["test"]["scaled"][name], rel=1e-6)


# --- losses that are not finite


def poison(monkeypatch: pytest.MonkeyPatch, step: int) -> list[dict[str, torch.Tensor]]:
    """Make the loss NaN from `step` on; give the weights as they are before that step's update."""
    kept: list[dict[str, torch.Tensor]] = []
    original = ForecastTask.training_step

    def bad(self: ForecastTask, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = original(self, batch, batch_idx)
        if self.global_step < step:
            return loss
        kept.append({name: tensor.clone() for name, tensor in self.state_dict().items()})
        kept.append(self.state_dict())  # the weights themselves, to be looked at after the run has ended
        self._last_loss = loss.detach() * torch.nan
        return loss * torch.nan

    monkeypatch.setattr(ForecastTask, "training_step", bad)
    return kept


def test_a_loss_that_is_not_finite_stops_before_the_update(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = poison(monkeypatch, 3)
    with pytest.raises(NotFiniteError, match=r"^step 3: ") as caught:
        train(config)
    before, after = kept
    assert "\n" not in str(caught.value)
    for name, tensor in after.items():
        assert torch.equal(tensor, before[name]), name


def test_no_checkpoint_holds_weights_that_are_not_finite(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    poison(monkeypatch, 5)
    with pytest.raises(NotFiniteError):
        train(changed(config, training__validations_per_epoch=13))  # a checkpoint every other step
    written = sorted(tmp_path.rglob("*.ckpt"))
    assert written
    for path in written:
        state = read_checkpoint(path)["network"]
        assert all(bool(torch.isfinite(tensor).all()) for tensor in state.values())
    assert not list(tmp_path.rglob("manifest.json"))


def test_a_gradient_that_is_not_finite_stops_the_run_too(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def infinite(self: FullAttention, *arguments: Any) -> torch.Tensor:
        output = attend(self, *arguments)
        output.register_hook(lambda gradient: gradient * math.inf)
        return output

    attend = FullAttention.attend
    monkeypatch.setattr(FullAttention, "attend", infinite)
    with pytest.raises(NotFiniteError, match="gradient norm"):
        train(changed(config, model__linear_path=False))


def test_a_loss_that_is_not_finite_is_exit_code_3_and_one_line(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch, 0)
    code, _, error = command("data.rows=700", *SMALL["patch_informer"], *QUICK)
    assert code == 3
    assert error.startswith("error: step 0: not finite")
    assert error.count("\n") == 1


# --- what is refused, and how

WRONG: list[dict[str, Any]] = [
    {"horizon": "abc"}, {"horizon": 0}, {"horizon": 5000}, {"context_length": 1.5}, {"context_length": True},
    {"context_length": 5000}, {"seed": -1}, {"seed": "x"}, {"seed": 2**32}, {"loss": "foo"}, {"loss": 5},
    {"output_dir": 5}, {"foo": 1}, {"callbacks": None}, {"logger": 5}, {"decoder_attention": 5},
    {"model__name": "foo"}, {"model__d_model": 0}, {"model__d_model": "x"}, {"model__dropout": 2},
    {"model__dropout": 0.999999},
    {"model__dropout": math.nan}, {"model__num_heads": 3}, {"model__patch_length": 1000}, {"model__channels": "foo"},
    {"model__linear_path": "foo"}, {"model__linear_path": True}, {"model__head_dim": "x"}, {"model__foo": 1},
    {"training__max_steps": 0}, {"training__max_steps": 1.5}, {"training__max_epochs": -1},
    {"training__max_epochs": math.nan}, {"training__max_epochs": math.inf}, {"training__batch_size": "x"},
    {"training__batch_size": 0}, {"training__evaluation_batch_size": 0}, {"training__precision": "fp8"},
    {"training__precision": 16}, {"training__max_time": "soon"}, {"training__max_time": 5},
    {"training__max_time": "00:00:00:00"}, {"training__max_grad_norm": 0}, {"training__progress": 5},
    {"training__validations_per_epoch": 0}, {"training__validations_per_epoch": math.nan}, {"training__foo": 1},
    {"optimizer__lr": "abc"}, {"optimizer__lr": -1}, {"optimizer__lr": math.nan}, {"optimizer__foo": 1},
    {"scheduler__warmup_fraction": 2}, {"scheduler__warmup_fraction": 1.0}, {"scheduler__warmup_fraction": "x"},
    {"scheduler__foo": 1}, {"scheduler___target_": "os.makedirs"}, {"optimizer___target_": "os.makedirs"},
    {"data__rows": "abc"}, {"data__rows": 0}, {"data__rows": 5}, {"data__rows": 1.5}, {"data__seed": "x"},
    {"data__seed": -1}, {"data__name": 5}, {"data__source": "foo"}, {"data__path": "x.csv"}, {"data__split": 5},
    {"data__split__train": 0.9}, {"data__split__train": "x"}, {"data__split__foo": 1}, {"data__targets": "load"},
    {"data__targets": ["nope"]}, {"data__targets": []}, {"data__past_covariates": "load"},
    {"data__past_covariates": ["nope"], "data__targets": None}, {"data__known_covariates": ["x"]},
    {"data__calendar": "hour_of_day"}, {"data__calendar": ["tide"]}, {"data__calendar": ["minute_of_hour"]},
    {"data__calendar": ["hour_of_day", "hour_of_day"]},
    {"data__frequency": "h"},
    {"data__time_column": "date"}, {"attention__name": "os.system"}, {"attention__name": "../base"},
    {"attention__name": "base"}, {"attention__foo": 1}, {"attention__implementation": "foo"},
    {"trainer__devices": 0}, {"trainer__devices": "auto"}, {"trainer__devices": "x"}, {"trainer__accelerator": "tpu"},
    {"trainer__num_nodes": 2}, {"trainer__num_nodes": 0}, {"trainer__strategy": "fsdp"},
    {"training__batch_size": 17, "trainer__devices": 2},
    {"trainer__log_every_n_steps": "x"}, {"trainer__log_every_n_steps": 0}, {"trainer__foo": 1},
    {"trainer__limit_val_batches": 2}, {"trainer__limit_train_batches": 2}, {"trainer__accumulate_grad_batches": 2},
    {"trainer__fast_dev_run": True}, {"trainer__num_sanity_val_steps": 2}, {"trainer__benchmark": "x"},
    *({f"trainer__{key}": 1} for key in TRAINER_KEYS_OF_OURS),
]  # fmt: skip


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return one configuration that `WRONG` is put into: composing takes longer than refusing."""
    return quick(tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("values", WRONG, ids=lambda values: ",".join(f"{k}={v}" for k, v in values.items()))
def test_a_wrong_value_is_refused_in_one_line_that_names_it(
    plain: dict[str, Any], values: dict[str, Any], tmp_path: Path
) -> None:
    wrong = changed({**plain, "output_dir": str(tmp_path / "outputs")}, **values)
    with pytest.raises(InputError) as caught:
        train(wrong)
    name, *_ = values
    group, *keys = name.split("__")
    assert (keys[0] if keys and keys[0] != "name" else group) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "key", ["horizon", "data", "callbacks", "scheduler", "training__progress", "trainer__devices", "data__split__test"]
)
def test_a_key_that_is_missing_is_named(plain: dict[str, Any], key: str, tmp_path: Path) -> None:
    wrong = changed({**plain, "output_dir": str(tmp_path / "outputs")})
    *groups, last = key.split("__")
    node = wrong
    for group in groups:
        node = node[group]
    del node[last]
    with pytest.raises(InputError, match=last):
        train(wrong)
    assert list(tmp_path.iterdir()) == []


def test_the_cosine_schedule_refuses_a_rise_of_less_than_no_steps(plain: dict[str, Any], tmp_path: Path) -> None:
    scheduler = {"_target_": "forecast.training.schedule.cosine", "warmup_steps": -1, "final_factor": 0.0}
    with pytest.raises(InputError, match="warmup_steps=-1"):
        train({**plain, "scheduler": scheduler, "output_dir": str(tmp_path / "outputs")})
    assert list(tmp_path.iterdir()) == []


def test_a_callback_that_cannot_be_is_refused_before_there_is_a_folder(plain: dict[str, Any], tmp_path: Path) -> None:
    wrong = changed({**plain, "output_dir": str(tmp_path / "outputs")}, callbacks__early_stopping__patience="x")
    with pytest.raises(InputError, match="patience"):
        train(wrong)
    assert list(tmp_path.iterdir()) == []


def test_an_output_folder_that_is_a_file_is_refused(plain: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    for folder in ("taken", "taken/deeper"):
        with pytest.raises(InputError, match="taken is a file"):
            train({**plain, "output_dir": str(tmp_path / folder)})
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["attention=nope"], "full"),
        (["foo=1"], "foo"),
        (["attention.factor=9"], "factor"),
        (["horizon="], "horizon"),
        (["data=csv"], "data.path"),
        (["data=csv", "data.path=my file [1].csv"], "'data.path=\"my file [1].csv\"'"),
        (["data=csv", 'data.path="my file [1].csv"'], "my file [1].csv: no such file"),
        (["horizon=abc"], "horizon=abc"),
        (["+trainer.precision=16"], "training.precision"),
    ],
)
def test_train_says_what_is_wrong_in_one_line_with_exit_code_2(
    command: Any, words: list[str], said: str, tmp_path: Path
) -> None:
    code, out, error = command("data.rows=700" if "data=csv" not in words else "seed=1", *words)
    assert (code, out) == (2, "")
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert said in error
    assert list(tmp_path.iterdir()) == []


def test_train_prints_the_table_and_two_commands_that_can_be_typed(command: Any, tmp_path: Path) -> None:
    code, out, error = command("data.rows=700", *SMALL["patch_informer"], *QUICK, "output_dir='my runs'")
    assert (code, error) == (0, "")
    for row in ("model", "its linear path alone", "last value", "seasonal naive", "linear (ridge)"):
        assert row in out
    assert "all 129 test windows" in out
    (line,) = [line for line in out.splitlines() if line.startswith("forecast:")]
    words = shlex.split(line)[4:]
    from forecast.predict.__main__ import main

    assert main(words) == 0
    assert len(pd.read_csv(tmp_path / "forecast.csv")) == HORIZON


@pytest.mark.parametrize(("raised", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_an_interrupted_training_ends_with_the_signals_exit_code(
    command: Any, monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: int
) -> None:
    def interrupt(*_: Any) -> None:
        raise raised

    monkeypatch.setattr(ForecastTask, "training_step", interrupt)
    assert command("data.rows=700", *SMALL["patch_informer"], *QUICK)[0] == code


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_training_saves_the_step_and_says_how_to_go_on(
    command: Any, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    original = ForecastTask.training_step
    words = ("data.rows=700", *SMALL["patch_informer"], *QUICK)

    def interrupted(self: ForecastTask, batch: Any, batch_idx: int) -> Any:
        if self.global_step == 5:
            signal.raise_signal(number)
        return original(self, batch, batch_idx)

    monkeypatch.setattr(ForecastTask, "training_step", interrupted)
    ended, _, errors = command(*words)
    assert ended == code
    assert errors.startswith("stopped: interrupted at step 6 of 12, which is saved: resume=")
    assert errors.count("\n") == 1
    monkeypatch.setattr(ForecastTask, "training_step", original)
    ended, output, _ = command(errors.split()[-1])
    assert ended == 0
    assert "going on after step 6" in output


@pytest.mark.slow
def test_a_process_of_its_own_refuses_in_one_line_too(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, str(ROOT / "train.py"), "attention=nope"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: ")
    assert ended.stderr.count("\n") == 1
    assert snapshot(tmp_path) == {}


def test_an_architecture_is_rebuilt_from_its_own_plain_values(tiny_run: TinyRun) -> None:
    manifest = Run.open(tiny_run.path).manifest()
    architecture = Architecture.from_dict(manifest["architecture"])
    built = {name: tensor.shape for name, tensor in architecture.build().state_dict().items()}
    assert built == {name: tensor.shape for name, tensor in load_file(tiny_run.path / "model.safetensors").items()}
    wider = replace(architecture, options={**architecture.options, "d_model": 16})
    assert {name: tensor.shape for name, tensor in wider.build().state_dict().items()} != built
