"""Which folder is resumed, which options may change, and what is refused."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from forecast.common.errors import InputError, Interrupted
from forecast.common.files import folder_lock, read_json, sha256
from forecast.data.datamodule import ForecastData
from forecast.data.settings import DataSettings
from forecast.data.sources import load_source
from forecast.runs.resume import start_state
from forecast.runs.run import MANIFEST, Run
from forecast.runs.settings import Settings
from forecast.training.fit import _fingerprint
from forecast.training.task import ForecastTask
from forecast.training.train import train
from tests.support.interruptions import assert_same, curve, interrupt, next_second
from tests.support.small import changed, hourly, quick, rewrite, snapshot, write


def test_a_named_folder_needs_no_other_option(stopped: Path, whole: tuple[Run, dict[str, Any]]) -> None:
    other = quick(stopped.parents[1], f"resume={stopped}", model="informer")
    run, result = train(other, overrides=[f"resume={stopped}"])
    assert run.path == stopped
    assert_same(run, result, whole)


def test_length_and_trainer_may_change(config: dict[str, Any], stopped: Path) -> None:
    next_second()
    composed = quick(stopped.parents[1], f"resume={stopped}", "training.max_steps=20", "trainer.log_every_n_steps=5")
    words = [f"resume={stopped}", "training.max_steps=20", "trainer.log_every_n_steps=5"]
    _, result = train(composed, overrides=words)
    assert result["model"]["steps"] == 20
    assert result["config"]["trainer"]["log_every_n_steps"] == 5
    assert result["config"]["model"] == config["model"]
    stored = read_json(stopped / "config.json")
    assert stored["training"]["max_steps"] == 20
    rates = [value for step, value in curve(Run(stopped), "train/learning_rate/linear_path") if step >= 7]
    assert rates[0] > rates[-1]


def test_a_trainer_preset_that_sets_the_length_is_refused(stopped: Path) -> None:
    words = [f"resume={stopped}", "trainer=smoke"]
    with pytest.raises(InputError, match=r"trainer=smoke: .* training.max_steps=30"):
        train(quick(stopped.parents[1], *words), overrides=words)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"seed": 2}, "seed is 1 there and 2 here"),
        ({"model__dropout": 0.1}, "model.dropout is 0.3 there and 0.1 here"),
        ({"data__rows": 800}, "data.rows is 700 there and 800 here"),
        ({"training__batch_size": 8}, "training.batch_size is 16 there and 8 here"),
        ({"attention": {"name": "mean"}}, "attention.name is full there and mean here"),
        ({"training__compile": True}, "training.compile is False there and True here"),
    ],
)
def test_any_other_change_is_refused_by_name(
    config: dict[str, Any], stopped: Path, change: dict[str, Any], line: str
) -> None:
    before = snapshot(stopped)
    assert before
    with pytest.raises(InputError, match=re.escape(line)):
        train(changed({**config, "resume": str(stopped)}, **change), overrides=["seed=2", f"resume={stopped}"])
    assert snapshot(stopped) == before


def test_only_typed_options_are_named(stopped: Path) -> None:
    """A named folder has other data than the defaults, which are composed where the command names no data."""
    words = [f"resume={stopped}", "training.batch_size=8"]
    composed = changed(quick(stopped.parents[1], *words, model="informer"), data__rows=800)
    line = r"holds another run: training\.batch_size is 16 there and 8 here: start a new run with resume=false$"
    with pytest.raises(InputError, match=line):
        train(composed, overrides=words)


def test_where_only_options_differ_that_nobody_typed_the_typed_ones_are_to_be_left_out(stopped: Path) -> None:
    words = [f"resume={stopped}", "training.batch_size=16", "training.progress=false"]
    composed = changed(quick(stopped.parents[1], *words, model="informer"), data__rows=800)
    with pytest.raises(InputError, match=r": leave out training\.batch_size=16, since a run has the options of its"):
        train(composed, overrides=words)


def test_changed_data_are_refused(config: dict[str, Any], stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from forecast.data import sources

    original = sources.simulate_transformer
    monkeypatch.setattr(sources, "simulate_transformer", lambda **options: original(**options) * 1.5)
    with pytest.raises(InputError, match="the data have changed"):
        train({**config, "output_dir": str(stopped.parents[1])})


def change_validation_cell(monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    """Change one value of the simulated data, in a row of the validation split."""
    from forecast.data import sources

    original = sources.simulate_transformer

    def simulate(**options: Any) -> pd.DataFrame:
        table = original(**options)
        table.loc[table.index[520], column] += 1
        return table

    monkeypatch.setattr(sources, "simulate_transformer", simulate)


def test_one_changed_validation_value_is_refused(
    config: dict[str, Any], stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_validation_cell(monkeypatch, "oil_temperature_c")
    with pytest.raises(InputError, match="the data have changed"):
        train({**config, "output_dir": str(stopped.parents[1])})


def test_one_changed_value_of_a_known_covariate_is_refused(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = changed(config, data__known_covariates=["active_power_kw"], output_dir=str(tmp_path))
    interrupt(monkeypatch, "training_step", lambda *_: True)
    with pytest.raises(Interrupted):
        train(config)
    change_validation_cell(monkeypatch, "active_power_kw")
    with pytest.raises(InputError, match="the data have changed"):
        train(config)


def test_another_version_of_the_holidays_is_no_change_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    config = quick(Path(), "data.holidays=DE")
    fingerprints = []
    for version in ("0.1", "0.2"):
        monkeypatch.setattr("holidays.__version__", version)
        source, sizes = load_source(DataSettings.parse(config["data"])), {"batch_size": 8, "evaluation_batch_size": 8}
        data = ForecastData(source, config["data"]["split"], context_length=24, horizon=12, seed=1, **sizes)
        assert data.contract().to_dict()["data"]["holidays"]["library"] == version
        fingerprints.append(_fingerprint(data))
    assert fingerprints[0] == fingerprints[1]


def test_auto_resumes_the_newest_of_equal_unfinished_runs(config: dict[str, Any], stopped: Path) -> None:
    newest, oldest = (stopped.with_name(year + stopped.name[4:]) for year in ("2999", "2000"))
    for folder in (newest, oldest):
        shutil.copytree(stopped, folder)
    with start_state(Settings.parse({**config, "output_dir": str(stopped.parents[1])})) as start:
        assert start.run == Run(newest)


def test_a_folder_in_use_is_refused(config: dict[str, Any], stopped: Path) -> None:
    with folder_lock(stopped), pytest.raises(InputError, match="another process"):
        train({**config, "output_dir": str(stopped.parents[1])})


@pytest.mark.parametrize("value", [True, 1, "", None])
def test_resume_is_false_auto_or_a_folder(config: dict[str, Any], value: Any) -> None:
    with pytest.raises(InputError, match="choose false, auto"):
        train({**config, "resume": value})


def test_a_folder_without_a_run_is_refused(config: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run folder"):
        train({**config, "resume": str(tmp_path)}, overrides=[])


def test_a_given_folder_is_created_resumed_and_read(
    config: dict[str, Any], whole: tuple[Run, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = changed(config, resume=False)
    folder = tmp_path / "sweep" / "seed-1"
    with monkeypatch.context() as patch:
        interrupt(patch, "training_step", lambda task, _: task.global_step == 5)
        with pytest.raises(Interrupted):
            train(config, folder=folder)
    run, result = train(config, folder=folder)
    assert run.path == folder
    assert_same(run, result, whole)
    assert train(config, folder=folder)[1]["test"] == result["test"]
    with pytest.raises(InputError, match="seed is 1 there and 2 here"):
        train({**config, "seed": 2}, folder=folder)
    with pytest.raises(InputError, match=r"training.max_steps is 12 there and 13 here"):
        train(changed(config, training__max_steps=13), folder=folder)


def test_another_length_is_another_run_unless_the_folder_is_given(config: dict[str, Any], stopped: Path) -> None:
    run, result = train(changed(config, output_dir=str(stopped.parents[1]), training__max_steps=4))
    assert run.path != stopped
    assert (result["model"]["steps"], result["config"]["training"]["max_steps"]) == (4, 4)
    with pytest.raises(InputError, match=r"training.max_steps is 12 there and 20 here"):
        train(changed(config, resume=False, training__max_steps=20), folder=stopped)


def test_a_length_below_the_finished_steps_is_refused(config: dict[str, Any], stopped: Path) -> None:
    words = [f"resume={stopped}", "training.max_steps=5"]
    composed = changed({**config, "resume": str(stopped)}, training__max_steps=5)
    before = snapshot(stopped)
    with pytest.raises(InputError, match="has made 7 steps already, more than the 5 requested"):
        train(composed, overrides=words)
    assert snapshot(stopped) == before


def test_a_run_that_now_ends_at_the_saved_step_scores_it_first(config: dict[str, Any], stopped: Path) -> None:
    words = [f"resume={stopped}", "training.max_steps=7"]
    composed = changed({**config, "resume": str(stopped)}, training__max_steps=7)
    run, result = train(composed, overrides=words)
    assert result["model"]["steps"] == 7
    validated = curve(run, "val/mse")  # steps are counted from 0
    assert validated[-1][0] == 6
    assert result["model"]["best_step"] == 1 + min((value, step) for step, value in validated)[1]


def test_a_trainer_option_keeps_the_other_options_of_the_folder(config: dict[str, Any], stopped: Path) -> None:
    path = stopped / "config.json"
    stored = json.loads(path.read_text())
    stored["trainer"]["deterministic"] = True
    rewrite(path, stored)
    words = [f"resume={stopped}", "trainer.log_every_n_steps=7"]
    composed = changed({**config, "resume": str(stopped)}, trainer__log_every_n_steps=7)
    try:
        _, result = train(composed, overrides=words)
    finally:
        torch.use_deterministic_algorithms(False)
    assert result["config"]["trainer"] == {**stored["trainer"], "log_every_n_steps": 7}


@pytest.mark.parametrize("content", ["{}", "[]", "no json", '{"training": {"precision": "x"}}'])
def test_a_folder_without_a_run_is_left_unchanged(config: dict[str, Any], tmp_path: Path, content: str) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.json").write_text(content)
    (folder / "model.safetensors").write_text("of the user")
    (folder / "forecast.xlsx").write_text("of the user")
    before = snapshot(folder)
    with pytest.raises(InputError, match="damaged"):
        train({**config, "resume": str(folder)}, overrides=[f"resume={folder}"])
    assert snapshot(folder) == before


def test_a_finished_run_without_a_manifest_is_left_unchanged(whole: tuple[Run, dict[str, Any]], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole[0].path, copy)
    (copy / MANIFEST).unlink()
    shutil.rmtree(copy / "checkpoints")
    before = snapshot(copy)
    with pytest.raises(InputError, match="no manifest and no checkpoint"):
        train({**whole[1]["config"], "resume": str(copy)}, overrides=[f"resume={copy}"])
    assert snapshot(copy) == before


def test_a_finished_run_on_a_changed_file_is_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "hours.csv", hourly())
    words = ["data=csv", f"data.path={source}", "training.max_steps=1", "resume=auto"]
    config = quick(tmp_path / "outputs", *words)
    train(config)
    write(source, hourly(seed=1))
    with pytest.raises(InputError, match="has changed since"):
        train(config)


def test_the_recorded_hash_is_that_of_the_file_as_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any]
) -> None:
    source = write(tmp_path / "hours.csv", hourly())
    before, end = sha256(source), ForecastTask.on_train_end

    def growing(self: ForecastTask) -> None:
        write(source, hourly(seed=1))
        end(self)

    monkeypatch.setattr(ForecastTask, "on_train_end", growing)
    _, result = train(quick(tmp_path / "outputs", "data=csv", f"data.path={source}", "training.max_steps=1"))
    assert sha256(source) != before
    assert result["data"]["sha256"] == before


def test_a_sweep_job_on_a_changed_file_names_the_cure(tmp_path: Path) -> None:
    source = write(tmp_path / "hours.csv", hourly())
    config = quick(tmp_path / "outputs", "data=csv", f"data.path={source}", "training.max_steps=1")
    train(config, folder=tmp_path / "job")
    write(source, hourly(seed=1))
    with pytest.raises(InputError, match=r"has changed since .*: remove that folder, or choose another sweep.name"):
        train(config, folder=tmp_path / "job")
    for name in ("manifest.json", "result.json"):
        (tmp_path / "job" / name).unlink()  # as if killed earlier
    with pytest.raises(InputError, match=r"restore them, or remove that folder, or choose another sweep.name"):
        train(config, folder=tmp_path / "job")


@pytest.mark.parametrize("name", ["result.json"])
def test_a_finished_run_without_a_result_is_damaged(
    whole: tuple[Run, dict[str, Any]], tmp_path: Path, name: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole[0].path, copy)
    (copy / name).unlink()
    with pytest.raises(InputError, match="damaged"):
        train({**whole[1]["config"], "resume": str(copy)}, overrides=[f"resume={copy}"])


@pytest.mark.parametrize(("group", "key"), [("data", "calendar"), ("model", "level"), ("training", "mixing_prior")])
def test_a_run_without_a_key_of_this_version_is_refused_with_the_cure(
    config: dict[str, Any], stopped: Path, group: str, key: str
) -> None:
    stored = json.loads((stopped / "config.json").read_text())
    del stored[group][key]
    rewrite(stopped / "config.json", stored)
    with pytest.raises(InputError, match=rf"config.json: has no {group}.{key}: .*: train it again$"):
        train({**config, "resume": str(stopped)}, overrides=[f"resume={stopped}"])
