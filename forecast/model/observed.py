"""Contexts of which not all was measured: what stands in the other places is not looked at."""

import torch
from torch import Tensor
from torch.nn import functional


def observed_mean(past: Tensor, observed: Tensor) -> Tensor:
    """Give the mean over a window's observed steps, shape (B, 1, C) of a context (B, T, C); 0 where there is none."""
    return torch.where(observed, past, 0).sum(1, keepdim=True) / observed.sum(1, keepdim=True).clamp(min=1)


def held(past: Tensor, observed: Tensor) -> Tensor:
    """Give the context (B, T, C) with each unobserved value as the last observed one before it.

    What has none before it in the window becomes the mean of those that were observed, 0 where none was.
    """
    length = past.shape[1]
    steps = torch.arange(length, device=past.device).view(1, length, 1)
    newest = torch.where(observed, steps, -1)
    reach = 1
    while reach < length:  # each step has seen twice as many before it after every turn; ONNX has no running maximum
        newest = torch.maximum(newest, functional.pad(newest[:, :-reach], (0, 0, reach, 0), value=-1))
        reach *= 2
    mean = observed_mean(past, observed)
    known = torch.where(observed, past, mean)
    return torch.where(newest < 0, mean, known.gather(1, newest.clamp(min=0)))
