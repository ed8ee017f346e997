"""The logger: checked before a run folder is made, with the test scores at the end."""

from pathlib import Path

import pandas as pd
import pytest
from lightning.pytorch.loggers import CSVLogger
from lightning_utilities.core.imports import RequirementCache

from forecast.common.errors import InputError
from forecast.runs.checkpoint import newest_checkpoint
from forecast.runs.integrity import check_stored
from forecast.training.tensorboard.logger import Board, board_of, check_logger, make_loggers
from forecast.training.train import train
from tests.support.boards import last_scalars
from tests.support.small import compose, quick

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


def test_several_loggers_get_the_same_points_and_the_pictures_go_to_tensorboard(tmp_path: Path) -> None:
    group = compose("logger=[tensorboard,csv]")["logger"]
    check_logger(group)
    loggers = make_loggers(group, str(tmp_path))
    assert isinstance(board_of(loggers), Board)
    for logger in loggers:
        logger.log_metrics({"val/mse": 0.5}, step=3)
        logger.finalize("success")
    assert last_scalars(tmp_path)["val/mse"] == 0.5
    table = pd.read_csv(tmp_path / "csv" / "version_0" / "metrics.csv")
    assert list(table["val/mse"]) == [0.5]
    with pytest.raises(InputError, match=r"logger\.csv\.bogus: not an option of CSVLogger"):
        check_logger({**group, "csv": {**group["csv"], "bogus": 1}})


def test_a_logger_without_its_package_is_one_line_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lightning.pytorch.loggers.mlflow._MLFLOW_AVAILABLE", RequirementCache("mlflow>=1000"))
    group = compose("logger=mlflow")["logger"]
    check_logger(group)  # its options are those of the class
    with pytest.raises(InputError, match=r"^logger\.mlflow: \S+MLFlowLogger: needs .* pip install mlflow$"):
        make_loggers(group, str(tmp_path))


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_local_store_of_mlflow_has_the_options_and_scores_of_a_run(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    store = f"sqlite:///{tmp_path / 'store.db'}"
    run, result = train(quick(tmp_path, "logger=[tensorboard,mlflow]", f"logger.mlflow.tracking_uri={store}"))
    (stored,) = mlflow.MlflowClient(tracking_uri=store).search_runs(["1"])
    assert stored.data.params["seed"] == str(result["seed"])
    written = last_scalars(run.path)  # of 32 bits
    assert {name: stored.data.metrics[name] for name in written} == pytest.approx(written)


class Refusing(CSVLogger):
    """A logger whose store is not there."""

    @property
    def experiment(self) -> None:  # type: ignore[override]
        raise Exception("no server at http://tracking\nmore")  # as other packages do


def test_a_logger_whose_store_refuses_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^logger\.mine: \S+Refusing: no server at http://tracking$"):
        make_loggers({"mine": {"_target_": f"{__name__}.Refusing"}}, str(tmp_path))


def test_a_run_folder_may_name_no_logger_beside_tensorboard(tmp_path: Path) -> None:
    group = compose("logger=[tensorboard,csv]")["logger"]
    check_stored({"logger": {"_target_": group["_target_"]}}, tmp_path)
    with pytest.raises(InputError, match=r"logger\.csv\._target_=.*CSVLogger: a folder may name"):
        check_stored({"logger": group}, tmp_path)


@pytest.mark.slow
def test_tensorboard_has_the_test_scores_and_the_last_checkpoint_is_from_the_last_step(tmp_path: Path) -> None:
    run, result = train(quick(tmp_path, "training.validations_per_epoch=20", "training.max_steps=3"))
    logged = last_scalars(run.path)
    assert logged["test/mse"] == pytest.approx(result["test"]["scaled"]["mse"], rel=1e-6)
    assert logged["test/mae_original"] == pytest.approx(result["test"]["original"]["mae"], rel=1e-6)
    last = newest_checkpoint(run.checkpoints)
    assert last is not None
    assert last["step"] == result["model"]["steps"]
