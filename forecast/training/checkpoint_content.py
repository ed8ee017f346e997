"""Checks that the content of a checkpoint fits the training that is to resume from it."""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import torch
from lightning.pytorch.callbacks import Callback, Timer
from torch import Tensor

from forecast.common.errors import InputError, first_line
from forecast.evaluation.significance import Evidence
from forecast.runs.checkpoint import OtherModel, checkpoints, newest_checkpoint
from forecast.runs.run import DAMAGE, RESULT, Run
from forecast.training.callbacks.loop_state import EARLY, STEPS, TIME, load_optimizer
from forecast.training.callbacks.speed import Speed
from forecast.training.task import ForecastTask

KEYS = (
    *("step", "total_steps", "validation_due", "stopped_by", "finished", "data", "network", "optimizer", "scheduler"),
    *("precision", "callbacks", "best", "evidence"),
)
"""Keys of a checkpoint."""

MOST_STEPS, MOST_NODES = 10**12, 10**6
"""Bounds of a plausible checkpoint: steps of the run, and lists and groups in the file."""

OURS = ("forecast.", "lightning.")
"""Modules whose callbacks keep a state of one shape throughout."""


ROOM, COPIES = 2**26, 256
"""Bytes of a checkpoint beside its tensors, and how often it may hold the weights: some optimizers keep many."""


def newest_state(
    run: Run, task: ForecastTask, callbacks: Sequence[Callback], num_windows: int
) -> dict[str, Any] | None:
    """Return the newest checkpoint that is whole and passes `check_content`, None to begin at the first step."""
    there = checkpoints(run.checkpoints)
    size = sum(tensor.numel() * tensor.element_size() for tensor in task.state_dict().values())
    states = [*callbacks, Speed(), Timer(verbose=False)]  # those that every training has

    def check(content: dict[str, Any]) -> None:
        check_content(content, task, states, num_windows)

    found = newest_checkpoint(run.checkpoints, check, ROOM + COPIES * size)
    if found is None and (run.path / RESULT).is_file():
        raise InputError(f"{run.path}: has a result, yet no manifest and no checkpoint: the run folder is damaged")
    if found is None and there:
        print(f"{run.path}: none of its checkpoints is whole: begins again at the first step", file=sys.stderr)
    return found


def check_content(content: Any, task: ForecastTask, callbacks: Sequence[Callback], num_windows: int) -> None:
    """Check a checkpoint's content, whose hash is right, against the training that is to resume from it.

    `task` and `callbacks` are the training's and stay as they are; validation has `num_windows`.
    """
    if not isinstance(content, dict) or set(KEYS) - content.keys():
        raise ValueError("it lacks a part of a checkpoint")
    for tensor in tensors_of(content):
        _check_dense(tensor)
    _check_facts(content)
    weights = task.state_dict()
    check_weights(content["network"], weights, "the weights")
    _check_best(content, weights)
    _check_evidence(content["evidence"], num_windows)
    _check_callbacks(content["callbacks"], callbacks)
    _check_optimizer(content, task)


def tensors_of(content: Any) -> Iterator[Tensor]:
    """Yield the tensors among nested plain values, at any depth."""
    waiting, seen = [content], set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Tensor):
            yield node
        elif isinstance(node, (dict, list, tuple, set)) and id(node) not in seen:
            seen.add(id(node))
            if len(seen) > MOST_NODES:
                raise ValueError("it holds more parts than a checkpoint has")
            waiting.extend(node.values() if isinstance(node, dict) else node)


def check_weights(found: Any, wanted: Mapping[str, Tensor], what: str) -> None:
    """Compare tensors by name with those of a model."""
    if not isinstance(found, dict) or found.keys() != wanted.keys():
        raise OtherModel(f"{what} are not those of this model")
    for name, tensor in wanted.items():
        other = found[name]
        if not isinstance(other, Tensor) or (other.shape, other.dtype) != (tensor.shape, tensor.dtype):
            raise OtherModel(f"{what} are not those of this model ({name})")
        if not torch.isfinite(other).all():
            raise ValueError(f"{what} are not finite ({name})")


def _check_dense(tensor: Tensor) -> None:
    """Refuse a tensor that claims a larger size than is stored."""
    plain = tensor.layout is torch.strided and not tensor.is_quantized and tensor.device.type == "cpu"
    if not plain or tensor.untyped_storage().nbytes() < tensor.numel() * tensor.element_size():
        raise ValueError("it holds a tensor that is larger than its values")


def _check_facts(content: Mapping[str, Any]) -> None:
    step, total = content["step"], content["total_steps"]
    if not (_is_count(step) and _is_count(total) and step <= total <= MOST_STEPS):
        raise ValueError("its step is none of a run's")
    if content["stopped_by"] not in (None, STEPS, TIME, EARLY):
        raise ValueError("its end is none that a run has")
    for key, kind in (("validation_due", bool), ("finished", bool), ("data", str), ("precision", dict)):
        if not isinstance(content[key], kind):
            raise ValueError(f"its {key} is no {kind.__name__}")


def _check_best(content: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    best = content["best"]
    if best is None:
        if content["finished"] and content["stopped_by"] != TIME:
            raise ValueError("it is of a finished training and has no best weights")
        return
    if not isinstance(best, dict) or best.keys() != {"step", "mse", "weights"}:
        raise ValueError("it lacks a part of the best weights")
    if not _is_count(best["step"]) or best["step"] > content["step"] or not _is_finite(best["mse"]):
        raise ValueError("step or MSE of its best weights are none of this run's")
    check_weights(best["weights"], weights, "the best weights")


def _check_evidence(evidence: Any, num_windows: int) -> None:
    if evidence is None:
        return
    if not isinstance(evidence, dict) or evidence.keys() != Evidence.__dataclass_fields__.keys():
        raise ValueError("it lacks a part of the scores of the start")
    start = evidence["start"]
    if not isinstance(start, Tensor) or (start.shape, start.dtype) != ((num_windows,), torch.float64):
        raise ValueError("the scores of the start are not those of the validation windows")
    confidence, overlap = evidence["confidence"], evidence["overlap"]
    sure = _is_finite(confidence) and 0.5 <= confidence < 1
    if not (sure and _is_finite(evidence["mse"]) and _is_count(overlap) and overlap > 0):
        raise ValueError("the scores of the start are none")


def _check_callbacks(states: Any, callbacks: Sequence[Callback]) -> None:
    """Compare the states with the callbacks' current ones, and try to load them on copies."""
    if not isinstance(states, dict):
        raise ValueError("it has no states of callbacks")
    for callback in callbacks:
        if callback.state_key not in states:
            continue
        name, state = type(callback).__name__, states[callback.state_key]
        if not isinstance(state, dict):
            raise ValueError(f"its state of {name} is none")
        if type(callback).__module__.startswith(OURS) and not _are_alike(callback.state_dict(), state):
            raise ValueError(f"its state of {name} is of another kind")
        try:
            deepcopy(callback).load_state_dict(deepcopy(state))
        except DAMAGE as error:
            raise ValueError(f"its state of {name} cannot be loaded ({first_line(error)})") from None


def _check_optimizer(content: Mapping[str, Any], task: ForecastTask) -> None:
    """Make a step without gradients on a copy of the model, from the saved optimizer and schedule.

    Accept the state where a fresh optimizer cannot make such a step either, such as one that needs a closure.
    """
    optimizer, scheduler = content["optimizer"], content["scheduler"]
    if not isinstance(optimizer, dict) or not isinstance(scheduler, dict):
        raise ValueError("it has no state of optimizer or schedule")
    if any(tensor.is_floating_point() and not torch.isfinite(tensor).all() for tensor in tensors_of(optimizer)):
        raise ValueError("the state of its optimizer is not finite")
    try:
        fresh, schedule = _step_on_a_copy(task, None)
    except DAMAGE:
        return
    _check_states(optimizer, fresh)
    if schedule.keys() - scheduler.keys() or not _are_alike(schedule, scheduler):
        raise ValueError("the state of its schedule lacks a part")
    try:
        _step_on_a_copy(task, content)
    except DAMAGE as error:
        raise ValueError(f"its optimizer and schedule do not go with this model ({first_line(error)})") from None


def _check_states(optimizer: Mapping[str, Any], fresh: Mapping[str, Any]) -> None:
    """Compare an optimizer's states with those of a fresh one after a step: a fused step trusts their shapes."""
    states, wanted = optimizer.get("state"), fresh["state"]
    if not isinstance(states, dict) or states.keys() - wanted.keys():
        raise ValueError("the state of its optimizer is of other weights")
    for number, state in states.items():
        if not isinstance(state, dict) or state.keys() != wanted[number].keys():
            raise ValueError("the state of its optimizer lacks a part")
        if not all(_has_shape(state[name], value) for name, value in wanted[number].items()):
            raise ValueError("the state of its optimizer is of other shapes")


def _has_shape(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Tensor):
        return isinstance(found, Tensor) and (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    return _are_alike(wanted, found)


def _step_on_a_copy(task: ForecastTask, content: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the optimizer's state after the step, and the schedule's before it."""
    network = deepcopy(task.network)
    optimizer, scheduler = task.make_optimizers(network)
    schedule = deepcopy(scheduler.state_dict())
    if content is not None:
        states = {key: deepcopy(content[key]) for key in ("optimizer", "scheduler", "total_steps", "step")}
        load_optimizer(optimizer, scheduler, states, task.total_steps)  # copies: a step writes into what it was given
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    optimizer.step()
    if not all(torch.isfinite(parameter).all() for parameter in network.parameters()):
        raise ValueError("the step leaves weights that are not finite")
    if content is None or content["step"] < task.total_steps:
        scheduler.step()
    if not all(_is_finite(float(rate)) for rate in scheduler.get_last_lr()):
        raise ValueError("the rate is not finite")
    return optimizer.state_dict(), schedule


def _are_alike(ours: Any, theirs: Any) -> bool:
    """Return whether `theirs` has the structure of the current state `ours`: the same kinds in the same places."""
    if ours is None:
        return True
    if isinstance(ours, Tensor):
        return isinstance(theirs, Tensor) and ours.dim() == theirs.dim()
    if isinstance(ours, Mapping):
        return isinstance(theirs, Mapping) and all(
            _are_alike(value, theirs[key]) for key, value in ours.items() if key in theirs
        )
    if isinstance(ours, (int, float)) and not isinstance(ours, bool):
        return isinstance(theirs, (int, float)) and not isinstance(theirs, bool)
    return isinstance(theirs, type(ours))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
