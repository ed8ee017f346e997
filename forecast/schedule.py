"""Learning rates over the steps of a run, as factors of the optimizer's own rate."""

from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, OneCycleLR, SequentialLR


def one_cycle(optimizer: Optimizer, total_steps: int, *, warmup_fraction: float) -> LRScheduler:
    """Give a rise to the optimizer's rate over `warmup_fraction` of the steps and a cosine fall to zero.

    References
    ----------
    Smith and Topin, "Super-Convergence", 2019, arXiv:1708.07120.
    """
    rates = [group["lr"] for group in optimizer.param_groups]
    return OneCycleLR(optimizer, max_lr=rates, total_steps=total_steps, pct_start=warmup_fraction, cycle_momentum=False)


def cosine(optimizer: Optimizer, total_steps: int, *, warmup_steps: int, final_factor: float) -> LRScheduler:
    """Give a linear rise over `warmup_steps`, then a half cosine down to `final_factor` of the rate.

    References
    ----------
    Loshchilov and Hutter, "SGDR", ICLR 2017, arXiv:1608.03983, without restarts.
    """
    warmup_steps = min(warmup_steps, total_steps - 1)
    lowest = final_factor * max(group["lr"] for group in optimizer.param_groups)
    fall = CosineAnnealingLR(optimizer, total_steps - warmup_steps, eta_min=lowest)
    if not warmup_steps:
        return fall
    rise = LinearLR(optimizer, 1 / (warmup_steps + 1), total_iters=warmup_steps)
    return SequentialLR(optimizer, [rise, fall], [warmup_steps])
