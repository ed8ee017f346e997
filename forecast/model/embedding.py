"""What tokens have in common: positions computed for any length."""

import math

import torch
from torch import Tensor


def positions(length: int, d_model: int, like: Tensor) -> Tensor:
    """Give sinusoidal positions, shape (length, d_model), on the device and in the dtype of `like`.

    Computed, not looked up: there is no longest sequence. The angles are in float32 in any case.

    References
    ----------
    Vaswani et al. 2017, arXiv:1706.03762, section 3.5.
    """
    position = torch.arange(length, dtype=torch.float32, device=like.device)[:, None]
    pair = torch.arange((d_model + 1) // 2, dtype=torch.float32, device=like.device)
    angle = position * torch.exp(pair * (-2 * math.log(10_000.0) / d_model))  # (length, ceil(D / 2))
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)[:, :d_model].to(like.dtype)
