"""Lightning's part of a run: the trainer, the fit, and the best weights after it."""

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint, RichProgressBar, Timer
from lightning.pytorch.loggers import Logger

from forecast.callbacks.speed import Speed
from forecast.checkpoint import DurableCheckpointIO
from forecast.data.datamodule import ForecastData
from forecast.evaluate import evaluate
from forecast.settings import TrainingSettings, parse_time
from forecast.task import ForecastTask

logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)


@dataclass(frozen=True)
class Fit:
    """What a fit leaves: steps made, the step of the best weights (0: the start), the speed, why it ended."""

    steps: int
    best_step: int
    speed: dict[str, float]
    status: str


def fit(
    task: ForecastTask,
    data: ForecastData,
    folder: Path,
    *,
    settings: TrainingSettings,
    precision: str,
    device: torch.device,
    trainer_options: Mapping[str, Any],
    callbacks: Sequence[Callback],
    logger: Logger,
    start_is_candidate: bool,
) -> Fit:
    """Train `task`, then put its best weights by validation in place.

    A model whose linear path starts from the closed form can be good before the first step: its start is
    a candidate like any other, so training never returns what validation holds to be worse.

    Raises
    ------
    NotFiniteError
        At the first step whose loss or gradients are not finite.
    """
    data.total_steps = task.total_steps
    speed = Speed()
    checkpoint = ModelCheckpoint(
        dirpath=folder / "checkpoints",
        filename="best",
        monitor="val/mse",
        auto_insert_metric_name=False,
        enable_version_counter=False,
    )
    last = ModelCheckpoint(dirpath=folder / "checkpoints", filename="last", enable_version_counter=False)
    extra: list[Callback] = [speed, checkpoint, last, *callbacks]
    if settings.progress:
        extra.append(RichProgressBar())
    timer = Timer(None if settings.max_time is None else parse_time(settings.max_time), verbose=False)
    extra.append(timer)
    trainer = lightning.Trainer(
        **{**trainer_options, "accelerator": "gpu" if device.type == "cuda" else "cpu"},
        precision=precision,  # type: ignore[arg-type]
        max_steps=task.total_steps,
        max_epochs=1,
        val_check_interval=min(task.total_steps, settings.validation_interval(len(data.parts["train"]))),
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        logger=logger,
        callbacks=extra,
        plugins=[DurableCheckpointIO()],
        enable_progress_bar=settings.progress,
        enable_model_summary=False,
    )
    start = _scored_start(task, data, device) if start_is_candidate else None
    with warnings.catch_warnings():  # Lightning 2.6 walks its loaders in a way that torch 2.13 calls old
        warnings.filterwarnings("ignore", message=r"`isinstance\(treespec, LeafSpec\)` is deprecated")
        trainer.fit(task, datamodule=data)
    steps = trainer.global_step
    out_of_time = (timer.time_remaining() or 1.0) <= 0  # None where there is no limit
    best = torch.load(checkpoint.best_model_path, map_location="cpu", weights_only=True)
    weights, best_step = best["state_dict"], int(best["global_step"])
    if (
        start is not None
        and checkpoint.best_model_score is not None
        and start.mse <= float(checkpoint.best_model_score)
    ):
        weights, best_step = start.weights, 0
    task.load_state_dict(weights)
    status = "finished" if steps >= task.total_steps else "out of time" if out_of_time else "stopped early"
    return Fit(steps=steps, best_step=best_step, speed=speed.figures(), status=status)


@dataclass(frozen=True)
class _Start:
    """The weights before the first step and their validation MSE."""

    weights: dict[str, Any]
    mse: float


def _scored_start(task: ForecastTask, data: ForecastData, device: torch.device) -> _Start:
    task.to(device).eval()
    scored = evaluate(task, data.parts["validation"], data.evaluation_batch_size)
    task.train()  # Lightning trains in the mode it finds
    weights = {name: tensor.detach().cpu().clone() for name, tensor in task.state_dict().items()}
    return _Start(weights=weights, mse=scored.sums.scaled()["mse"])
