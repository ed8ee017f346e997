"""How much memory can still be had: of a device, or of this machine and the container around the process."""

from pathlib import Path

import torch

_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def free_bytes(device: torch.device) -> int | None:
    """Return the memory that can still be allocated, None where the system does not say."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    known = [value for value in (_available(_MEMINFO), _left_in_group(_GROUP)) if value is not None]
    return min(known, default=None)


def _available(meminfo: Path) -> int | None:
    if not meminfo.is_file():
        return None
    lines = meminfo.read_text(encoding="ascii", errors="ignore").splitlines()
    return next((int(line.split()[1]) * 2**10 for line in lines if line.startswith("MemAvailable:")), None)


def _left_in_group(folder: Path) -> int | None:
    """Return what a container's own limit leaves, where there is one; cached files give way and do not count."""
    try:
        limit = (folder / "memory.max").read_text(encoding="ascii").strip()
        used = int((folder / "memory.current").read_text(encoding="ascii"))
    except OSError:
        return None
    return None if limit == "max" else max(0, int(limit) - used + _cached(folder / "memory.stat"))


def _cached(stat: Path) -> int:
    lines = stat.read_text(encoding="ascii").splitlines() if stat.is_file() else []
    return sum(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
