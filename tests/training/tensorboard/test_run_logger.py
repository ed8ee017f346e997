"""The logger: checked before a run folder is made, with the test scores at the end."""

from pathlib import Path

import pytest

from forecast.common.errors import InputError
from forecast.runs.checkpoint import newest_checkpoint
from forecast.training.tensorboard.logger import check_logger
from forecast.training.train import train
from tests.support.boards import last_scalars
from tests.support.small import quick

TENSORBOARD = {"_target_": "forecast.training.tensorboard.logger.Board"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"_target_": "torch.nn.Nope"}, "logger._target_=torch.nn.Nope"),
        ({"_target_": "torch.nn.Linear"}, "must be a Logger of lightning"),
        ({"bogus": 1}, "logger.bogus"),
        ({"save_dir": "x"}, "logger.save_dir"),
        ({"purge_step": 5}, "logger.purge_step"),
    ],
)
def test_an_invalid_logger_option_is_refused_by_name(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_logger({**TENSORBOARD, **change})


@pytest.mark.slow
def test_tensorboard_has_the_test_scores_and_the_last_checkpoint_is_from_the_last_step(tmp_path: Path) -> None:
    run, result = train(quick(tmp_path, "training.validations_per_epoch=20", "training.max_steps=3"))
    logged = last_scalars(run.path)
    assert logged["test/mse"] == pytest.approx(result["test"]["scaled"]["mse"], rel=1e-6)
    assert logged["test/mae_original"] == pytest.approx(result["test"]["original"]["mae"], rel=1e-6)
    last = newest_checkpoint(run.checkpoints)
    assert last is not None
    assert last["step"] == result["model"]["steps"]
