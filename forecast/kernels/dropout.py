"""Dropout with fast random numbers on a CPU and one stored byte per element."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Dropout(nn.Module):
    """Dropout: in training, set elements to 0 with probability `p` and scale the others by 1 / (1 - p).

    On a CPU, torch draws one random number per element, which takes 40 % of a training step of the default model.
    Here one 64-bit number serves four elements: `p` is rounded to a multiple of 2^-16, and the scale with it. On other
    devices this is torch's dropout.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, values: Tensor) -> Tensor:
        return self.drop(values, self.draw(values))

    def draw(self, like: Tensor) -> Tensor | None:
        """Return the boolean mask of elements to keep, shape of `like`; None if all are kept or torch draws."""
        if not self.training or self.p == 0 or like.device.type != "cpu":
            return None
        return draw(like.shape) >= threshold(self.p)

    def drop(self, values: Tensor, keep: Tensor | None) -> Tensor:
        """Apply the mask that `draw` returned to `values`."""
        if keep is None:
            is_active = self.training and values.device.type != "cpu"
            return functional.dropout(values, self.p) if is_active else values
        if torch.compiler.is_compiling():
            return values * factors(keep, self.p, values.dtype)
        dropped: Tensor = _Dropped.apply(values, keep, self.p)  # type: ignore[no-untyped-call]
        return dropped

    def extra_repr(self) -> str:
        """Return the probability, as shown by `repr`."""
        return f"p={self.p}"


class _Dropped(torch.autograd.Function):
    """Product with the factors; the backward pass recomputes them, where torch would store four bytes per element."""

    @staticmethod
    def forward(context: Any, values: Tensor, keep: Tensor, p: float) -> Tensor:
        context.save_for_backward(keep)
        context.p = p
        return values * factors(keep, p, values.dtype)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (keep,) = context.saved_tensors
        return gradients[0] * factors(keep, context.p, gradients[0].dtype), None, None


def draw(shape: torch.Size) -> Tensor:
    """Return random 16-bit integers of `shape` on the CPU."""
    count = shape.numel()
    return _random_words((count + 3) // 4).view(torch.int16)[:count].view(shape)


def _random_words(count: int) -> Tensor:
    """Return `count` numbers of 64 random bits, shape (count,), int64."""
    lowest = -(2**63)
    if torch.compiler.is_compiling():  # torch.compile has no in-place draw; the XOR gives the same numbers
        return torch.randint(lowest, -(lowest + 1), (count,)) ^ lowest
    return torch.empty(count, dtype=torch.int64).random_(lowest, None)


def threshold(p: float) -> int:
    """Return the 16-bit integer below which a random one is with probability `p`, rounded to 2^-16."""
    return round(p * 65536) - 32768


def scale_of(p: float) -> float:
    """Return the scale of kept elements, 1 / (1 - p) for the rounded `p`."""
    return 65536 / (32768 - threshold(p))


def factors(keep: Tensor, p: float, dtype: torch.dtype) -> Tensor:
    """Return 0 for a dropped element and `scale_of(p)` for a kept one."""
    if torch.compiler.is_compiling():  # torch 2.11 cannot compile a view of booleans, and fuses both steps
        return keep.to(dtype).mul_(scale_of(p))
    return keep.view(torch.uint8).to(dtype).mul_(scale_of(p))  # six times as fast from bytes as from booleans
