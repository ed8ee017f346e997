"""Whether a case can be run at all: memory that is free, and memory and time that it will want."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import torch

from forecast.benchmarking.costs import growth_of, memory_growth_of
from forecast.benchmarking.text import three_digits

SHARE = 0.8
"""Of the free memory that a case may want: the prediction is no promise, and others run too."""

_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Earlier:
    """What the same mechanism took at a shorter length."""

    length: int
    seconds: float
    peak_bytes: int

    def seconds_at(self, length: int, declared: str, words: Collection[str]) -> float:
        """Return the seconds of a pass to expect at `length`; quadratic growth where none is declared."""
        growth = growth_of(declared, words)
        ratio = (length / self.length) ** 2 if growth is None else growth.between(self.length, length)
        return self.seconds * ratio

    def bytes_at(self, length: int, declared: str, words: Collection[str]) -> float:
        """Return the peak to expect at `length`; quadratic growth where none is declared."""
        growth = memory_growth_of(declared, words)
        ratio = (length / self.length) ** 2 if growth is None else growth.between(self.length, length)
        return self.peak_bytes * ratio


def too_large(wanted: float, free: int | None) -> str:
    """Return why a case of `wanted` bytes is left out, nothing where it fits or nobody knows what is free."""
    if free is None or wanted <= SHARE * free:
        return ""
    return f"memory: would need about {wanted / 2**30:,.1f} GiB, {free / 2**30:,.1f} GiB are free"


def too_long(wanted: float, limit: float) -> str:
    """Return why a case of `wanted` seconds is left out, nothing where it is within the limit."""
    return (
        ""
        if wanted <= limit
        else f"time: would take about {three_digits(wanted)} s, the limit is {three_digits(limit)} s"
    )


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
    """Return what a container's own limit leaves, where there is one."""
    try:
        limit = (folder / "memory.max").read_text(encoding="ascii").strip()
        used = int((folder / "memory.current").read_text(encoding="ascii"))
    except OSError:
        return None
    return None if limit == "max" else max(0, int(limit) - used)
