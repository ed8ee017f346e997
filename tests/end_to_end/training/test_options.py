"""A training is reproducible, every option acts, and no loss that is not finite is kept."""

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from forecast import attention
from forecast.attention.full import FullAttention
from forecast.common.errors import InputError, NotFiniteError
from forecast.data.settings import DataSettings
from forecast.evaluation import trees
from forecast.evaluation.evaluate import evaluate
from forecast.model.informer import Informer
from forecast.runs.checkpoint import read_checkpoint
from forecast.runs.read import read_runs
from forecast.runs.run import Run
from forecast.runs.summary import print_table, summary, title
from forecast.training.task import ForecastTask
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.small import CONTEXT, HORIZON, QUICK, SMALL, changed, hourly, quick, write

SCORES = {"mse", "mae"}


def scores(result: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a result that a second run must reproduce exactly."""
    return {key: result[key] for key in ("validation", "test", "linear_path", "baselines", "model", "linear_fit")}


# --- reproducibility and options


def test_the_same_configuration_gives_identical_files(tiny_run: TinyRun, tmp_path: Path) -> None:
    torch.rand(7)  # earlier random draws must not matter
    run, result = train({**tiny_run.config, "output_dir": str(tmp_path)})
    assert scores(result) == scores(tiny_run.result)
    for name in ("model.safetensors", "calibration.safetensors", "forecast.csv", "errors.parquet"):
        assert (run.path / name).read_bytes() == (tiny_run.path / name).read_bytes()


def test_trees_are_a_row_and_change_no_forecast(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"ROWS": 2000, "TREES": 5, "MORE": 5}.items():
        monkeypatch.setattr(trees, name, value)
    config = {**tiny_run.config, "evaluation": {"baselines": ["trees"]}, "output_dir": str(tmp_path)}
    run, result = train(config)
    row = result["baselines"].pop("trees")
    assert row["test"]["mean_with_model"]["scaled"]["mse"] > 0
    assert row["fit"]["trees"] == 5
    assert result["baselines"] == tiny_run.result["baselines"]
    assert run.manifest()["validation_mse"]["trees"] == row["validation"]["scaled"]["mse"]
    for file in ("model.safetensors", "calibration.safetensors", "forecast.csv"):
        assert (run.path / file).read_bytes() == (tiny_run.path / file).read_bytes()


def test_another_seed_gives_other_scores_and_the_same_baselines(tiny_run: TinyRun, tmp_path: Path) -> None:
    _, result = train({**tiny_run.config, "output_dir": str(tmp_path), "seed": 2})
    assert result["test"]["scaled"] != tiny_run.result["test"]["scaled"]
    assert result["baselines"] == tiny_run.result["baselines"]


def test_a_harmful_training_returns_the_closed_form(config: dict[str, Any]) -> None:
    _, result = train(changed(config, optimizer__lr=1.0))
    assert result["model"]["best_step"] == 0
    for part in ("validation", "test"):
        assert result[part]["scaled"] == pytest.approx(result["linear_path"][part]["scaled"], rel=1e-6)
    assert result["linear_path_start"] == "ridge"


@pytest.mark.parametrize(("confidence", "replaced"), [(None, True), (0.9999, False)])
def test_only_a_significant_gain_replaces_the_starting_weights(
    config: dict[str, Any], confidence: float | None, replaced: bool
) -> None:
    _, result = train(changed(config, training__start_confidence=confidence))
    assert (result["model"]["best_step"] > 0) == replaced


def test_a_clear_gain_replaces_the_starting_weights_under_a_bound(tmp_path: Path) -> None:
    _, result = train(quick(tmp_path, "horizon=5", "training.start_confidence=0.9", "optimizer.lr=0.01"))
    assert result["model"]["best_step"] > 0


def test_training_changes_the_scores_of_the_linear_start(tiny_run: TinyRun) -> None:
    assert tiny_run.result["test"]["scaled"] != tiny_run.result["linear_path"]["test"]["scaled"]


def can_be_causal(mechanism: dict[str, Any]) -> bool:
    try:
        attention.build(**mechanism, num_heads=1, head_dim=4, causal=True, max_key_length=8)
    except InputError:
        return False
    return True


TRAINED_ELSEWHERE = ("full", "linear", "probsparse", "mean")
"""Mechanisms that other tests train in the first preset, as in a sweep."""


@pytest.mark.parametrize("model", ["patch_informer", pytest.param("informer", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.exhaustive if name in TRAINED_ELSEWHERE else ())
        for name in attention.available()
    ],
)
def test_each_mechanism_trains_in_each_preset(name: str, model: str, tmp_path: Path) -> None:
    config = quick(tmp_path, f"attention={name}", "training.max_steps=2", model=model)
    if model == "informer" and not can_be_causal(config["attention"]):
        config["decoder_attention"] = config["cross_attention"]
    run, result = train(config)
    assert result["model"]["steps"] == 2
    assert math.isfinite(result["test"]["scaled"]["mse"])
    assert result["linear_path"] is None or model == "patch_informer"
    assert isinstance(run.load_model(), Informer)


def test_a_model_without_a_linear_path_has_a_null_row(config: dict[str, Any], command: Any) -> None:
    run, result = train(changed(config, model__linear_path=False, training__max_steps=1))
    assert result["linear_path"] is None
    assert json.loads((run.path / "result.json").read_text())["linear_path"] is None


def test_a_series_shorter_than_a_season_has_no_seasonal_row(tmp_path: Path) -> None:
    table = hourly(400).assign(date=pd.date_range("2016-07-01", periods=400, freq="min"))
    source = write(tmp_path / "minutes.csv", table)
    _, result = train(quick(tmp_path / "outputs", "data=csv", f"data.path={source}", "training.max_steps=1"))
    assert result["baselines"]["seasonal_naive"] is None
    assert "skill" not in result["test"]


def test_constant_and_periodic_series_have_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = hourly(700)[["date"]].assign(load=0.0, oil=[float(hour % 24) for hour in range(700)])
    source = write(tmp_path / "exact.csv", table)
    _, result = train(quick(tmp_path / "outputs", "data=csv", f"data.path={source}", "training.max_steps=1"))
    assert result["baselines"]["seasonal_naive"]["test"]["scaled"]["mse"] == 0
    print_table(result)
    assert "seasonal naive" in capsys.readouterr().out


def test_each_loss_trains_a_different_model(config: dict[str, Any]) -> None:
    scores = [train({**config, "loss": loss})[1]["test"]["scaled"]["mse"] for loss in ("mse", "mae", "huber")]
    assert len(set(scores)) == 3


def test_max_steps_is_exact(config: dict[str, Any]) -> None:
    _, result = train(changed(config, training__max_steps=5))
    assert (result["model"]["steps"], result["status"]) == (5, "finished")


def test_max_epochs_counts_passes_over_the_training_windows_and_says_so_where_more_steps_were_asked_for(
    config: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    _, result = train(changed(config, training__max_steps=300, training__max_epochs=0.1))
    steps = round(0.1 * result["data"]["windows"]["train"] / 16)
    assert result["model"]["steps"] == steps
    assert f"training: {steps} steps (training.max_epochs=0.1 ends it; with null it makes 300), in " in (
        capsys.readouterr().out
    )


def test_max_time_ends_a_run_with_a_result(config: dict[str, Any]) -> None:
    config = changed(config, callbacks={}, training__max_epochs=None, training__max_steps=10_000)  # far off
    run, result = train(changed(config, training__max_time="00:00:00:01"))
    assert result["status"] == "out of time"
    assert 0 < result["model"]["steps"] < 10_000
    assert Run.open(run.path).load_model().linear_path is not None


def test_early_stopping_ends_a_run_without_improvement(config: dict[str, Any]) -> None:
    config = changed(config, callbacks__early_stopping__patience=1, training__validations_per_epoch=13)
    _, result = train(changed(config, training__max_steps=60, optimizer__lr=0.0, optimizer__weight_decay=0.0))
    assert result["status"] == "stopped early"
    assert result["model"]["steps"] < 10


def test_a_callback_can_be_removed(config: dict[str, Any]) -> None:
    config = changed(config, training__validations_per_epoch=13, training__max_steps=20, optimizer__lr=0.0)
    _, result = train({**config, "callbacks": {}})
    assert result["status"] == "finished"


def test_an_evaluation_stride_is_reported_everywhere(tmp_path: Path) -> None:
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


def test_without_a_test_split_validation_is_scored_under_its_name(tmp_path: Path) -> None:
    words = ["data.split={train: 0.8, validation: 0.2, test: 0}", "training.max_steps=1"]
    run, result = train(quick(tmp_path, *words))
    assert result["data"]["scored_split"] == "validation"
    assert result["test"]["scaled"] == result["validation"]["scaled"]
    assert f"all {result['data']['windows']['validation']:,} validation windows" in title(result)
    assert "no test split: these windows selected the weights" in summary(result)
    held_out = result["validation"]["intervals"]["coverage_80"]
    assert result["test"]["intervals"] == result["validation"]["intervals"]  # not those that these windows calibrated
    assert f"On held-out windows of the validation split, 80 % intervals cover {100 * held_out:.1f} %" in summary(
        result
    )
    with pytest.raises(InputError, match="a report compares scores on a test split, and no run there has one"):
        read_runs([run.path])


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
        result = evaluate(lambda batch: network(*batch[:4]), data.parts["test"], size).sums.scaled()
        for name in SCORES:
            assert result[name] == pytest.approx(tiny_run.result["test"]["scaled"][name], rel=1e-6)


# --- losses that are not finite


def poison(monkeypatch: pytest.MonkeyPatch, step: int) -> list[dict[str, torch.Tensor]]:
    """Make the loss NaN from `step` on; return the weights before the update of that step."""
    weights: list[dict[str, torch.Tensor]] = []
    original = ForecastTask.training_step

    def bad(self: ForecastTask, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = original(self, batch, batch_idx)
        if self.global_step < step:
            return loss
        weights.append({name: tensor.clone() for name, tensor in self.state_dict().items()})
        weights.append(self.state_dict())  # views, which show the weights after the run
        self._last_loss = loss.detach() * torch.nan
        return loss * torch.nan

    monkeypatch.setattr(ForecastTask, "training_step", bad)
    return weights


def test_a_loss_that_is_not_finite_stops_before_the_update(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = poison(monkeypatch, 3)
    with pytest.raises(NotFiniteError, match=r"^step 3: ") as caught:
        train(config)
    before, after = weights
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


def test_a_gradient_that_is_not_finite_stops_the_run(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
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
