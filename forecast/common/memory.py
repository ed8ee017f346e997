"""Peak memory since the last reset: of the device, or of the process where that is the CPU."""

import ctypes
import gc
import resource
import sys
from pathlib import Path

import torch

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def reset_peak_memory(device: torch.device) -> None:
    """Give back what earlier work in this process left behind, and forget the peak so far.

    Both as far as the system lets it: what a process holds for itself, its libraries among it, stays in the
    peak of a CPU.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        return
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc alone has it
        if trim is not None:
            trim(0)
    try:
        _CLEAR.write_text("5", encoding="ascii")  # man 5 proc: resets the peak resident set size
    except OSError:
        return


def peak_memory_mib(device: torch.device) -> float:
    """Give the peak in MiB: bytes allocated on a CUDA device, else the process's resident set."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    if _STATUS.is_file():
        for line in _STATUS.read_text(encoding="ascii", errors="ignore").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**10
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
