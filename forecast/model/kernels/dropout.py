"""Dropout that does not wait for the CPU's serial random numbers and holds a byte an element."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Dropout(nn.Module):
    """Sets each element to 0 with probability `p` in training and scales the others by 1 / (1 - p).

    On a CPU torch draws one random number an element, in sequence: two fifths of a training step of the default model.
    Here one 64-bit number serves four elements, so `p` is exact to 2^-16, and the scale follows the rounded `p`.
    Elsewhere it is torch's own.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, values: Tensor) -> Tensor:
        return self.drop(values, self.draw(values))

    def draw(self, like: Tensor) -> Tensor | None:
        """Return which elements of such a tensor are kept, booleans; None where all are or torch draws itself."""
        if not self.training or self.p == 0 or like.device.type != "cpu":
            return None
        return draw(like.shape) >= threshold(self.p)

    def drop(self, values: Tensor, kept: Tensor | None) -> Tensor:
        """Return what is left of `values` by what `draw` gave."""
        if kept is None:
            acts = self.training and values.device.type != "cpu"
            return functional.dropout(values, self.p) if acts else values
        if torch.compiler.is_compiling():
            return values * factors(kept, self.p, values.dtype)
        dropped: Tensor = _Dropped.apply(values, kept, self.p)  # type: ignore[no-untyped-call]
        return dropped

    def extra_repr(self) -> str:
        """Return the probability, for the printed model."""
        return f"p={self.p}"


class _Dropped(torch.autograd.Function):
    """The product with the factors, which are made again for the gradient: torch would hold four bytes for each."""

    @staticmethod
    def forward(context: Any, values: Tensor, kept: Tensor, p: float) -> Tensor:
        context.save_for_backward(kept)
        context.p = p
        return values * factors(kept, p, values.dtype)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (kept,) = context.saved_tensors
        return gradients[0] * factors(kept, context.p, gradients[0].dtype), None, None


def draw(shape: torch.Size) -> Tensor:
    """Return random integers of 16 bits on the CPU."""
    count = shape.numel()
    return _random_words((count + 3) // 4).view(torch.int16)[:count].view(shape)


def _random_words(count: int) -> Tensor:
    """Return `count` numbers of 64 random bits, shape (count,), int64."""
    lowest = -(2**63)
    if torch.compiler.is_compiling():  # torch.compile takes no draw in place; this one's highest bit is the other
        return torch.randint(lowest, -(lowest + 1), (count,)) ^ lowest
    return torch.empty(count, dtype=torch.int64).random_(lowest, None)


def threshold(p: float) -> int:
    """Return what a random integer of 16 bits is below with probability `p`, to 2^-16."""
    return round(p * 65536) - 32768


def scale_of(p: float) -> float:
    """Return the factor that keeps the mean where elements are dropped with the probability that `p` is met to."""
    return 65536 / (32768 - threshold(p))


def factors(kept: Tensor, p: float, dtype: torch.dtype) -> Tensor:
    """Return 0 for an element that is not kept, else what keeps the mean at 1."""
    if torch.compiler.is_compiling():  # it makes one loop of both; version 2.11 cannot view a boolean
        return kept.to(dtype).mul_(scale_of(p))
    return kept.view(torch.uint8).to(dtype).mul_(scale_of(p))  # from a byte it is six times as fast as from a boolean
