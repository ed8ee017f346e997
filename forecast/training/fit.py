"""The fit of a run: the Lightning trainer, its callbacks, and the best weights at the end."""

import copy
import hashlib
import json
import logging
import time
import warnings
from collections.abc import Mapping, Sequence
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
from forecast.common.memory import keep_freed_memory
from forecast.common.progress import say
from forecast.data.datamodule import ForecastData
from forecast.evaluation.combination import whole
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.holdout import HeldOutBlock, blocks
from forecast.evaluation.mixing import QuantileSums
from forecast.evaluation.significance import FEWEST, Evidence
from forecast.model.compiling import LEAF_SPEC, CompiledForward
from forecast.runs.summary import TIME
from forecast.training.callbacks.checkpoints import Best, Checkpoints, copy_weights
from forecast.training.callbacks.held_out import NETWORK, HeldOutSelection, Start
from forecast.training.callbacks.loop_state import stopped_by
from forecast.training.callbacks.probe import Probe
from forecast.training.callbacks.profile import Profile
from forecast.training.callbacks.progress import StepProgress
from forecast.training.callbacks.speed import Speed
from forecast.training.parallel.strategy import leave_signals_alone, spread
from forecast.training.prepare import Preparation
from forecast.training.task import ForecastTask

logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)

PATH = "network.linear_path."
"""Prefix of the linear path's weights in a task."""

HASHED_ROWS = 2**16
"""Rows of a table hashed in one chunk."""


@dataclass(frozen=True)
class Fit:
    """Result of a fit.

    `best_step` 0 means the weights before training. `status` says why the fit ended. `probe` has the findings of the
    last validation, if any. `held_out_blocks` has the weights that were selected without each validation block,
    None if the windows are too few for blocks. `validations` has the step, the training seconds and the MSE of each
    validation, and of starting weights that were scored.
    """

    steps: int
    best_step: int
    speed: dict[str, float]
    status: str
    probe: dict[str, Any] | None
    held_out_blocks: list[HeldOutBlock] | None = None
    validations: tuple[tuple[int, float, float], ...] = ()


def fit(
    prepared: Preparation,
    folder: Path,
    loggers: Sequence[Logger],
    *,
    group: Group = ALONE,
    resumed: dict[str, Any] | None = None,
    resume_hint: str | None = None,
) -> Fit:
    """Train, then restore the weights with the best validation score.

    A model whose linear path starts in closed form can be good before the first step. Its starting weights are then
    scored too, and only a significant validation gain replaces them (`training.start_confidence`).

    `folder` holds the checkpoints. All processes of `group` must call this, each with its own task and data. `resumed`
    is the content of the checkpoint to resume from, which `check_resumed` has accepted; None starts at the first step.
    `resume_hint` says how to resume an interrupted run; None: `resume=<folder>`.
    """
    keep_freed_memory(prepared.device)
    task, data, settings = prepared.task, prepared.data, prepared.settings.training
    fingerprint = _fingerprint(data)
    _check_same_data(fingerprint, group)
    data.group = task.group = group
    data.total_steps = task.total_steps
    data.first_step = 0 if resumed is None else int(resumed["step"])
    shows_progress = settings.progress and group.leads
    best = evidence = start = start_seconds = None
    if (prepared.linear_maps.start is not None or prepared.start is not None) and resumed is None:
        best, evidence, start, start_seconds = _score_start(prepared, shows_progress)
    selection = held_out_selection(prepared, start)
    speed = Speed(task.arithmetic)
    if best is not None and not task.network.levels:  # the score of quantile models is no MSE
        speed.timings.validations.append((0, 0.0, best.score))
    interval = min(task.total_steps, settings.validation_interval(len(data.parts["train"])))
    shown: list[Callback] = [StepProgress(interval, start_seconds)] if shows_progress else []
    shown += [Profile(folder.parent)] if settings.profile and group.leads else []
    probe = next((callback for callback in prepared.callbacks if isinstance(callback, Probe)), None)
    checkpoints = Checkpoints(
        folder=folder,
        fingerprint=fingerprint,
        start=_start_hash(prepared),
        minutes=settings.checkpoint_minutes,
        best=best,
        evidence=evidence,
        resumed=resumed,
        after_save=speed.restart_clocks,
        resume_hint=resume_hint or f"resume={folder.parent}",
    )
    ends = [Timer(settings.duration, verbose=False), *([] if selection is None else [selection]), checkpoints]
    callbacks = [speed, *prepared.callbacks, *shown, *ends]
    trainer = _make_trainer(prepared, group, loggers, callbacks, interval)
    if resumed is not None and _is_over(resumed, task.total_steps):
        for callback in (speed, probe, selection):
            if callback is not None and callback.state_key in resumed["callbacks"]:
                callback.load_state_dict(resumed["callbacks"][callback.state_key])
        steps, best, status = resumed["step"], Best(**resumed["best"]), resumed["stopped_by"]
    else:
        _run_trainer(trainer, prepared, speed)
        steps, status = trainer.global_step, stopped_by(trainer)
        assert status is not None
        best = checkpoints.best or Best(steps, float("nan"), copy_weights(task))
    task.load_state_dict(best.weights)
    return Fit(
        steps=steps,
        best_step=best.step,
        status=status,
        held_out_blocks=_held_out_blocks(prepared, selection),
        **_callback_results(speed, probe),
    )


def held_out_selection(prepared: Preparation, start: Start | None = None) -> HeldOutSelection | None:
    """Return the callback that selects weights without each validation block; None if the windows are too few."""
    parts = blocks(prepared.data.parts["validation"])
    return None if parts is None else HeldOutSelection(parts, start, _start_weights(prepared, len(parts)))


def _start_weights(prepared: Preparation, count: int) -> list[dict[str, Tensor]]:
    """Return the task's weights before training for each of `count` blocks, on the CPU."""
    shared = copy_weights(prepared.task)
    maps = prepared.linear_maps
    if not maps.held_out:
        return [shared] * count
    path = copy.deepcopy(prepared.network.linear_path)
    assert path is not None
    states = []
    for start in maps.held_out:
        path.start_from(start.weight, start.known, maps.offsets)
        own = {f"{PATH}{name}": tensor.detach().cpu().clone() for name, tensor in path.state_dict().items()}
        states.append({**shared, **own})
    return states


def _held_out_blocks(prepared: Preparation, selection: HeldOutSelection | None) -> list[HeldOutBlock] | None:
    """Return the blocks with the weights that were selected without each; None if the windows are too few for blocks.

    If they are too few, and the start is a combination that no training can replace, all windows are one block: the
    combination that was chosen by training windows alone forecasts it.
    """
    if selection is not None:
        return selection.held_out_blocks()
    judged = prepared.validation_blocks
    if not prepared.linear_maps.held_out or judged is None or judged >= FEWEST:
        return None
    (weights,) = _start_weights(prepared, 1)
    network = {name.removeprefix(NETWORK): tensor for name, tensor in weights.items()}
    return [HeldOutBlock(whole(prepared.data.parts["validation"]), network)]


def _check_same_data(fingerprint: str, group: Group) -> None:
    """Refuse to train if the processes have read different data."""
    for rank, other in enumerate(group.gather(fingerprint)):
        if other != fingerprint:
            raise InputError(
                f"process {rank} has read other data than process {group.rank}: give all processes the same file"
            )


def check_resumed(prepared: Preparation, resumed: Mapping[str, Any], where: Path, hint: str) -> None:
    """Refuse a checkpoint that began with other weights, was trained on other data, or for more steps than asked for.

    `where` is the folder of the run. `hint` says how to start over if the run cannot be resumed.
    """
    total_steps = prepared.task.total_steps
    if (began := resumed.get("start")) != (start := _start_hash(prepared)):
        raise InputError(
            f"{where}: start_from={prepared.settings.start_from} has changed since this run began (SHA-256 of its "
            f"weights: {began}, now {start}): restore it, or {hint}"
        )
    if resumed["data"] != _fingerprint(prepared.data):
        raise InputError(f"{where}: the data have changed since this run began: restore them, or {hint}")
    if resumed["step"] > total_steps:
        raise InputError(
            f"{where}: has made {resumed['step']:,} steps already, more than the {total_steps:,} requested: "
            f"raise training.max_steps or training.max_epochs, or {hint}"
        )


def _start_hash(prepared: Preparation) -> str | None:
    """Return the first digits of the hash of the weights that begin the training; None for random ones."""
    return None if prepared.start is None else str(prepared.start.facts["weights"])[:16]


def _make_trainer(
    prepared: Preparation, group: Group, loggers: Sequence[Logger], callbacks: list[Callback], interval: int
) -> lightning.Trainer:
    """Return a trainer that counts steps; checkpoints, progress and signals are handled by this program."""
    options = {
        **asdict(prepared.settings.trainer),
        **spread(group),
        "accelerator": "gpu" if prepared.device.type == "cuda" else "cpu",
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="GPU available but not used")  # as the trainer group says
        trainer = lightning.Trainer(
            **options,
            precision=prepared.settings.training.precision,  # type: ignore[arg-type]
            max_steps=prepared.task.total_steps,
            max_epochs=1,
            val_check_interval=interval,
            check_val_every_n_epoch=None,
            num_sanity_val_steps=0,
            logger=loggers,
            callbacks=callbacks,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
    leave_signals_alone(trainer)
    return trainer


def _run_trainer(trainer: lightning.Trainer, prepared: Preparation, speed: Speed) -> None:
    task, data = prepared.task, prepared.data
    if prepared.settings.training.compile and data.first_step < task.total_steps:
        speed.compiled = _compile(task, data, trainer, prepared.device)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=LEAF_SPEC)
        warnings.filterwarnings("ignore", message="Found .* in eval mode")  # the parts of `freeze`
        warnings.filterwarnings("ignore", message="The number of training batches")  # the line of steps shows it
        try:
            trainer.fit(task, datamodule=data)
        except ModuleNotFoundError as error:  # the program's own packages are imported by now
            if str(error.name).startswith("forecast"):
                raise
            reason = first_line(error)
            raise InputError(f"a callback or logger needs a package that is not installed: {reason}") from None


def _compile(
    task: ForecastTask, data: ForecastData, trainer: lightning.Trainer, device: torch.device
) -> CompiledForward:
    """Compile the network on the first batch, in the training precision."""
    task.to(device).train()
    task.compiled = CompiledForward(task.network, device, task.network.learners)
    batch = next(iter(data.train_dataloader()))

    def loss() -> Tensor:
        with trainer.precision_plugin.train_step_context():
            return task.training_loss(batch)

    task.compiled.make_ready(loss)
    return task.compiled


def _is_over(resumed: dict[str, Any], total_steps: int) -> bool:
    """Return whether only the evaluation remains. A run that ran out of time may have a new time limit."""
    return bool(resumed["finished"] and resumed["total_steps"] == total_steps and resumed["stopped_by"] != TIME)


def _callback_results(speed: Speed, probe: Probe | None) -> dict[str, Any]:
    """Return the fields `speed`, `validations` and `probe` of `Fit`; the speed has the share of time of the probe."""
    figures, validations = speed.timings.figures(), tuple(speed.timings.validations)
    if probe is None:
        return {"speed": figures, "probe": None, "validations": validations}
    seconds = figures["fit_seconds"]
    share = probe.seconds / seconds if seconds > 0 else float("nan")
    return {"speed": {**figures, "probe_share": share}, "probe": probe.last, "validations": validations}


def _score_start(prepared: Preparation, shows_progress: bool) -> tuple[Best, Evidence | None, Start, float]:
    """Score the weights before the first step.

    Return them, the evidence needed to replace them, their scores, and the seconds taken.
    """
    task, data, confidence = prepared.task, prepared.data, prepared.confidence
    windows, began = data.parts["validation"], time.monotonic()
    if shows_progress:
        say(f"scoring the starting weights on {len(windows):,} validation windows")
    task.to(prepared.device).eval()
    chooses = prepared.start is not None and prepared.start.chooses_weight
    score, scores = _start_scores(task, data, chooses_weight=chooses)
    task.train()  # Lightning does not change the mode
    best = Best(step=0, score=score, weights=copy_weights(task))
    check_validation(best.score, 0)
    start = Start(scores, windows.overlap, confidence)
    evidence = None if confidence is None else Evidence(best.score, scores, start.overlap, confidence)
    return best, evidence, start, time.monotonic() - began


@torch.inference_mode()
def _start_scores(task: ForecastTask, data: ForecastData, *, chooses_weight: bool) -> tuple[float, Tensor]:
    """Return the selection score of the starting weights over all targets, and of each validation window (n,).

    The mixing weight becomes the best one on validation if it is to be chosen.
    """
    if not task.network.levels:
        scored = evaluate(task, data.parts["validation"], data.evaluation_batch_size, group=data.group)
        mse = torch.from_numpy(data.group.hand_out(scored.mse))  # the leading process has all windows
        return scored.sums.scaled()["mse"], mse
    task.on_validation_epoch_start()
    for place, batch in enumerate(data.val_dataloader()):
        task.validation_step(batch, place)
    assert isinstance(task.sums, QuantileSums)
    sums, numbers = task.sums.over(data.group), task.window_errors.numbers(data.group)
    mixing_weight = task.network.mixing_weight
    if chooses_weight and mixing_weight is not None and sums.mixing_weight is not None:
        mixing_weight = sums.mixing_weight
        task.network.combination.mixing_weight.fill_(mixing_weight)  # type: ignore[operator]
    return float(sums.window_scores((sums.losses / sums.count)[None], mixing_weight)[0]), sums.window_scores(
        numbers, mixing_weight
    )


def _fingerprint(data: ForecastData) -> str:
    """Return a hash of the training data and of the scaling to original units."""
    manifest = data.contract().to_dict()
    manifest["data"].get("holidays", {}).pop("library", None)  # another version matters only if its holidays differ
    digest = hashlib.sha256(json.dumps(manifest).encode())
    train = data.parts["train"]
    static = None if train.panel is None else train.panel.static
    for tensor in (train.values, train.known, train.observed, train.starts, data.parts["validation"].starts, static):
        if tensor is not None:
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
            for chunk in tensor.split(HASHED_ROWS):  # the table may be larger than memory
                digest.update(chunk.detach().cpu().contiguous().flatten().numpy())
    return digest.hexdigest()
