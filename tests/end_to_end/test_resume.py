import json
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from forecast.common.errors import InputError, Interrupted
from forecast.common.files import claimed, read_json, sha256
from forecast.runs.checkpoint import MAGIC, checkpoints, read_checkpoint
from forecast.runs.resume import differences
from forecast.runs.run import MANIFEST, Run
from forecast.training.task import ForecastTask
from forecast.training.train import train
from tests.support.small import changed, hourly, quick, rewrite, snapshot, write

pytestmark = pytest.mark.usefixtures("undrawn")

STEPS = 12


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a run of 12 steps with dropout, a validation every third step, and a schedule."""
    folder = tmp_path_factory.mktemp("resume")
    every = ["training.validations_per_epoch=8", "model.linear_path=zero", "optimizer.lr=0.01", "resume=auto"]
    return quick(folder / "outputs", *every)


@pytest.fixture(scope="module")
def whole(config: dict[str, Any]) -> tuple[Run, dict[str, Any]]:
    """Return the run that nothing interrupts."""
    return train(changed(config, resume=False))


def interrupt(monkeypatch: pytest.MonkeyPatch, method: str, when: Callable[[ForecastTask, int], bool]) -> None:
    """Send SIGTERM in `method` the first time that `when(task, batch_idx)` holds."""
    original = getattr(ForecastTask, method)
    sent: list[int] = []

    def sending(self: ForecastTask, batch: Any, batch_idx: int) -> Any:
        if not sent and when(self, batch_idx):
            sent.append(batch_idx)
            signal.raise_signal(signal.SIGTERM)
        return original(self, batch, batch_idx)

    monkeypatch.setattr(ForecastTask, method, sending)


def assert_same(run: Run, result: dict[str, Any], whole: tuple[Run, dict[str, Any]]) -> None:
    """Compare weights, best step, scores and what the probe found, digit for digit."""
    assert sha256(run.path / "model.safetensors") == sha256(whole[0].path / "model.safetensors")
    for part in ("test", "validation"):
        assert result[part] == whole[1][part]
    assert result["model"] == whole[1]["model"]
    assert result["status"] == whole[1]["status"]
    assert result["probe"] == whole[1]["probe"]
    assert not [path for path in run.path.rglob("*") if path.name.endswith(".tmp")]


def curve(run: Run, tag: str) -> list[tuple[int, float]]:
    events = EventAccumulator(str(run.path), size_guidance={"scalars": 0})
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


def next_second() -> None:
    """Wait: event files begun in one second are read in the order of their names, in which 10 is before 9."""
    time.sleep(1 - time.time() % 1)


@pytest.mark.parametrize("step", range(STEPS))
def test_stopped_at_any_step_it_ends_where_it_would_have(
    config: dict[str, Any],
    whole: tuple[Run, dict[str, Any]],
    step: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = {**config, "output_dir": str(tmp_path)}
    interrupt(monkeypatch, "training_step", lambda task, _: task.global_step == step)
    with pytest.raises(Interrupted) as end:
        train(config)
    assert end.value.exit_code == 143
    next_second()
    torch.manual_seed(99)  # nothing may depend on what the process drew before
    run, result = train(config)
    assert len(list(run.path.parent.iterdir())) == 1
    assert_same(run, result, whole)
    for tag in ("train/loss", "val/mse"):
        assert curve(run, tag) == curve(whole[0], tag)


@pytest.mark.parametrize("step", [3, 9, 12])
def test_stopped_in_a_validation_it_validates_the_same_step(
    config: dict[str, Any],
    whole: tuple[Run, dict[str, Any]],
    step: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = {**config, "output_dir": str(tmp_path)}
    interrupt(monkeypatch, "validation_step", lambda task, _: task.global_step >= step)
    with pytest.raises(Interrupted):
        train(config)
    (run,) = (Run(path) for path in (tmp_path / "synthetic").iterdir())
    assert read_checkpoint(checkpoints(run.checkpoints)[0])["validation_due"]
    next_second()
    run, result = train(config)
    assert_same(run, result, whole)
    assert curve(run, "val/mse") == curve(whole[0], "val/mse")


def test_a_resumed_run_can_be_resumed(
    config: dict[str, Any], whole: tuple[Run, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {**config, "output_dir": str(tmp_path)}
    for step in (2, 3, 7, 11):
        with monkeypatch.context() as patch:
            interrupt(patch, "training_step", lambda task, _, step=step: task.global_step == step)  # type: ignore[misc]
            with pytest.raises(Interrupted):
                train(config)
    assert_same(*train(config), whole)


@pytest.mark.usefixtures("traced")
def test_a_compiled_run_that_is_resumed_ends_where_it_would_have(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(changed(config, training__compile=True, output_dir=str(tmp_path / "whole")))
    config = changed(config, training__compile=True, output_dir=str(tmp_path))
    interrupt(monkeypatch, "training_step", lambda task, _: task.global_step == 7)
    with pytest.raises(Interrupted):
        train(config)
    (folder,) = (tmp_path / "synthetic").iterdir()
    kept = read_checkpoint(checkpoints(folder / "checkpoints")[0])["callbacks"]["Speed"]["compile_seconds"]
    run, result = train(config)
    assert_same(run, result, whole)
    assert result["speed"]["compile_seconds"] > kept > 0


def test_only_a_run_that_is_not_compiled_may_change_its_checkpointing(config: dict[str, Any]) -> None:
    other = changed(config, training__activation_checkpointing=True)
    assert differences(other, config) == []
    compiled = [changed(each, training__compile=True) for each in (other, config)]
    assert differences(*compiled) == ["training.activation_checkpointing is False there and True here"]


def test_a_stop_by_early_stopping_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worse = ["optimizer.lr=3", "training.validations_per_epoch=32", "callbacks.early_stopping.patience=2"]
    config = quick(tmp_path / "a", *worse, "training.max_steps=40", "resume=auto")
    whole = train(config)
    assert whole[1]["status"] == "stopped early"
    steps = whole[1]["model"]["steps"]
    config = {**config, "output_dir": str(tmp_path / "b")}
    monkeypatch.setattr("forecast.training.callbacks.checkpoints.Checkpoints.on_train_end", lambda *_: _fail())
    with pytest.raises(RuntimeError, match="killed"):
        train(config)
    monkeypatch.undo()
    run, result = train(config)
    assert result["model"]["steps"] == steps
    assert_same(run, result, whole)


def _fail() -> None:
    raise RuntimeError("killed")


def test_killed_after_the_training_only_the_evaluation_is_made(
    config: dict[str, Any], whole: tuple[Run, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {**config, "output_dir": str(tmp_path)}
    with monkeypatch.context() as patch:
        patch.setattr("forecast.training.train.score", lambda *_: _fail())
        with pytest.raises(RuntimeError, match="killed"):
            train(config)
    monkeypatch.setattr("lightning.Trainer.fit", lambda *_, **__: pytest.fail("trained again"))
    run, result = train(config)
    assert_same(run, result, whole)
    assert result["speed"]["fit_seconds"] > 0
    assert result["speed"]["step_ms_p50"] > 0


def test_a_finished_run_is_not_run_again(config: dict[str, Any], whole: tuple[Run, dict[str, Any]]) -> None:
    before = snapshot(whole[0].path)
    run, result = train(config)
    assert run.path == whole[0].path
    assert result["test"] == whole[1]["test"]
    assert snapshot(whole[0].path) == before


def test_auto_begins_a_new_run_where_there_is_none_of_this_configuration(
    config: dict[str, Any], whole: tuple[Run, dict[str, Any]]
) -> None:
    for other in ({"seed": 2}, {"training__max_steps": 2}):
        run, _ = train(changed(config, **other))
        assert run.path != whole[0].path


@pytest.fixture
def stopped(config: dict[str, Any], tmp_path: Path) -> Path:
    """Return the folder of a run that was stopped at step 7 of 12, with a checkpoint of step 6 too."""
    with pytest.MonkeyPatch.context() as patch:
        interrupt(patch, "training_step", lambda task, _: task.global_step == 6)
        with pytest.raises(Interrupted):
            train({**config, "output_dir": str(tmp_path)})
    (folder,) = (tmp_path / "synthetic").iterdir()
    assert [path.name for path in checkpoints(folder / "checkpoints")] == ["step-000000007.ckpt", "step-000000006.ckpt"]
    return folder


@pytest.mark.parametrize("damage", ["cut", "bit", "empty", "noise", "foreign"])
def test_a_damaged_checkpoint_is_skipped_in_one_line(
    config: dict[str, Any],
    whole: tuple[Run, dict[str, Any]],
    stopped: Path,
    damage: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    newest, older = checkpoints(stopped / "checkpoints")
    raw = bytearray(newest.read_bytes())
    raw[len(raw) // 2] ^= 1
    content = {
        "cut": newest.read_bytes()[:-100],
        "bit": bytes(raw),
        "empty": b"",
        "noise": MAGIC + b"\0" * 5000,
        "foreign": older.read_bytes()[len(MAGIC) :],
    }
    newest.write_bytes(content[damage])
    run, result = train({**config, "output_dir": str(stopped.parents[1])})
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "skipped" in line]
    assert str(newest) in line
    assert_same(run, result, whole)


def test_without_a_valid_checkpoint_it_begins_again_in_the_same_folder(
    config: dict[str, Any], whole: tuple[Run, dict[str, Any]], stopped: Path
) -> None:
    for path in checkpoints(stopped / "checkpoints"):
        path.write_bytes(b"damaged")
    next_second()
    (stopped / ".result.json.abc.tmp").write_text("left by a kill")
    run, result = train({**config, "output_dir": str(stopped.parents[1])})
    assert run.path == stopped
    assert_same(run, result, whole)
    assert curve(run, "train/loss") == curve(whole[0], "train/loss")


def test_a_named_folder_needs_no_other_word(stopped: Path, whole: tuple[Run, dict[str, Any]]) -> None:
    other = quick(stopped.parents[1], f"resume={stopped}", model="informer")
    run, result = train(other, overrides=[f"resume={stopped}"])
    assert run.path == stopped
    assert_same(run, result, whole)


def test_another_budget_and_trainer_may_be_given(config: dict[str, Any], stopped: Path) -> None:
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


def test_a_trainer_that_sets_the_length_is_no_other_trainer_alone(stopped: Path) -> None:
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
def test_anything_else_is_refused_and_named(
    config: dict[str, Any], stopped: Path, change: dict[str, Any], line: str
) -> None:
    before = snapshot(stopped)
    assert before
    with pytest.raises(InputError, match=re.escape(line)):
        train(changed({**config, "resume": str(stopped)}, **change), overrides=["seed=2", f"resume={stopped}"])
    assert snapshot(stopped) == before


def test_other_data_under_the_same_configuration_are_refused(
    config: dict[str, Any], stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from forecast.data import sources

    original = sources.simulate_transformer
    monkeypatch.setattr(sources, "simulate_transformer", lambda **options: original(**options) * 1.5)
    with pytest.raises(InputError, match="the data are not those"):
        train({**config, "output_dir": str(stopped.parents[1])})


def test_a_folder_in_use_is_refused(config: dict[str, Any], stopped: Path) -> None:
    with claimed(stopped), pytest.raises(InputError, match="another process"):
        train({**config, "output_dir": str(stopped.parents[1])})


@pytest.mark.parametrize("value", [True, 1, "", None])
def test_resume_is_false_auto_or_a_folder(config: dict[str, Any], value: Any) -> None:
    with pytest.raises(InputError, match="choose false, auto"):
        train({**config, "resume": value})


def test_a_folder_that_is_no_run_is_refused(config: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run folder"):
        train({**config, "resume": str(tmp_path)}, overrides=[])


def test_a_given_folder_is_made_gone_on_with_and_read(
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


def test_between_validations_time_saves_too(config: dict[str, Any], tmp_path: Path) -> None:
    hasty = changed(config, output_dir=str(tmp_path), training__checkpoint_minutes=1e-9, resume=False)
    written: list[int] = []
    from forecast.training.callbacks import checkpoints as module

    original = module.write_checkpoint
    with pytest.MonkeyPatch.context() as patch:

        def noting(folder: Path, step: int, content: dict[str, Any]) -> Path:
            written.append(step)
            assert len(checkpoints(folder)) <= 2
            return original(folder, step, content)

        patch.setattr(module, "write_checkpoint", noting)
        run, _ = train(hasty)
    assert set(written) == set(range(STEPS + 1))
    assert len(checkpoints(run.checkpoints)) == 2


def test_what_is_read_back_is_what_was_written(stopped: Path) -> None:
    newest, older = checkpoints(stopped / "checkpoints")
    content = read_checkpoint(newest)
    assert (content["step"], read_checkpoint(older)["step"]) == (7, 6)
    assert content["best"]["step"] in (3, 6)
    assert not content["finished"]
    shutil.copy(newest, stopped / "elsewhere.ckpt")
    assert read_checkpoint(stopped / "elsewhere.ckpt")["data"] == content["data"]
    assert not (stopped / MANIFEST).exists()


def test_another_length_is_another_run_unless_the_folder_is_named(config: dict[str, Any], stopped: Path) -> None:
    run, result = train(changed(config, output_dir=str(stopped.parents[1]), training__max_steps=4))
    assert run.path != stopped
    assert (result["model"]["steps"], result["config"]["training"]["max_steps"]) == (4, 4)
    with pytest.raises(InputError, match=r"training.max_steps is 12 there and 20 here"):
        train(changed(config, resume=False, training__max_steps=20), folder=stopped)


def test_a_length_below_the_steps_made_is_refused(config: dict[str, Any], stopped: Path) -> None:
    words = [f"resume={stopped}", "training.max_steps=5"]
    composed = changed({**config, "resume": str(stopped)}, training__max_steps=5)
    before = read_checkpoint(checkpoints(stopped / "checkpoints")[0])["step"]
    with pytest.raises(InputError, match="has made 7 steps, 5 are asked for"):
        train(composed, overrides=words)
    assert read_checkpoint(checkpoints(stopped / "checkpoints")[0])["step"] == before


def test_one_option_of_the_trainer_leaves_the_folders_others(config: dict[str, Any], stopped: Path) -> None:
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
def test_nothing_is_removed_from_a_folder_that_is_no_run(config: dict[str, Any], tmp_path: Path, content: str) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.json").write_text(content)
    (folder / "model.safetensors").write_text("of somebody")
    (folder / "forecast.xlsx").write_text("of somebody")
    before = snapshot(folder)
    with pytest.raises(InputError, match="damaged"):
        train({**config, "resume": str(folder)}, overrides=[f"resume={folder}"])
    assert snapshot(folder) == before


def test_a_finished_run_without_its_manifest_keeps_its_weights(
    whole: tuple[Run, dict[str, Any]], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole[0].path, copy)
    (copy / MANIFEST).unlink()
    shutil.rmtree(copy / "checkpoints")
    before = snapshot(copy)
    with pytest.raises(InputError, match="no manifest and no checkpoint"):
        train({**whole[1]["config"], "resume": str(copy)}, overrides=[f"resume={copy}"])
    assert snapshot(copy) == before


def test_a_finished_run_on_a_file_that_has_changed_is_not_handed_out(tmp_path: Path) -> None:
    source = write(tmp_path / "hours.csv", hourly())
    words = ["data=csv", f"data.path={source}", "training.max_steps=1", "resume=auto"]
    config = quick(tmp_path / "outputs", *words)
    train(config)
    write(source, hourly(seed=1))
    with pytest.raises(InputError, match="has changed since"):
        train(config)


def test_the_file_that_is_recorded_is_the_one_that_was_read(
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


def test_a_job_of_a_sweep_whose_file_has_changed_is_told_a_cure_that_helps(tmp_path: Path) -> None:
    source = write(tmp_path / "hours.csv", hourly())
    config = quick(tmp_path / "outputs", "data=csv", f"data.path={source}", "training.max_steps=1")
    train(config, folder=tmp_path / "job")
    write(source, hourly(seed=1))
    with pytest.raises(InputError, match=r"has changed since .*: remove that folder, or choose another sweep.name"):
        train(config, folder=tmp_path / "job")
    for name in ("manifest.json", "result.json"):
        (tmp_path / "job" / name).unlink()  # as if it had been killed before
    with pytest.raises(InputError, match=r"bring them back, or remove that folder, or choose another sweep.name"):
        train(config, folder=tmp_path / "job")


@pytest.mark.parametrize("name", ["result.json"])
def test_a_finished_run_without_its_result_is_called_damaged(
    whole: tuple[Run, dict[str, Any]], tmp_path: Path, name: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole[0].path, copy)
    (copy / name).unlink()
    with pytest.raises(InputError, match="damaged"):
        train({**whole[1]["config"], "resume": str(copy)}, overrides=[f"resume={copy}"])


def test_checkpoints_of_another_version_are_refused_and_kept(config: dict[str, Any], stopped: Path) -> None:
    for path in checkpoints(stopped / "checkpoints"):
        path.write_bytes(path.read_bytes().replace(MAGIC, b"forecast checkpoint 9\n"))
    before = snapshot(stopped)
    with pytest.raises(InputError, match="another version"):
        train({**config, "output_dir": str(stopped.parents[1])})
    assert snapshot(stopped) == before


def test_a_start_that_rounding_alone_betters_is_kept(tmp_path: Path) -> None:
    _, result = train(quick(tmp_path, "optimizer.lr=1e-30"))
    assert result["model"]["best_step"] == 0


def test_a_timed_save_is_not_part_of_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from forecast.training.callbacks import checkpoints as module

    original = module.write_checkpoint

    def slow(*arguments: Any) -> Path:
        time.sleep(0.2)
        return original(*arguments)

    monkeypatch.setattr(module, "write_checkpoint", slow)
    often = "training.checkpoint_minutes=1e-9"
    _, result = train(quick(tmp_path, often, "training.max_steps=20", "training.max_epochs=5"))
    speed = result["speed"]
    assert speed["step_ms_p50"] < 200
    assert speed["train_windows_per_s"] > 16 / 0.2


@pytest.mark.parametrize(("first", "then"), [("mapped", "device"), ("auto", "mapped")])
def test_it_may_go_on_with_its_table_elsewhere_and_ends_where_it_would_have(
    config: dict[str, Any],
    whole: tuple[Run, dict[str, Any]],
    first: str,
    then: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = {**config, "output_dir": str(tmp_path)}
    interrupt(monkeypatch, "training_step", lambda task, _: task.global_step == 5)
    with pytest.raises(Interrupted):
        train(changed(config, training__data_placement=first))
    run, result = train(changed(config, training__data_placement=then))
    assert result["data"]["placement"]["wanted"] == then
    assert len(list(run.path.parent.iterdir())) == 1
    assert_same(run, result, whole)


@pytest.mark.parametrize(("group", "key"), [("data", "calendar"), ("model", "level"), ("training", "share_prior")])
def test_a_run_of_a_version_without_a_key_is_refused_with_the_cure(
    config: dict[str, Any], stopped: Path, group: str, key: str
) -> None:
    stored = json.loads((stopped / "config.json").read_text())
    del stored[group][key]
    rewrite(stopped / "config.json", stored)
    with pytest.raises(InputError, match=rf"config.json: has no {group}.{key}: .*: train it again$"):
        train({**config, "resume": str(stopped)}, overrides=[f"resume={stopped}"])
