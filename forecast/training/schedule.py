"""Learning rates over the steps of a run, as factors of the optimizer's own rate."""

import math
from copy import deepcopy
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, OneCycleLR

from forecast.common.errors import InputError


def one_cycle(optimizer: Optimizer, total_steps: int, *, warmup_fraction: float) -> LRScheduler:
    """Return a rise to the optimizer's rate over `warmup_fraction` of the steps and a cosine fall to zero.

    References
    ----------
    Smith and Topin, "Super-Convergence", 2019, arXiv:1708.07120.
    """
    if not 0 <= warmup_fraction < 1:
        raise InputError(f"scheduler.warmup_fraction={warmup_fraction}: must be from 0 to less than 1")
    rates = [group["lr"] for group in optimizer.param_groups]
    # torch divides by the steps of each phase less one; a rise of a single step would be none
    rise = 0.0 if warmup_fraction * total_steps == 1 else float(warmup_fraction)
    return OneCycleLR(optimizer, max_lr=rates, total_steps=total_steps, pct_start=rise, cycle_momentum=False)


def cosine(optimizer: Optimizer, total_steps: int, *, warmup_steps: int, final_factor: float) -> LRScheduler:
    """Return a linear rise over `warmup_steps`, then a half cosine down to `final_factor` of the rate.

    References
    ----------
    Loshchilov and Hutter, "SGDR", ICLR 2017, arXiv:1608.03983, without restarts.
    """
    if warmup_steps < 0 or not 0 <= final_factor <= 1:
        raise InputError(
            f"scheduler.warmup_steps={warmup_steps}, scheduler.final_factor={final_factor}: "
            "steps are at least 0, the factor is between 0 and 1"
        )
    warmup = min(warmup_steps, total_steps - 1)

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / (warmup + 1)
        done = min(1.0, (step - warmup) / (total_steps - warmup))
        return final_factor + (1 - final_factor) * (1 + math.cos(math.pi * done)) / 2

    return LambdaLR(optimizer, factor)


def halving(optimizer: Optimizer, total_steps: int, *, periods: int) -> LRScheduler:
    """Return a rate that is halved after each of `periods` equal parts of the run.

    References
    ----------
    Zhou et al., "Informer", AAAI 2021, arXiv:2012.07436, section 4.2, where a part is an epoch.
    """
    if not isinstance(periods, int) or isinstance(periods, bool) or periods < 1:
        raise InputError(f"scheduler.periods={periods}: must be a whole number of at least 1")
    return LambdaLR(optimizer, lambda step: 0.5 ** (step * periods // total_steps))


SCHEDULES = (one_cycle, cosine, halving)
"""Schedules that a configuration may name beside torch's own."""


def lay_out_anew(optimizer: Optimizer, scheduler: LRScheduler, saved: dict[str, Any], step: int) -> None:
    """Continue at `step` in a run of another length: the saved optimizer state, with the rates of the new schedule.

    `optimizer` and `scheduler` are fresh; `saved` is the optimizer's state in the run of the old length. The rates must
    be a function of the step, as they are in this file.
    """
    step = min(step, getattr(scheduler, "total_steps", step))
    if step:
        scheduler.last_epoch, scheduler._step_count = step - 1, step + 1
        scheduler.step()
    rates = deepcopy(optimizer.state_dict()["param_groups"])
    optimizer.load_state_dict({"state": saved["state"], "param_groups": rates})
