"""The most memory that one pass holds above what was there before it, in allocated bytes."""

import os
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile


def peak_bytes(run: Callable[[], object], device: torch.device) -> int:
    """Return the peak of allocated bytes during `run`, its result included, its inputs not.

    On CUDA by the allocator's own statistics; on a CPU by the allocator's record of each allocation and
    release, scratch inside a kernel included. What a library beneath torch takes from the system by
    itself is seen by neither.
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
    # The profiler's library announces each start and stop on the error stream, whatever is asked of it.
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
    held = peak = 0
    for change in changes:
        held += change
        peak = max(peak, held)
    return peak
