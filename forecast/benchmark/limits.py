"""What the machine can do at best, measured in the same run: a large matrix product and a large copy."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from forecast.common.timing import seconds_of

REPETITIONS = 10
SIDE = {"cpu": 2048, "cuda": 8192}
"""Rows of the square matrices that are multiplied."""
COPIED = {"cpu": 2**28, "cuda": 2**31}
"""Bytes that are copied: beyond any cache."""


@dataclass(frozen=True)
class Limits:
    """Floating-point operations a second of a matrix product, bytes a second of a copy."""

    operations: float
    bytes: float


def measure_limits(device: torch.device, dtype: torch.dtype) -> Limits:
    """Return the machine's limits at `dtype`, the fastest of ten passes after a warm-up.

    Each byte copied counts twice: it is read and it is written.
    """
    side, copied = SIDE[device.type], COPIED[device.type]
    operations = product_rate(side, side, side, device, dtype)
    source = torch.randn(copied // 4, device=device)
    target = torch.empty_like(source)
    return Limits(operations, 2 * copied / _fastest(lambda: target.copy_(source), device))


def product_rate(rows: int, inner: int, columns: int, device: torch.device, dtype: torch.dtype) -> float:
    """Return the operations a second of (rows, inner) times (inner, columns), the fastest of ten after a warm-up."""
    left = torch.randn(rows, inner, device=device).to(dtype)
    right = torch.randn(inner, columns, device=device).to(dtype)
    product = torch.empty(rows, columns, device=device, dtype=dtype)
    return 2 * rows * inner * columns / _fastest(lambda: torch.mm(left, right, out=product), device)


def _fastest(run: Callable[[], object], device: torch.device) -> float:
    run()
    return min(seconds_of(run, device) for _ in range(REPETITIONS))
