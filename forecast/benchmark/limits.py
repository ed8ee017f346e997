"""Memory and time limits of a measurement, and processes within these limits."""

from collections.abc import Mapping
from typing import Any

import torch

from forecast.common.cli import explain, ran_out_of_memory
from forecast.common.errors import InputError, NotFiniteError
from forecast.common.memory import free_bytes
from forecast.common.processes import limit_memory, run_python
from forecast.common.text import three_digits

MEMORY, TIME, REFUSED, DISK = "memory", "time", "refused", "disk"
"""First words of the reasons why something was not measured."""

SHARE = 0.8
"""Fraction of the free memory that a measurement may use: predictions are uncertain, and other programs run too."""

STARTING = 120.0
"""Seconds that a process may take before its measurement: imports and building the model."""

DISK_CODE = 4
"""Exit code of a full or failing disk."""

FAILURES = (InputError, NotFiniteError, MemoryError, RuntimeError, OSError)
"""Exceptions for `why_not`."""


def why_not(error: Exception) -> str:
    """Return why a measurement failed because of its sizes, the memory or the disk; raise any other error again."""
    if isinstance(error, (InputError, NotFiniteError)):
        return f"{REFUSED}: {error}"
    if isinstance(error, MemoryError):
        return f"{MEMORY}: the process ran out of memory"
    if ran_out_of_memory(error):
        return f"{MEMORY}: the device ran out of memory"
    if isinstance(error, OSError) and (known := explain(error)) is not None:
        message, code = known
        return f"{DISK if code == DISK_CODE else REFUSED}: {message}"
    raise error


def too_large(wanted: float, free: int | None) -> str:
    """Return why a case of `wanted` bytes is skipped; empty if it fits or the free memory is unknown."""
    if free is None or wanted <= SHARE * free:
        return ""
    return f"{MEMORY}: would need about {wanted / 2**30:,.1f} GiB, only {free / 2**30:,.1f} GiB are free"


def too_long(wanted: float, limit: float) -> str:
    """Return why a case of `wanted` seconds is skipped; empty if it is within the limit."""
    if wanted <= limit:
        return ""
    return f"{TIME}: would take about {three_digits(wanted)} s, the limit is {three_digits(limit)} s"


def memory_bytes(wanted_gib: float | None, device: torch.device) -> int:
    """Return the requested bytes, or by default the free memory of a GPU or 80 % of the free memory of a CPU."""
    free = free_bytes(device)
    default = free if free is None or device.type == "cuda" else int(SHARE * free)
    if wanted_gib is None:
        if default is None:
            raise InputError("the system does not report its free memory: set --memory-gib")
        return default
    wanted = int(wanted_gib * 2**30)
    if free is not None and wanted > free:
        raise InputError(f"--memory-gib {wanted_gib:g}: only {free / 2**30:.1f} GiB are free: use less")
    return wanted


def limit_cuda(memory_bytes: int, device: torch.device) -> None:
    """Limit torch's allocator on the GPU to `memory_bytes`."""
    total = torch.cuda.get_device_properties(device).total_memory
    index = torch.cuda.current_device() if device.index is None else device.index  # torch refuses a device without one
    torch.cuda.set_per_process_memory_fraction(min(1.0, memory_bytes / total), index)


def limit_process(memory_bytes: int) -> None:
    """Limit the bytes that this process can allocate, on Linux; memory-mapped files do not count."""
    matrix = torch.ones(256, 256)
    matrix @ matrix  # the first product starts threads and loads libraries, before the limit applies
    limit_memory(memory_bytes)


def measure_in_child(function: str, request: Mapping[str, Any], limit: float, *, label: str, late: str) -> Any:
    """Return the reply of a function in a new process (see `run_python`), or `why` it ran out of memory or time.

    `limit` is in seconds and excludes the start. `label` names the measurement in an error, `late` explains a timeout.
    """
    try:
        ended = run_python(function, request, threads=torch.get_num_threads(), seconds=limit + STARTING)
    except TimeoutError:
        return {"why": f"{TIME}: {late}"}
    if ended.reply is not None:
        return ended.reply
    if ended.out_of_memory:
        return {"why": f"{MEMORY}: the process ran out of memory"}
    raise RuntimeError(f"{label} ended with exit code {ended.code}: {ended.printed}")
