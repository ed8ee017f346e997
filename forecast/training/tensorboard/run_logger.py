"""The logger that the configuration names, checked before a run begins and handed its scores at the end."""

import inspect
import sys
from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any

from lightning.pytorch.loggers import Logger, TensorBoardLogger
from omegaconf import OmegaConf

from forecast.common.errors import InputError
from forecast.common.markdown import inert
from forecast.common.targets import TARGET, check_target, make
from forecast.runs.summary import summary
from forecast.training.tensorboard.board import Board
from forecast.training.tensorboard.final_scalars import COMPARED, final_scalars

OURS = {"save_dir", "purge_step", "kwargs"}
"""Arguments of a logger that follow from `output_dir` and `resume`."""


def check_logger(config: Mapping[str, Any]) -> None:
    """Refuse a `logger` group that would fail, or be overruled, once the run has a folder.

    Raises
    ------
    InputError
        Naming the key.
    """
    check_target(config, "logger", Logger)
    kind = resolve_name(str(config[TARGET]))
    known = set(inspect.signature(kind).parameters) - OURS
    for key in set(config) - known - {TARGET}:
        raise InputError(f"logger.{key}: no option of {kind.__name__}, or settled by output_dir")


def make_logger(config: Mapping[str, Any], folder: str, purge_step: int = 0) -> Logger:
    """Give the logger, writing into `folder`.

    Parameters
    ----------
    purge_step
        The steps made before a run goes on: of a board's earlier files, what is of later steps is hidden.
        Other loggers have nothing of the kind and are not told.

    Raises
    ------
    InputError
        If it cannot be made, as where a package that it needs is not installed.
    """
    kind = resolve_name(str(config[TARGET]))
    more = {"purge_step": purge_step} if issubclass(kind, TensorBoardLogger) else {}
    logger: Logger = make(config, "logger", save_dir=folder, **more)
    return logger


def log_start(logger: Logger, config: Mapping[str, Any]) -> None:
    """Enter the run, before its first step, into the board's table of runs."""
    if isinstance(logger, Board):
        logger.begin_session({**config, "words": " ".join(sys.argv[1:]) or "none"})


def log_end(logger: Logger, result: Mapping[str, Any]) -> None:
    """Log a finished run at its last step: every score and speed figure of `result` and, on a board, a summary."""
    step = result["model"]["steps"]
    logger.log_metrics(final_scalars(result), step=step)
    if isinstance(logger, Board):
        logger.add_text("1_summary", summary(result), step)
        lines = map(inert, OmegaConf.to_yaml(result["config"]).splitlines())
        logger.add_text("2_configuration", "\n".join(["```yaml", *lines, "```"]), step)
        logger.end_session([f"compare/{name.replace('/', '_')}" for name in COMPARED])
    else:
        logger.finalize("success")
