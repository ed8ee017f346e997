"""Dropout that does not wait for the CPU's serial random numbers."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Dropout(nn.Module):
    """Sets each element to 0 with probability `p` in training and scales the others by 1 / (1 - p).

    On the CPU torch draws one random number an element, one after the other: at the default model's sizes
    that is two fifths of a training step. Here one 64-bit number serves four elements, so `p` is met to
    2^-16, and the scale is that of the probability met. Elsewhere it is torch's own.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, values: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return values
        if values.device.type != "cpu":
            return functional.dropout(values, self.p)
        return values * keep_mask(values.numel(), self.p).to(values.dtype).view(values.shape)

    def extra_repr(self) -> str:
        """Give the probability, for the printed model."""
        return f"p={self.p}"


def keep_mask(count: int, p: float) -> Tensor:
    """Give `count` factors on the CPU, float32: 0 with probability `p`, else what keeps the mean at 1."""
    threshold = round(p * 65536)
    words = _random_words((count + 3) // 4)
    kept = words.view(torch.int16)[:count] >= threshold - 32768
    return kept.to(torch.float32).mul_(65536 / (65536 - threshold))


def _random_words(count: int) -> Tensor:
    """Give `count` numbers of 64 random bits, shape (count,), int64."""
    lowest = -(2**63)
    if torch.compiler.is_compiling():  # torch.compile takes no draw in place; this one's highest bit is the other
        return torch.randint(lowest, -(lowest + 1), (count,)) ^ lowest
    return torch.empty(count, dtype=torch.int64).random_(lowest, None)
