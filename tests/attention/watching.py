"""What a computation holds on its way."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def largest_tensor(call: Callable[[], Any]) -> int:
    """Give the number of elements of the largest tensor that a function of torch gives in `call`."""
    largest = 0

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal largest
            result = function(*args, **(kwargs or {}))
            if isinstance(result, Tensor):
                largest = max(largest, result.numel())
            return result

    with Watch():
        call()
    return largest
