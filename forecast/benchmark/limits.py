"""The memory and the time that a measurement may take, and processes that keep within them."""

import sys
from collections.abc import Mapping
from typing import Any

import torch

from forecast.common.cli import ran_out_of_memory
from forecast.common.errors import InputError, NotFiniteError
from forecast.common.memory import free_bytes
from forecast.common.processes import run_python
from forecast.common.text import three_digits

MEMORY, TIME, REFUSED = "memory", "time", "refused"
"""Why something was not measured, as the reason begins."""

SHARE = 0.8
"""Of the free memory that a measurement may take: a prediction is no promise, and other programs run too."""

STARTING = 120.0
"""Seconds that a process may take before its measurement begins: imports and building the model."""

FAILURES = (InputError, NotFiniteError, MemoryError, RuntimeError)
"""Exceptions that `why_not` has to look at."""


def why_not(error: Exception) -> str:
    """Return why a measurement failed that its sizes or the memory forbid; raise any other error again."""
    if isinstance(error, (InputError, NotFiniteError)):
        return f"{REFUSED}: {error}"
    if isinstance(error, MemoryError):
        return f"{MEMORY}: the process had no more"
    if ran_out_of_memory(error):
        return f"{MEMORY}: the device has not enough"
    raise error


def too_large(wanted: float, free: int | None) -> str:
    """Return why a case of `wanted` bytes is left out, nothing where it fits or nobody knows what is free."""
    if free is None or wanted <= SHARE * free:
        return ""
    return f"{MEMORY}: would need about {wanted / 2**30:,.1f} GiB, {free / 2**30:,.1f} GiB are free"


def too_long(wanted: float, limit: float) -> str:
    """Return why a case of `wanted` seconds is left out, nothing where it is within the limit."""
    if wanted <= limit:
        return ""
    return f"{TIME}: would take about {three_digits(wanted)} s, the limit is {three_digits(limit)} s"


def memory_bytes(wanted_gib: float | None, device: torch.device) -> int:
    """Return the bytes that were asked for, or those of the device: what a GPU has free, of a CPU four fifths of it."""
    there = free_bytes(device)
    own = there if there is None or device.type == "cuda" else int(SHARE * there)
    if wanted_gib is None:
        if own is None:
            raise InputError("the system does not say how much memory is free: give --memory-gib")
        return own
    wanted = int(wanted_gib * 2**30)
    if there is not None and wanted > there:
        raise InputError(f"--memory-gib {wanted_gib:g}: {there / 2**30:.1f} GiB are there: ask for less")
    return wanted


def limit_cuda(memory_bytes: int, device: torch.device) -> None:
    """Limit torch's allocator on the GPU to `memory_bytes`."""
    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, memory_bytes / total), device)


def limit_process(memory_bytes: int) -> None:
    """Limit the bytes that this process allocates, used or not, where the system supports it; mapped files are free."""
    side = torch.ones(256, 256)
    side @ side  # threads and libraries come with the first product, which cannot fail for want of memory
    if sys.platform == "linux":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, most))


def measure_in_child(function: str, request: Mapping[str, Any], limit: float, *, label: str, late: str) -> Any:
    """Return the reply of a function in a new process (see `run_python`), or `why` it ran out of memory or time.

    `limit` is in seconds, without the start. `label` names the measurement in an error, `late` explains a timeout.
    """
    try:
        ended = run_python(function, request, threads=torch.get_num_threads(), seconds=limit + STARTING)
    except TimeoutError:
        return {"why": f"{TIME}: {late}"}
    if ended.reply is not None:
        return ended.reply
    if ended.out_of_memory:
        return {"why": f"{MEMORY}: the process had no more"}
    raise RuntimeError(f"{label} ended with {ended.code}: {ended.printed}")
