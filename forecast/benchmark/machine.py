"""The machine of a benchmark: its device, its facts, and its speed of matrix products and copies."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import torch

from forecast.common.errors import InputError
from forecast.common.timing import seconds_of
from forecast.runs.results import commit, device_name


def facts_of(
    device: torch.device, dtype: str, arguments: Sequence[str], module: str = "forecast.benchmark"
) -> dict[str, Any]:
    """Return the last columns of every row from `python -m module`."""
    return {
        "machine": device_name(device),
        "device": device.type,
        "threads": torch.get_num_threads(),
        "dtype": dtype,
        "torch": torch.__version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "command": shlex.join(["python", "-m", module, *arguments]),
    }


def choose_device(wanted: str, dtype: torch.dtype) -> torch.device:
    """Return the device to measure, for "auto" a GPU if available."""
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise InputError("--device cuda: no CUDA device available: choose cpu")
    device = torch.device("cuda" if available and wanted != "cpu" else "cpu")
    if device.type == "cpu" and dtype == torch.float16:
        raise InputError("--dtype fp16: requires a CUDA device: choose fp32 or bf16")
    return device


REPETITIONS = 10
SIDE = {"cpu": 2048, "cuda": 8192}
"""Rows of the square matrices in the measured product."""
COPIED = {"cpu": 2**28, "cuda": 2**31}
"""Bytes of the measured copy, larger than any cache."""


@dataclass(frozen=True)
class Limits:
    """Operations per second of a matrix product, and bytes per second of a copy."""

    operations: float
    bytes: float


def measure_limits(device: torch.device, dtype: torch.dtype) -> Limits:
    """Return the machine's limits at `dtype`, from the fastest of ten passes; a copied byte is read and written."""
    side, copied = SIDE[device.type], COPIED[device.type]
    operations = product_rate(side, side, side, device, dtype)
    source = torch.randn(copied // 4, device=device)
    target = torch.empty_like(source)
    return Limits(operations, 2 * copied / _fastest(lambda: target.copy_(source), device))


def product_rate(rows: int, inner: int, columns: int, device: torch.device, dtype: torch.dtype) -> float:
    """Return the operations per second of (rows, inner) @ (inner, columns), the fastest of ten after a warm-up."""
    left = torch.randn(rows, inner, device=device).to(dtype)
    right = torch.randn(inner, columns, device=device).to(dtype)
    product = torch.empty(rows, columns, device=device, dtype=dtype)
    return 2 * rows * inner * columns / _fastest(lambda: torch.mm(left, right, out=product), device)


def _fastest(run: Callable[[], object], device: torch.device) -> float:
    run()
    return min(seconds_of(run, device) for _ in range(REPETITIONS))
