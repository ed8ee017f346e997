"""A run resumed from any checkpoint ends with exactly the results of an uninterrupted run."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from forecast.common.errors import InputError, Interrupted
from forecast.runs.checkpoint import MAGIC, checkpoints, read_checkpoint
from forecast.runs.resume import differences
from forecast.runs.run import MANIFEST, Run
from forecast.training.callbacks.speed import WARM_UP_STEPS
from forecast.training.train import train
from tests.support.interruptions import assert_same, curve, fail, interrupt, next_second, replace_clock
from tests.support.small import changed, quick, snapshot

STEPS = 12
OTHERS = sorted({*range(STEPS)} - {0, 11})


@pytest.mark.parametrize("step", [0, 11, *(pytest.param(step, marks=pytest.mark.exhaustive) for step in OTHERS)])
def test_a_run_stopped_at_any_step_has_the_results_of_a_complete_run(
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
    torch.manual_seed(99)  # earlier random draws must not matter
    run, result = train(config)
    assert len(list(run.path.parent.iterdir())) == 1
    assert_same(run, result, whole)
    for tag in ("train/loss", "val/mse"):
        assert curve(run, tag) == curve(whole[0], tag)


@pytest.mark.parametrize("step", [3, *(pytest.param(step, marks=pytest.mark.exhaustive) for step in (9, 12))])
def test_an_interrupted_validation_is_repeated(
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


def test_a_run_can_be_resumed_several_times(
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
@pytest.mark.exhaustive
def test_a_resumed_compiled_run_has_the_results_of_a_complete_run(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(changed(config, training__compile=True, output_dir=str(tmp_path / "whole")))
    config = changed(config, training__compile=True, output_dir=str(tmp_path))
    interrupt(monkeypatch, "training_step", lambda task, _: task.global_step == 7)
    with pytest.raises(Interrupted):
        train(config)
    (folder,) = (tmp_path / "synthetic").iterdir()
    saved = read_checkpoint(checkpoints(folder / "checkpoints")[0])["callbacks"]["Speed"]["compile_seconds"]
    run, result = train(config)
    assert_same(run, result, whole)
    assert result["speed"]["compile_seconds"] > saved > 0


def test_only_a_run_without_compiling_may_change_activation_checkpointing(config: dict[str, Any]) -> None:
    other = changed(config, training__activation_checkpointing=True)
    assert differences(other, config) == []
    compiled = [changed(variant, training__compile=True) for variant in (other, config)]
    assert differences(*compiled) == ["training.activation_checkpointing is False there and True here"]


def test_a_run_killed_after_training_is_only_evaluated(
    config: dict[str, Any], whole: tuple[Run, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {**config, "output_dir": str(tmp_path)}
    with monkeypatch.context() as patch:
        patch.setattr("forecast.training.train.score", lambda *_: fail())
        with pytest.raises(RuntimeError, match="killed"):
            train(config)
    monkeypatch.setattr("lightning.Trainer.fit", lambda *_, **__: pytest.fail("trained again"))
    run, result = train(config)
    assert_same(run, result, whole)
    assert result["speed"]["fit_seconds"] > 0
    assert result["speed"]["step_ms_p50"] > 0


def test_a_finished_run_is_not_trained_again(config: dict[str, Any], whole: tuple[Run, dict[str, Any]]) -> None:
    before = snapshot(whole[0].path)
    run, result = train(config)
    assert run.path == whole[0].path
    assert result["test"] == whole[1]["test"]
    assert snapshot(whole[0].path) == before


def test_auto_starts_a_new_run_for_a_new_configuration(
    config: dict[str, Any], whole: tuple[Run, dict[str, Any]]
) -> None:
    for other in ({"seed": 2}, {"training__max_steps": 2}):
        run, _ = train(changed(config, **other))
        assert run.path != whole[0].path


BY_HAND = [pytest.param(damage, marks=pytest.mark.exhaustive) for damage in ("bit", "empty", "noise")]


@pytest.mark.parametrize("damage", ["cut", "foreign", *BY_HAND])  # a unit test damages a thousand files
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


def test_without_a_valid_checkpoint_a_run_restarts_in_the_same_folder(
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


def test_checkpoints_are_written_between_validations(config: dict[str, Any], tmp_path: Path) -> None:
    hasty = changed(config, output_dir=str(tmp_path), training__checkpoint_minutes=1e-9, resume=False)
    written: list[int] = []
    from forecast.training.callbacks import checkpoints as module

    original = module.write_checkpoint
    with pytest.MonkeyPatch.context() as patch:

        def record(folder: Path, step: int, content: dict[str, Any]) -> Path:
            written.append(step)
            assert len(checkpoints(folder)) <= 2
            return original(folder, step, content)

        patch.setattr(module, "write_checkpoint", record)
        run, _ = train(hasty)
    assert set(written) == set(range(STEPS + 1))
    assert len(checkpoints(run.checkpoints)) == 2


def test_checkpoint_minutes_are_minutes(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from forecast.training.callbacks import checkpoints as module

    original, written = module.write_checkpoint, []

    def record(folder: Path, step: int, content: dict[str, Any]) -> Path:
        written.append(step)
        return original(folder, step, content)

    monkeypatch.setattr(module, "write_checkpoint", record)
    replace_clock(monkeypatch, module.__name__, lambda step: (299, 2, 299, 0)[step])
    length = {"training__max_steps": 4, "training__validations_per_epoch": 1}
    train(changed(config, output_dir=str(tmp_path), resume=False, training__checkpoint_minutes=5, **length))
    assert written == [2, 4, 4], "301 s after the start, at the validation and at the end"


def test_a_checkpoint_is_read_back_as_written(stopped: Path) -> None:
    newest, older = checkpoints(stopped / "checkpoints")
    content = read_checkpoint(newest)
    assert (content["step"], read_checkpoint(older)["step"]) == (7, 6)
    assert content["best"]["step"] in (3, 6)
    assert not content["finished"]
    shutil.copy(newest, stopped / "elsewhere.ckpt")
    assert read_checkpoint(stopped / "elsewhere.ckpt")["data"] == content["data"]
    assert not (stopped / MANIFEST).exists()


def test_checkpoints_of_another_version_are_refused_and_kept(config: dict[str, Any], stopped: Path) -> None:
    for path in checkpoints(stopped / "checkpoints"):
        path.write_bytes(path.read_bytes().replace(MAGIC, b"forecast checkpoint 9\n"))
    before = snapshot(stopped)
    with pytest.raises(InputError, match="another version"):
        train({**config, "output_dir": str(stopped.parents[1])})
    assert snapshot(stopped) == before


def test_rounding_alone_does_not_replace_the_starting_weights(tmp_path: Path) -> None:
    _, result = train(quick(tmp_path, "optimizer.lr=1e-30", "training.max_steps=2"))
    assert result["model"]["best_step"] == 0


def test_a_timed_save_is_not_part_of_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from forecast.training.callbacks import checkpoints as module

    original = module.write_checkpoint

    def slow(folder: Path, step: int, content: Any) -> Path:
        if step >= WARM_UP_STEPS:  # earlier steps are not timed
            time.sleep(0.2)
        return original(folder, step, content)

    monkeypatch.setattr(module, "write_checkpoint", slow)
    often = "training.checkpoint_minutes=1e-9"
    _, result = train(quick(tmp_path, often, f"training.max_steps={WARM_UP_STEPS + 4}"))
    speed = result["speed"]
    assert speed["step_ms_p50"] < 200
    assert speed["train_windows_per_s"] > 16 / 0.2


@pytest.mark.parametrize(
    ("first", "then"), [("mapped", "device"), pytest.param("auto", "mapped", marks=pytest.mark.exhaustive)]
)
def test_a_run_may_be_resumed_with_another_data_placement(
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
