"""What the machine can do at best, measured in the same run: a large matrix product and a large copy."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from forecast.benchmarking.timing import seconds_of

REPETITIONS = 10


@dataclass(frozen=True)
class Limits:
    """Floating-point operations a second of a matrix product, bytes a second of a copy."""

    operations: float
    bytes: float


def measure_limits(
    device: torch.device, dtype: torch.dtype, side: int | None = None, copied: int | None = None
) -> Limits:
    """Return the machine's limits at `dtype`, the fastest of ten passes after a warm-up.

    Parameters
    ----------
    device, dtype
        As in what will be compared with them.
    side : int, optional
        Rows of the square matrices; by default 2,048, on CUDA 8,192.
    copied : int, optional
        Bytes copied, each read once and written once; by default 256 MiB, on CUDA 2 GiB: beyond any cache.
    """
    cuda = device.type == "cuda"
    side = side or (8192 if cuda else 2048)
    copied = copied or (2**31 if cuda else 2**28)
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    product = torch.empty(side, side, device=device, dtype=dtype)
    operations = 2 * side**3 / _fastest(lambda: torch.mm(left, right, out=product), device)
    source = torch.randn(copied // 4, device=device)
    target = torch.empty_like(source)
    return Limits(operations, 2 * copied / _fastest(lambda: target.copy_(source), device))


def _fastest(run: Callable[[], object], device: torch.device) -> float:
    run()
    return min(seconds_of(run, device) for _ in range(REPETITIONS))
