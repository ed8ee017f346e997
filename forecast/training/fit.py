"""Lightning's part of a run: the trainer, the fit, and the best weights after it."""

import hashlib
import json
import logging
import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback, Timer
from lightning.pytorch.loggers import Logger
from torch import Tensor

from forecast.common.errors import InputError, first_line
from forecast.common.finite import check_validation
from forecast.common.group import ALONE, Group
from forecast.data.datamodule import ForecastData
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.significance import Evidence
from forecast.model.compiling import LEAF_SPEC, CompiledForward
from forecast.runs.resume import RESTART_HINT
from forecast.training.callbacks.checkpoints import Best, Checkpoints, copy_weights
from forecast.training.callbacks.loop_state import TIME, stopped_by
from forecast.training.callbacks.probe import Probe
from forecast.training.callbacks.profile import Profile
from forecast.training.callbacks.progress import StepProgress
from forecast.training.callbacks.speed import Speed
from forecast.training.parallel.strategy import leave_signals_alone, spread
from forecast.training.prepare import Preparation
from forecast.training.task import ForecastTask

logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)

HASHED_ROWS = 2**16
"""Rows of a table that are hashed at a time."""


@dataclass(frozen=True)
class Fit:
    """Result of a fit.

    `best_step` 0 is the start, `status` says why the fit ended. `probe` has the last validation's findings, if any.
    """

    steps: int
    best_step: int
    speed: dict[str, float]
    status: str
    probe: dict[str, Any] | None


def fit(
    prepared: Preparation,
    folder: Path,
    logger: Logger,
    *,
    group: Group = ALONE,
    resumed: dict[str, Any] | None = None,
    restart_hint: str = RESTART_HINT,
    resume_hint: str | None = None,
) -> Fit:
    """Train, then restore the best weights by validation.

    A model whose linear path starts from the closed form can be good before the first step. Its start is then a
    candidate too, which only a validation gain beyond chance replaces (`training.start_confidence`).

    `folder` is that of the checkpoints. All processes of `group` have to call this, each with its own task and data.
    `resumed` is the content of the checkpoint to resume from; None starts at the first step. `restart_hint` is for the
    message that a run cannot be resumed and has to start over. `resume_hint` has the words that resume an interrupted
    run; None: those that name its folder alone.
    """
    task, data, settings = prepared.task, prepared.data, prepared.settings.training
    fingerprint = _fingerprint(data)
    _check_same_data(fingerprint, group)
    if resumed is not None:
        _check_resumed(resumed, fingerprint, task.total_steps, f"{folder.parent}", restart_hint)
    data.group = task.group = group
    data.total_steps = task.total_steps
    data.first_step = 0 if resumed is None else int(resumed["step"])
    shows_progress = settings.progress and group.leads
    best, evidence, start_seconds = None, None, None
    if prepared.maps.start is not None and resumed is None:
        best, evidence, start_seconds = _start(prepared, shows_progress)
    speed = Speed(task.arithmetic)
    interval = min(task.total_steps, settings.validation_interval(len(data.parts["train"])))
    profiles = [Profile(folder.parent)] if settings.profile and group.leads else []
    shown = [StepProgress(interval, start_seconds)] if shows_progress else []
    probe = next((callback for callback in prepared.callbacks if isinstance(callback, Probe)), None)
    keeper = Checkpoints(
        folder,
        fingerprint=fingerprint,
        minutes=settings.checkpoint_minutes,
        best=best,
        evidence=evidence,
        resumed=resumed,
        after_save=speed.go_on,
        again=resume_hint or f"resume={folder.parent}",
    )
    timer = Timer(settings.duration, verbose=False)
    callbacks = [speed, *prepared.callbacks, *shown, *profiles, timer, keeper]
    trainer = _make_trainer(prepared, group, logger, callbacks, interval)
    if resumed is not None and _is_over(resumed, task.total_steps):
        return _read_end(task, speed, probe, resumed)
    if settings.compile and data.first_step < task.total_steps:
        task.to(prepared.device).train()
        task.compiled = speed.compiled = CompiledForward(task.network, prepared.device, task.network.learners)
        _make_ready(task.compiled, task, data, trainer)
    _run_trainer(trainer, task, data, is_resumed=resumed is not None)
    best = keeper.best or Best(trainer.global_step, float("nan"), copy_weights(task))
    task.load_state_dict(best.weights)
    status = stopped_by(trainer)
    assert status is not None
    return Fit(steps=trainer.global_step, best_step=best.step, status=status, **_kept(speed, probe))


def _check_same_data(fingerprint: str, group: Group) -> None:
    """Refuse processes that have read different data."""
    for rank, other in enumerate(group.gather(fingerprint)):
        if other != fingerprint:
            raise InputError(
                f"the data of process {rank} are not those of process {group.rank}: give all the same file"
            )


def _check_resumed(resumed: Mapping[str, Any], fingerprint: str, total_steps: int, where: str, hint: str) -> None:
    """Refuse a checkpoint of other data, or of more steps than `total_steps`."""
    if resumed["data"] != fingerprint:
        raise InputError(f"{where}: the data are not those that this run began with: bring them back, or {hint}")
    if resumed["step"] > total_steps:
        raise InputError(
            f"{where}: has made {resumed['step']:,} steps, {total_steps:,} are asked for: "
            f"give training.max_steps or max_epochs more, or {hint}"
        )


def _make_trainer(
    prepared: Preparation, group: Group, logger: Logger, callbacks: list[Callback], interval: int
) -> lightning.Trainer:
    """Return a trainer that counts steps, and leaves files, bars and signals to this program."""
    options = {
        **asdict(prepared.settings.trainer),
        **spread(group),
        "accelerator": "gpu" if prepared.device.type == "cuda" else "cpu",
    }
    trainer = lightning.Trainer(
        **options,
        precision=prepared.precision,  # type: ignore[arg-type]
        max_steps=prepared.task.total_steps,
        max_epochs=1,
        val_check_interval=interval,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        logger=logger,
        callbacks=callbacks,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    leave_signals_alone(trainer)
    return trainer


def _run_trainer(trainer: lightning.Trainer, task: ForecastTask, data: ForecastData, *, is_resumed: bool) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=LEAF_SPEC)
        if is_resumed:  # few steps may be left to do
            warnings.filterwarnings("ignore", message="The number of training batches")
        try:
            trainer.fit(task, datamodule=data)
        except ModuleNotFoundError as error:  # what the program itself needs is imported by now
            if str(error.name).startswith("forecast"):
                raise
            raise InputError(f"a callback or logger needs a package that is not here: {first_line(error)}") from None


def _make_ready(compiled: CompiledForward, task: ForecastTask, data: ForecastData, trainer: lightning.Trainer) -> None:
    """Compile on the first batch, in the precision of the trainer's steps."""
    batch = next(iter(data.train_dataloader()))

    def loss() -> Tensor:
        with trainer.precision_plugin.train_step_context():
            return task.training_loss(batch)

    compiled.make_ready(loss)


def _is_over(resumed: dict[str, Any], total_steps: int) -> bool:
    """Return whether only the evaluation is left; a run that ran out of time may have been given more."""
    return bool(resumed["finished"] and resumed["total_steps"] == total_steps and resumed["stopped_by"] != TIME)


def _kept(speed: Speed, probe: Probe | None) -> dict[str, Any]:
    """Return the fields of `Fit` that callbacks hold: the probe, and the speed with the probe's share of the fit."""
    figures = speed.figures()
    if probe is None:
        return {"speed": figures, "probe": None}
    seconds = figures["fit_seconds"]
    share = probe.seconds / seconds if seconds > 0 else float("nan")
    return {"speed": {**figures, "probe_share": share}, "probe": probe.last}


def _read_end(task: ForecastTask, speed: Speed, probe: Probe | None, resumed: dict[str, Any]) -> Fit:
    task.load_state_dict(resumed["best"]["weights"])
    for callback in (speed, probe):
        if callback is not None and callback.state_key in resumed["callbacks"]:
            callback.load_state_dict(resumed["callbacks"][callback.state_key])
    return Fit(
        steps=resumed["step"],
        best_step=resumed["best"]["step"],
        status=resumed["stopped_by"],
        **_kept(speed, probe),
    )


def _start(prepared: Preparation, shows_progress: bool) -> tuple[Best, Evidence | None, float]:
    """Return the weights before the first step with their validation MSE, the evidence to beat them, and the time."""
    task, data, confidence = prepared.task, prepared.data, prepared.settings.training.start_confidence
    windows, began = data.parts["validation"], time.monotonic()
    if shows_progress:
        print(f"scoring the start on {len(windows):,} validation windows", flush=True)
    task.to(prepared.device).eval()
    scored = evaluate(task, windows, data.evaluation_batch_size, group=data.group)
    task.train()  # Lightning trains in the mode it finds
    best = Best(step=0, mse=scored.sums.scaled()["mse"], weights=copy_weights(task))
    check_validation(best.mse, 0)
    evidence = None
    if confidence is not None:
        start = torch.from_numpy(data.group.hand_out(scored.mse))  # of all windows on the process that leads
        evidence = Evidence(best.mse, start, math.ceil(windows.horizon / data.evaluation_stride), confidence)
    return best, evidence, time.monotonic() - began


def _fingerprint(data: ForecastData) -> str:
    """Return a hash of the training's data and of what converts them back to original units."""
    digest = hashlib.sha256(json.dumps(data.manifest()).encode())
    train = data.parts["train"]
    for tensor in (train.values, train.known, train.observed, train.starts, data.parts["validation"].starts):
        if tensor is not None:
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
            for piece in tensor.split(HASHED_ROWS):  # a table need not fit into memory
                digest.update(piece.detach().cpu().contiguous().flatten().numpy())
    return digest.hexdigest()
