"""Sizes of intermediate tensors and number of calls of a computation."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def largest_tensor(call: Callable[[], Any]) -> int:
    """Return the number of elements of the largest tensor that torch returns in `call`."""
    return max(sizes_of(call), default=0)


def number_of_steps(call: Callable[[], Any]) -> int:
    """Return the number of torch functions called in `call`."""
    return len(sizes_of(call))


def sizes_of(call: Callable[[], Any]) -> list[int]:
    """Return the number of elements that each torch function returns in `call`, 0 if not a tensor."""
    sizes = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            sizes.append(result.numel() if isinstance(result, Tensor) else 0)
            return result

    with Watch():
        call()
    return sizes
