"""A resumed run ends where early stopping or the time limit ends an uninterrupted one."""

from pathlib import Path
from typing import Any

import pytest

from forecast.common.errors import Interrupted
from forecast.runs.checkpoint import checkpoints, read_checkpoint
from forecast.runs.run import Run
from forecast.runs.summary import EARLY, TIME
from forecast.training.train import train
from tests.support.interruptions import assert_same, fail, interrupt, replace_clock
from tests.support.small import changed, quick


@pytest.fixture(scope="module")
def worsening(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a run that soon stops early, with a validation after each step."""
    words = ["optimizer.lr=3", "training.validations_per_epoch=32", "training.max_steps=40", "resume=auto"]
    callbacks = ["callbacks.early_stopping.patience=2", "~callbacks.figures", "~callbacks.probe"]
    return quick(tmp_path_factory.mktemp("whole"), *words, *callbacks)


@pytest.fixture(scope="module")
def stopped_early(worsening: dict[str, Any]) -> tuple[Run, dict[str, Any]]:
    run, result = train(worsening)
    assert result["status"] == EARLY
    return run, result


def test_early_stopping_survives_a_kill(
    worsening: dict[str, Any],
    stopped_early: tuple[Run, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = {**worsening, "output_dir": str(tmp_path)}
    monkeypatch.setattr("forecast.training.callbacks.checkpoints.Checkpoints.on_train_end", lambda *_: fail())
    with pytest.raises(RuntimeError, match="killed"):
        train(config)
    monkeypatch.undo()
    assert_same(*train(config), stopped_early)


def test_early_stopping_counts_the_validations_before_an_interruption(
    worsening: dict[str, Any],
    stopped_early: tuple[Run, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = {**worsening, "output_dir": str(tmp_path)}
    last = stopped_early[1]["model"]["steps"] - 1
    interrupt(monkeypatch, "training_step", lambda task, _: task.global_step == last)
    with pytest.raises(Interrupted):
        train(config)
    (folder,) = (tmp_path / "synthetic").iterdir()
    saved = read_checkpoint(checkpoints(folder / "checkpoints")[0])["callbacks"]
    (state,) = (state for name, state in saved.items() if name.startswith("EarlyStopping"))
    assert state["wait_count"] == 1
    run, result = train(config)
    assert result["model"]["steps"] == last + 1
    assert_same(run, result, stopped_early)


def test_a_run_out_of_time_continues_only_with_a_longer_limit(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_clock(monkeypatch, "lightning.pytorch.callbacks.timer", lambda _: 60)
    monkeypatch.setattr("forecast.training.train.score", lambda *_: fail())

    def last_step(config: dict[str, Any], overrides: list[str] | None = None) -> int:
        with pytest.raises(RuntimeError, match="killed"):
            train(config, overrides=overrides)
        (folder,) = (tmp_path / "synthetic").iterdir()
        saved = read_checkpoint(checkpoints(folder / "checkpoints")[0])
        assert (saved["finished"], saved["stopped_by"]) == (True, TIME)
        return int(saved["step"])

    options = {"callbacks": {}, "training__validations_per_epoch": 1, "output_dir": str(tmp_path)}
    config = changed(config, training__max_time="00:00:05:00", **options)
    assert last_step(config) == 5
    assert last_step(config) == 5
    (folder,) = (tmp_path / "synthetic").iterdir()
    longer = changed(config, resume=str(folder), training__max_time="00:00:10:00")
    assert last_step(longer, [f"resume={folder}", "training.max_time=00:00:10:00"]) == 10
