"""Free memory and peak memory usage."""

import ctypes
import gc
import os
import resource
import sys
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def reset_peak_memory(device: torch.device) -> None:
    """Free unused memory and reset the peak, as far as the system allows.

    On a CPU, memory in use, such as that of libraries, stays in the peak.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        return
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only in glibc
        if trim is not None:
            trim(0)
    try:
        _CLEAR.write_text("5", encoding="ascii")  # man 5 proc: resets the peak resident set size
    except OSError:
        return


_TRIM, _SEPARATE = -1, -3
"""Options of glibc's `mallopt`: the free bytes from which the heap shrinks, the size from which blocks are separate."""


def keep_freed_memory(device: torch.device) -> bool:
    """Keep freed blocks of up to 32 MiB in this process; return whether it does, which needs a CPU and glibc.

    By default much of what is freed goes back to the system, which clears every page before its next use. A training
    allocates the same blocks at every step. On Weather at horizon 720, a step then had 4,300 page faults instead of 360
    and took 1.06 and 1.07 times as long (medians of 49 steps, two pairs, two threads of an AMD EPYC). The peak was the
    same within 2 %. Larger blocks are returned: the heap would not always reuse them. `reset_peak_memory` returns all.
    """
    change = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" and device.type == "cpu" else None
    return change is not None and change(_TRIM, 2**31 - 1) == change(_SEPARATE, 2**25) == 1


def peak_memory_mib(device: torch.device) -> float:
    """Return the peak in MiB: bytes allocated on a CUDA device, else the process's resident set."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    if (peak := _number_in(_STATUS, "VmHWM:")) is not None:
        return peak / 2**10
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _number_in(file: Path, name: str) -> int | None:
    """Return the number behind a name in a file of the kernel; None without the name or the file."""
    if not file.is_file():
        return None
    lines = file.read_text(encoding="ascii", errors="ignore").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), None)


_MEMINFO = Path("/proc/meminfo")
_GROUPS, _OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")

_UNLIMITED = 2**62
"""Limits of a control group of version 1 from here on mean that there is none."""

_FILES = (
    ("memory.max", "memory.current", "inactive_file "),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "),
)
"""Limit, use and the line of cached files in `memory.stat`, of a control group of version 2 and of version 1."""


def free_bytes(device: torch.device) -> int | None:
    """Return the memory that can still be allocated, None if unknown."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    available = _number_in(_MEMINFO, "MemAvailable:")  # KiB
    left = [None if available is None else available * 2**10]
    left += [_left_in_group(folder, *files) for folder in _groups() for files in _FILES]
    return min((value for value in left if value is not None), default=None)


def _groups() -> set[Path]:
    """Return the folders of the control groups that may limit this process: its own ones, and those around them."""
    lines = _OWN_GROUP.read_text(errors="ignore").splitlines() if _OWN_GROUP.is_file() else []
    folders = {_GROUPS, _GROUPS / "memory"}  # a container may see its own group there, whatever its path outside
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory") and ".." not in path:
            top = _GROUPS / controllers
            own = top / path.lstrip("/")
            folders |= {own, *(parent for parent in own.parents if parent.is_relative_to(top))}
    return folders


def _left_in_group(folder: Path, limit: str, used: str, cached: str) -> int | None:
    """Return the memory left below the limit of a control group, if it has one; cached files count as free."""
    try:
        most = (folder / limit).read_text(encoding="ascii").strip()
        taken = int((folder / used).read_text(encoding="ascii"))
    except OSError:
        return None
    if most == "max" or int(most) >= _UNLIMITED:
        return None
    return max(0, int(most) - taken + (_number_in(folder / "memory.stat", cached) or 0))


def peak_bytes(run: Callable[[], object], device: torch.device) -> int:
    """Return the peak of allocated bytes during `run`, with its result, without its inputs.

    Measured by torch's allocator, temporary buffers of kernels included: its statistics on CUDA, its record of each
    allocation on a CPU. Memory that a library below torch takes directly from the system is not included.
    """
    return _peak_on_cuda(run, device) if device.type == "cuda" else _peak_on_cpu(run)


def _peak_on_cuda(run: Callable[[], object], device: torch.device) -> int:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    result = run()
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device) - before
    del result
    return peak


def _peak_on_cpu(run: Callable[[], object]) -> int:
    # The profiler's library logs each start and stop to the error stream.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as recorded:
        result = run()
    del result
    assert recorded.profiler is not None
    events = recorded.profiler.kineto_results.events()
    changes = [(event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"]
    return peak_of_sum([change for _, change in sorted(changes, key=lambda change: change[0])])


def peak_of_sum(changes: list[int]) -> int:
    """Return the highest running sum of allocations (positive) and releases (negative), at least 0."""
    return max(accumulate(changes, initial=0))
