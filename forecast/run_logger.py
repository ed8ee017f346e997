"""The logger that the configuration names, checked before a run begins and handed its scores at the end."""

import inspect
from collections.abc import Mapping
from typing import Any

from hydra.errors import HydraException
from hydra.utils import get_class, instantiate
from lightning.pytorch.loggers import Logger, TensorBoardLogger

from forecast.errors import InputError


def check_logger(config: Mapping[str, Any]) -> None:
    """Refuse a `logger` group that would fail, or be overruled, once the run has a folder.

    Raises
    ------
    InputError
        Naming the key.
    """
    try:
        kind = get_class(str(config.get("_target_")))
    except (HydraException, ImportError, ValueError) as error:
        raise InputError(f"logger._target_={config.get('_target_')}: no such class ({error})") from None
    if not issubclass(kind, Logger):
        raise InputError(f"logger._target_={config['_target_']}: is no logger of Lightning")
    known = set(inspect.signature(kind).parameters) - {"save_dir", "kwargs"}
    for key in set(config) - known - {"_target_"}:
        raise InputError(f"logger.{key}: no option of {kind.__name__}, or settled by output_dir")


def make_logger(config: Mapping[str, Any], folder: str, *, purge_step: int | None = None) -> Logger:
    """Give the logger, writing into `folder`; TensorBoard forgets what an earlier part said from `purge_step` on."""
    again = {"purge_step": purge_step} if purge_step is not None and _is_tensorboard(config) else {}
    logger: Logger = instantiate(config, save_dir=folder, **again)
    return logger


def _is_tensorboard(config: Mapping[str, Any]) -> bool:
    return issubclass(get_class(str(config["_target_"])), TensorBoardLogger)


def log_test(logger: Logger, result: Mapping[str, Any]) -> None:
    """Log the test part's scores, on z-scores and in original units, at the last step."""
    test = result["test"]
    scores = {f"test/{name}": value for name, value in test["scaled"].items()}
    scores |= {f"test/{name}_original": value for name, value in test["original"].items()}
    logger.log_metrics(scores, step=result["model"]["steps"])
    logger.finalize("success")
