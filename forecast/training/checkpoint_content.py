"""Checks that the content of a checkpoint fits the training that resumes from it."""

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
from forecast.runs.summary import EARLY, STEPS, TIME
from forecast.training.callbacks.loop_state import load_optimizer
from forecast.training.callbacks.speed import Speed
from forecast.training.task import ForecastTask

KEYS = (
    *("step", "total_steps", "validation_due", "stopped_by", "finished", "data", "network", "optimizer", "scheduler"),
    *("precision", "callbacks", "best", "evidence"),
)
"""Keys of a checkpoint."""

MAX_STEPS, MAX_CONTAINERS = 10**12, 10**6
"""Limits of a plausible checkpoint: steps of the run, and containers in the file."""

OURS = ("forecast.", "lightning.")
"""Modules whose callbacks keep the structure of their state."""

OTHER_BYTES, MAX_COPIES = 2**26, 256
"""Size limit of a checkpoint: bytes besides the weights, and copies of the weights, of which optimizers keep some."""


def newest_state(
    run: Run, task: ForecastTask, callbacks: Sequence[Callback], num_windows: int
) -> dict[str, Any] | None:
    """Return the newest intact checkpoint that passes `check_content`; None: start at the first step."""
    has_checkpoints = bool(checkpoints(run.checkpoints))
    size = sum(tensor.numel() * tensor.element_size() for tensor in task.state_dict().values())
    states = [*callbacks, Speed(), Timer(verbose=False)]  # all trainings have the last two

    def check(content: dict[str, Any]) -> None:
        check_content(content, task, states, num_windows)

    state = newest_checkpoint(run.checkpoints, check, OTHER_BYTES + MAX_COPIES * size)
    if state is None and (run.path / RESULT).is_file():
        raise InputError(f"{run.path}: has a result but no manifest and no checkpoint: remove it, or set resume=false")
    if state is None and has_checkpoints:
        print(f"{run.path}: all checkpoints are damaged: starting again from the first step", file=sys.stderr)
    return state


def check_content(content: Any, task: ForecastTask, callbacks: Sequence[Callback], num_windows: int) -> None:
    """Check the content of a checkpoint, whose hash is correct, against the training that resumes from it.

    `task` and `callbacks` belong to the training and are not changed. The validation split has `num_windows`.
    """
    if not isinstance(content, dict) or set(KEYS) - content.keys():
        raise ValueError("it lacks a key of a checkpoint")
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
    """Yield all tensors of nested plain values."""
    stack, seen = [content], set()
    while stack:
        node = stack.pop()
        if isinstance(node, Tensor):
            yield node
        elif isinstance(node, (dict, list, tuple, set)) and id(node) not in seen:
            seen.add(id(node))
            if len(seen) > MAX_CONTAINERS:
                raise ValueError("it holds more values than a checkpoint has")
            stack.extend(node.values() if isinstance(node, dict) else node)


def check_weights(saved: Any, current: Mapping[str, Tensor], what: str) -> None:
    """Refuse `saved` tensors that differ from the `current` ones in name, shape or dtype, or are not finite."""
    if not isinstance(saved, dict) or saved.keys() != current.keys():
        raise OtherModel(f"{what} do not fit this model")
    for name, tensor in current.items():
        other = saved[name]
        if not isinstance(other, Tensor) or (other.shape, other.dtype) != (tensor.shape, tensor.dtype):
            raise OtherModel(f"{what} do not fit this model ({name})")
        if not torch.isfinite(other).all():
            raise ValueError(f"{what} are not finite ({name})")


def _check_dense(tensor: Tensor) -> None:
    """Refuse a tensor whose declared size exceeds its storage."""
    plain = tensor.layout is torch.strided and not tensor.is_quantized and tensor.device.type == "cpu"
    if not plain or tensor.untyped_storage().nbytes() < tensor.numel() * tensor.element_size():
        raise ValueError("it holds a tensor whose size exceeds its storage")


def _check_facts(content: Mapping[str, Any]) -> None:
    step, total = content["step"], content["total_steps"]
    if not (_is_count(step) and _is_count(total) and step <= total <= MAX_STEPS):
        raise ValueError("its step is not valid")
    if content["stopped_by"] not in (None, STEPS, TIME, EARLY):
        raise ValueError("its stopped_by is not valid")
    for key, kind in (("validation_due", bool), ("finished", bool), ("data", str), ("precision", dict)):
        if not isinstance(content[key], kind):
            raise ValueError(f"its {key} is not a {kind.__name__}")


def _check_best(content: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    best = content["best"]
    if best is None:
        if content["finished"] and content["stopped_by"] != TIME:
            raise ValueError("its training is finished but it has no best weights")
        return
    if not isinstance(best, dict) or best.keys() != {"step", "score", "weights"}:
        raise ValueError("its best weights lack a key")
    if not _is_count(best["step"]) or best["step"] > content["step"] or not _is_finite(best["score"]):
        raise ValueError("step or score of its best weights is not valid")
    check_weights(best["weights"], weights, "the best weights")


def _check_evidence(evidence: Any, num_windows: int) -> None:
    if evidence is None:
        return
    if not isinstance(evidence, dict) or evidence.keys() != Evidence.__dataclass_fields__.keys():
        raise ValueError("its scores before training lack a key")
    start = evidence["start"]
    if not isinstance(start, Tensor) or (start.shape, start.dtype) != ((num_windows,), torch.float64):
        raise ValueError("its scores before training do not fit the validation windows")
    confidence, overlap = evidence["confidence"], evidence["overlap"]
    valid = _is_finite(confidence) and 0.5 <= confidence < 1
    if not (valid and _is_finite(evidence["score"]) and _is_count(overlap) and overlap > 0):
        raise ValueError("its scores before training are not valid")


def _check_callbacks(states: Any, callbacks: Sequence[Callback]) -> None:
    """Compare the saved states with the current ones of the callbacks, and load them into copies."""
    if not isinstance(states, dict):
        raise ValueError("its states of the callbacks are no group of values")
    for callback in callbacks:
        if callback.state_key not in states:
            continue
        name, state = type(callback).__name__, states[callback.state_key]
        if not isinstance(state, dict):
            raise ValueError(f"its state of {name} is no group of values")
        if type(callback).__module__.startswith(OURS) and not _have_same_structure(callback.state_dict(), state):
            raise ValueError(f"its state of {name} has another structure")
        try:
            deepcopy(callback).load_state_dict(deepcopy(state))
        except DAMAGE as error:
            raise ValueError(f"its state of {name} cannot be loaded ({first_line(error)})") from None


def _check_optimizer(content: Mapping[str, Any], task: ForecastTask) -> None:
    """Make a step with zero gradients on a copy of the model, from the saved optimizer and schedule.

    Accept any state if a fresh optimizer cannot make such a step either, for example because it needs a closure.
    """
    optimizer, scheduler = content["optimizer"], content["scheduler"]
    if not isinstance(optimizer, dict) or not isinstance(scheduler, dict):
        raise ValueError("its state of optimizer or schedule is no group of values")
    if any(tensor.is_floating_point() and not torch.isfinite(tensor).all() for tensor in tensors_of(optimizer)):
        raise ValueError("its optimizer state is not finite")
    try:
        fresh, schedule = _step_on_a_copy(task, None)
    except DAMAGE:
        return
    _check_states(optimizer, fresh)
    if schedule.keys() - scheduler.keys() or not _have_same_structure(schedule, scheduler):
        raise ValueError("its schedule state lacks a key or has another structure")
    try:
        _step_on_a_copy(task, content)
    except DAMAGE as error:
        raise ValueError(f"its optimizer and schedule do not fit this model ({first_line(error)})") from None


def _check_states(optimizer: Mapping[str, Any], fresh: Mapping[str, Any]) -> None:
    """Compare the optimizer state with that of a fresh one after a step, since a fused step does not check shapes."""
    saved, expected = optimizer.get("state"), fresh["state"]
    if not isinstance(saved, dict) or saved.keys() - expected.keys():
        raise ValueError("its optimizer state belongs to other weights")
    for number, state in saved.items():
        if not isinstance(state, dict) or state.keys() != expected[number].keys():
            raise ValueError("its optimizer state lacks a key")
        if not all(_has_shape(state[name], value) for name, value in expected[number].items()):
            raise ValueError("its optimizer state has other shapes")


def _has_shape(value: Any, expected: Any) -> bool:
    if isinstance(expected, Tensor):
        return isinstance(value, Tensor) and (value.shape, value.dtype) == (expected.shape, expected.dtype)
    return _have_same_structure(expected, value)


def _step_on_a_copy(task: ForecastTask, content: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make a step on a copy of the network; return the optimizer state after it and the schedule state before it."""
    network = deepcopy(task.network)
    optimizer, scheduler = task.make_optimizers(network)
    schedule = deepcopy(scheduler.state_dict())
    if content is not None:
        states = {key: deepcopy(content[key]) for key in ("optimizer", "scheduler", "total_steps", "step")}
        load_optimizer(optimizer, scheduler, states, task.total_steps)  # a step changes loaded states in place
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    optimizer.step()
    if not all(torch.isfinite(parameter).all() for parameter in network.parameters()):
        raise ValueError("a step makes the weights not finite")
    if content is None or content["step"] < task.total_steps:
        scheduler.step()
    if not all(_is_finite(float(rate)) for rate in scheduler.get_last_lr()):
        raise ValueError("the learning rate is not finite")
    return optimizer.state_dict(), schedule


def _have_same_structure(current: Any, saved: Any) -> bool:
    """Return whether the values of `saved` have the types of the `current` state; None accepts any type."""
    if current is None:
        return True
    if isinstance(current, Tensor):
        return isinstance(saved, Tensor) and current.dim() == saved.dim()
    if isinstance(current, Mapping):
        return isinstance(saved, Mapping) and all(
            _have_same_structure(value, saved[key]) for key, value in current.items() if key in saved
        )
    if isinstance(current, (int, float)) and not isinstance(current, bool):
        return isinstance(saved, (int, float)) and not isinstance(saved, bool)
    return isinstance(saved, type(current))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
