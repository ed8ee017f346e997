"""Batch normalisation whose batch is that of all processes which train together."""

from typing import Any

import torch
import torch.distributed as distributed
from torch import Tensor, nn


class BatchNorm(nn.BatchNorm1d):
    """Normalises each channel of (B, D, L) over batch and time (Ioffe and Szegedy, ICML 2015, arXiv:1502.03167).

    In distributed training, with equal numbers of windows, mean and variance are those of all processes together,
    so the number of processes does not change the result. Torch's `SyncBatchNorm` does so on GPUs alone.
    """

    def forward(self, features: Tensor) -> Tensor:
        """Return the normalised features."""
        if not (self.training and _several()):
            normed: Tensor = super().forward(features)
            return normed
        with torch.autocast(features.device.type, enabled=False):
            return self._over_all(features.float()).to(features.dtype)

    def over_tokens(self, tokens: Tensor) -> Tensor:
        """Return the normalised tokens, (B, L, D) to the same."""
        if self.training and _several():
            channels_first: Tensor = self(tokens.transpose(1, 2))
            return channels_first.transpose(1, 2)
        # (B, L, 1, D) seen as (B, D, L, 1): torch has a kernel for channels that lie side by side, of images alone
        image = tokens.unsqueeze(2).permute(0, 3, 1, 2)
        normed: Tensor = super().forward(image).permute(0, 2, 3, 1).squeeze(2)
        return normed

    def _check_input_dim(self, input: Tensor) -> None:
        assert input.ndim in (3, 4)

    def _over_all(self, features: Tensor) -> Tensor:
        processes = distributed.get_world_size()
        mean = _add_up(features.mean((0, 2), keepdim=True)) / processes  # (1, D, 1)
        centred = features - mean
        variance = _add_up(centred.square().mean((0, 2), keepdim=True)) / processes
        self._track(mean, variance, processes * features.shape[0] * features.shape[2])
        scaled: Tensor = centred * (variance + self.eps).rsqrt()
        return scaled * self.weight[:, None] + self.bias[:, None]

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """Move the statistics of evaluation towards those of this batch, as torch does."""
        assert self.momentum is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        unbiased = variance * count / max(1, count - 1)
        for kept, new in ((self.running_mean, mean), (self.running_var, unbiased)):
            assert kept is not None
            kept.lerp_(new.flatten(), self.momentum)


class _Sum(torch.autograd.Function):
    """Adds up a tensor over all processes; so is the gradient, as each process's loss depends on each summand."""

    @staticmethod
    def forward(context: Any, tensor: Tensor) -> Tensor:
        total = tensor.detach().clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        return _add_up(gradients[0])


def _several() -> bool:
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def _add_up(tensor: Tensor) -> Tensor:
    total: Tensor = _Sum.apply(tensor)  # type: ignore[no-untyped-call]
    return total
