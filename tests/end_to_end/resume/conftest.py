"""A complete run, and one that was stopped in the middle."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from forecast.common.errors import Interrupted
from forecast.runs.checkpoint import checkpoints
from forecast.runs.run import Run
from forecast.training.train import train
from tests.support.interruptions import interrupt
from tests.support.kept import kept
from tests.support.small import changed, quick


@pytest.fixture(scope="session")
def config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a run of 12 steps with dropout, a validation every third step, and a schedule."""
    folder = tmp_path_factory.mktemp("resume")
    every = ["training.validations_per_epoch=8", "model.linear_path=zero", "optimizer.lr=0.01", "resume=auto"]
    return quick(folder / "outputs", *every)


@pytest.fixture(scope="session")
def whole(config: dict[str, Any]) -> tuple[Run, dict[str, Any]]:
    """Return a complete, uninterrupted run."""
    return train(changed(config, resume=False))  # in the output folder of `config`, where resume=auto finds it


@pytest.fixture(scope="session")
def stopped_once(config: dict[str, Any]) -> Path:
    """Return the output folder of a run that was stopped at step 7 of 12."""

    def make(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            interrupt(patch, "training_step", lambda task, _: task.global_step == 6)
            with pytest.raises(Interrupted):
                train({**config, "output_dir": str(folder / "outputs")})

    return kept("stopped", make) / "outputs"


@pytest.fixture
def stopped(stopped_once: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder of a run that was stopped at step 7 of 12, with a checkpoint of step 6 too."""
    shutil.copytree(stopped_once, tmp_path, dirs_exist_ok=True)
    (folder,) = (tmp_path / "synthetic").iterdir()
    assert [path.name for path in checkpoints(folder / "checkpoints")] == ["step-000000007.ckpt", "step-000000006.ckpt"]
    return folder
