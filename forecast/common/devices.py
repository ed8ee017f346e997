"""The arithmetic that a device is fast in."""

from functools import cache
from pathlib import Path

import torch


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def has_bfloat16_units(device: torch.device) -> bool:
    """Return whether the device multiplies bf16 matrices faster than float32: a GPU since Ampere, or a CPU with AMX."""
    return has_tensor_cores(device) or (device.type == "cpu" and has_amx())


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def has_tensor_cores(device: torch.device) -> bool:
    """Return whether the device is a GPU that multiplies bf16 matrices, which GPUs since Ampere do."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


@cache
def has_amx(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Return whether the CPU has matrix units for bf16, as Linux lists it."""
    return cpuinfo.is_file() and " amx_bf16" in cpuinfo.read_text(encoding="ascii", errors="ignore")
