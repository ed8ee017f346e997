"""Learning rate schedules, as factors of the optimizer's learning rate."""

import inspect
import math
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, OneCycleLR, ReduceLROnPlateau

from forecast.common.errors import InputError


def one_cycle(optimizer: Optimizer, total_steps: int, *, warmup_fraction: float) -> LRScheduler:
    """Return a warm-up to the optimizer's rate over `warmup_fraction` of the steps, then a cosine decay to zero.

    References
    ----------
    Smith and Topin, "Super-Convergence", 2019, arXiv:1708.07120.
    """
    if not 0 <= warmup_fraction < 1:
        raise InputError(f"scheduler.warmup_fraction={warmup_fraction}: must be from 0 to less than 1")
    rates = [group["lr"] for group in optimizer.param_groups]
    # torch divides by the steps of a phase minus one, so a warm-up of one step would divide by zero
    rise = 0.0 if warmup_fraction * total_steps == 1 else float(warmup_fraction)
    return OneCycleLR(optimizer, max_lr=rates, total_steps=total_steps, pct_start=rise, cycle_momentum=False)


def cosine(optimizer: Optimizer, total_steps: int, *, warmup_steps: int, final_factor: float) -> LRScheduler:
    """Return a linear warm-up over `warmup_steps`, then a cosine decay to `final_factor` of the rate.

    References
    ----------
    Loshchilov and Hutter, "SGDR", ICLR 2017, arXiv:1608.03983, without restarts.
    """
    if warmup_steps < 0 or not 0 <= final_factor <= 1:
        raise InputError(
            f"scheduler.warmup_steps={warmup_steps}, scheduler.final_factor={final_factor}: "
            "the steps must be at least 0, the factor from 0 to 1"
        )
    warmup = min(warmup_steps, total_steps - 1)

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / (warmup + 1)
        done = min(1.0, (step - warmup) / (total_steps - warmup))
        return final_factor + (1 - final_factor) * (1 + math.cos(math.pi * done)) / 2

    return LambdaLR(optimizer, factor)


def halving(optimizer: Optimizer, total_steps: int, *, periods: int) -> LRScheduler:
    """Return a learning rate that is halved after each of `periods` equal periods of the run.

    References
    ----------
    Zhou et al., "Informer", AAAI 2021, arXiv:2012.07436, section 4.2, where a period is an epoch.
    """
    if not isinstance(periods, int) or isinstance(periods, bool) or periods < 1:
        raise InputError(f"scheduler.periods={periods}: must be a whole number of at least 1")
    return LambdaLR(optimizer, lambda step: 0.5 ** (step * periods // total_steps))


SCHEDULES = (one_cycle, cosine, halving)
"""Schedules that a configuration may name, besides those of torch."""


LENGTHS = ("total_steps", "T_max", "total_iters", "T_0")
"""Names that schedules have for the number of steps."""


def with_length(make: Callable[..., LRScheduler], total_steps: int) -> Callable[..., LRScheduler]:
    """Return a constructor of schedules with the length of the run, where it has an argument for it without a value.

    Raises
    ------
    InputError
        For a schedule that follows a measured value: it has none at a step.
    """
    target, given = (make.func, make.keywords) if isinstance(make, partial) else (make, {})
    if target is ReduceLROnPlateau:
        raise InputError(
            "scheduler._target_=torch.optim.lr_scheduler.ReduceLROnPlateau: follows a score, and rates change at each "
            "step here: use scheduler=one_cycle, cosine or halving"
        )
    names = [name for name in LENGTHS if name in inspect.signature(target).parameters]
    return partial(make, **{names[0]: total_steps}) if names and names[0] not in given else make


def restore_with_new_length(optimizer: Optimizer, scheduler: LRScheduler, saved: dict[str, Any], step: int) -> None:
    """Restore the `saved` optimizer state at `step`, with the learning rates of a run of another length.

    `optimizer` and `scheduler` are fresh. The rates of this file are functions of the step. Other schedules of torch
    compute a rate from the last one, so they repeat all steps.
    """
    step = min(step, getattr(scheduler, "total_steps", step))
    if not isinstance(scheduler, LambdaLR | OneCycleLR):
        for _ in range(step):
            scheduler.step()
    elif step:
        scheduler.last_epoch, scheduler._step_count = step - 1, step + 1
        scheduler.step()
    rates = deepcopy(optimizer.state_dict()["param_groups"])
    optimizer.load_state_dict({"state": saved["state"], "param_groups": rates})
