"""The state of Lightning's loop and callbacks: saved to and restored from checkpoints."""

import math
from collections.abc import Mapping
from typing import Any

from lightning import Trainer
from lightning.pytorch.callbacks import Callback, Timer
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from forecast.runs.summary import EARLY, STEPS, TIME
from forecast.training.schedule import restore_with_new_length
from forecast.training.task import ForecastTask


def states_of(trainer: Trainer) -> dict[str, Any]:
    """Return the states of the callbacks by their keys, which the next step may change."""
    states = ((callback.state_key, callback.state_dict()) for callback in _callbacks(trainer))
    return {key: state for key, state in states if state}


def restore(trainer: Trainer, task: ForecastTask, content: dict[str, Any]) -> None:
    """Restore the state of `trainer` and `task` after the step of a checkpoint."""
    step = content["step"]
    task.load_state_dict(content["network"])
    load_optimizer(trainer.optimizers[0], trainer.lr_scheduler_configs[0].scheduler, content, task.total_steps)
    trainer.precision_plugin.load_state_dict(content["precision"])
    for callback in _callbacks(trainer):
        if callback.state_key in content["callbacks"]:
            callback.load_state_dict(content["callbacks"][callback.state_key])
    loop = trainer.fit_loop.epoch_loop
    steps = loop.automatic_optimization.optim_progress.optimizer.step.total
    for counter in (loop.batch_progress.total, steps):
        for name in vars(counter):
            setattr(counter, name, step)
    loop._batches_that_stepped = step  # the step of the next logged point
    over = content["stopped_by"] == EARLY or (content["stopped_by"] == TIME and seconds_allowed(trainer) == 0)
    trainer.should_stop = task.group.hand_out(over)  # the clocks of the processes differ


def load_optimizer(optimizer: Optimizer, scheduler: LRScheduler, content: Mapping[str, Any], total_steps: int) -> None:
    """Load the states of a checkpoint into a fresh optimizer and a fresh schedule of `total_steps`."""
    if content["total_steps"] == total_steps:
        optimizer.load_state_dict(content["optimizer"])
        scheduler.load_state_dict(content["scheduler"])
    else:
        restore_with_new_length(optimizer, scheduler, content["optimizer"], content["step"])


def stopped_by(trainer: Trainer) -> str | None:
    """Return the reason for the end of the training, None while it runs."""
    if trainer.global_step >= trainer.max_steps:
        return STEPS
    if not trainer.should_stop:
        return None
    return TIME if seconds_allowed(trainer) == 0 else EARLY


def seconds_allowed(trainer: Trainer) -> float:
    """Return the seconds that `training.max_time` leaves, infinity without a limit."""
    left = [callback.time_remaining() for callback in _callbacks(trainer) if isinstance(callback, Timer)]
    return max(0.0, min((seconds for seconds in left if seconds is not None), default=math.inf))


def validate(trainer: Trainer) -> None:
    """Run the validation that the loop would have run after the restored step."""
    loop = trainer.fit_loop.epoch_loop
    loop._batches_that_stepped -= 1
    trainer.validating = True
    loop.val_loop.run()
    trainer.training = True
    loop._batches_that_stepped += 1


def _callbacks(trainer: Trainer) -> list[Callback]:
    return trainer.callbacks  # type: ignore[attr-defined,no-any-return]
