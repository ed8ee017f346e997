"""Batch normalization over the batches of all processes."""

from typing import Any

import torch
import torch.distributed as distributed
from torch import Tensor, nn

from forecast.attention.base import Mask, at_least_float32, full_precision


class BatchNorm(nn.BatchNorm1d):
    """Batch normalization of (B, D, L) over batch and time, per channel; statistics cover all processes.

    The number of processes does not change the result if all have equally many windows. Tokens that a mask (B, L) hides
    do not count in the statistics. torch's `SyncBatchNorm` works on GPUs only. Source: Ioffe and Szegedy, ICML 2015,
    arXiv:1502.03167.
    """

    def forward(self, features: Tensor, mask: Mask = None) -> Tensor:
        """Return the normalized features (B, D, L)."""
        if not self._computes_statistics(mask):
            normed: Tensor = super().forward(features)
            return normed
        with full_precision(features):
            precise = features.to(at_least_float32(features))
            return self._normalized(precise, mask).to(features.dtype)

    def _computes_statistics(self, mask: Mask) -> bool:
        """Return whether torch's batch norm has other statistics: of this process only, and of hidden tokens too."""
        return self.training and (mask is not None or _is_distributed())

    def _normalized(self, features: Tensor, mask: Mask) -> Tensor:
        mean, count = _mean_over_processes(features, mask)  # (1, D, 1)
        centered = features - mean
        variance, _ = _mean_over_processes(centered.square(), mask)
        self._track(mean, variance, count)
        scaled: Tensor = centered * (variance + self.eps).rsqrt()
        return scaled * self.weight[:, None] + self.bias[:, None]

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor, count: int | Tensor) -> None:
        """Update the running statistics, as torch does."""
        assert self.momentum is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        others = max(1, count - 1) if isinstance(count, int) else (count - 1).clamp(min=1)
        unbiased = variance * count / others
        for running, new in ((self.running_mean, mean), (self.running_var, unbiased)):
            assert running is not None
            running.lerp_(new.flatten(), self.momentum)


class _Sum(torch.autograd.Function):
    """Sum over all processes. The gradient is summed as well, since the loss of each process depends on every term."""

    @staticmethod
    def forward(context: Any, tensor: Tensor) -> Tensor:
        total = tensor.detach().clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        return _sum_over_processes(gradients[0])


def _is_distributed() -> bool:
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def _mean_over_processes(features: Tensor, mask: Mask) -> tuple[Tensor, int | Tensor]:
    """Return the mean (1, D, 1) over the tokens of all processes that `mask` does not hide, and their number."""
    if mask is None:
        processes = distributed.get_world_size()
        mean = _sum_over_processes(features.mean((0, 2), keepdim=True)) / processes
        return mean, processes * features.shape[0] * features.shape[2]
    visible = mask[:, None].to(features.dtype)  # (B, 1, L)
    count = _sum_over_processes(visible.sum()).clamp(min=1)
    return _sum_over_processes((features * visible).sum((0, 2), keepdim=True)) / count, count


def _sum_over_processes(tensor: Tensor) -> Tensor:
    if not _is_distributed():
        return tensor
    total: Tensor = _Sum.apply(tensor)  # type: ignore[no-untyped-call]
    return total
