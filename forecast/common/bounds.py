"""Bounds on the sizes that a file describes, checked before anything of that size is allocated."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch.overrides import TorchFunctionMode

LARGEST = 1_000_000
"""Largest size of an architecture: steps, widths, features. Layers are bounded by `MOST_LAYERS`."""

MOST_LAYERS = 1_000

_FACTORIES = {torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn}


def check_sizes(values: Mapping[str, Any], where: str) -> None:
    """Raise ValueError for a whole number larger than any real model has."""
    for key, value in values.items():
        if isinstance(value, int) and abs(value) > (most := MOST_LAYERS if key.endswith("_layers") else LARGEST):
            raise ValueError(f"{where}.{key}={value}: must be at most {most:,}")


def shapes_of(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors in a safetensors file; only the header is read."""
    with safe_open(path, framework="pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.offset_keys()}


class Room(TorchFunctionMode):
    """Context that limits torch to creating `elements` tensor elements in total.

    A model built there from untrusted sizes takes no more memory or time than its weights do.
    """

    def __init__(self, elements: int) -> None:
        super().__init__()
        self.left = elements

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        if func in _FACTORIES:
            sizes = options.get("size", args)
            shape = sizes[0] if sizes and isinstance(sizes[0], (tuple, list)) else sizes
            self.left -= prod(size for size in shape if isinstance(size, int))
            if self.left < 0:
                raise ValueError("the described model is larger than its weights")
        return func(*args, **options)
