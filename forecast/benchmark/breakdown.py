"""Which operations a pass spends its time in, as torch's profiler sees it."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch.profiler import ProfilerActivity, profile

KINDS: Mapping[str, tuple[str, ...]] = {
    "products": (
        "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::addbmm", "aten::linear", "aten::matmul",
        "aten::_scaled_dot_product", "aten::_flash_attention", "aten::_efficient_attention", "aten::mkldnn_",
        "aten::cudnn_convolution", "aten::_slow_conv", "aten::thnn_conv", "aten::convolution", "aten::_convolution",
    ),
    "optimizer": ("Optimizer.", "aten::_fused_adam", "aten::_foreach"),
}  # fmt: skip
"""How the names of operations begin; all others are the rest."""

REST = "rest"


@dataclass(frozen=True)
class Operation:
    """An operation by its name: how often it ran and the seconds spent in itself, what it calls left out."""

    name: str
    kind: str
    calls: int
    seconds: float


def breakdown(run: Callable[[], object], device: torch.device) -> list[Operation]:
    """Give the operations of one pass, the longest first; on CUDA the time is that of the kernels they launch."""
    # The profiler's library announces each start and stop on the error stream, whatever is asked of it.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    on_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities, acc_events=True) as recorded:
        result = run()
        if on_gpu:
            torch.cuda.synchronize(device)
    del result
    found = []
    for event in recorded.key_averages():
        # a kernel's own line would count what stands with the operation that launched it once more
        if event.device_type.name == "CPU":
            microseconds = event.self_device_time_total if on_gpu else event.self_cpu_time_total
            found.append(Operation(event.key, kind_of(event.key), event.count, microseconds / 1e6))
    return sorted(found, key=lambda operation: -operation.seconds)


def kind_of(name: str) -> str:
    """Give what an operation is for: a product, the optimizer, or the rest."""
    return next((kind for kind, beginnings in KINDS.items() if name.startswith(beginnings)), REST)
