"""The arithmetic that a device is fast in."""

from functools import cache
from pathlib import Path

import torch

CPUINFO = Path("/proc/cpuinfo")


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def has_bfloat16_units(device: torch.device) -> bool:
    """Return whether the device multiplies bf16 matrices faster than float32: a GPU since Ampere, or a CPU with AMX."""
    return has_tensor_cores(device) or (device.type == "cpu" and has_amx())


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def has_tensor_cores(device: torch.device) -> bool:
    """Return whether the device is a GPU that multiplies bf16 matrices, which GPUs since Ampere do."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def has_bfloat16_products() -> bool:
    """Return whether the CPU multiplies bf16 without converting it: with AMX, or with AVX-512 alone."""
    return has_amx() or has_flag("avx512_bf16")


def has_amx(cpuinfo: Path = CPUINFO) -> bool:
    """Return whether the CPU has matrix units for bf16."""
    return has_flag("amx_bf16", cpuinfo)


@cache
def has_flag(name: str, cpuinfo: Path = CPUINFO) -> bool:
    """Return whether Linux lists this ability of the CPU."""
    return cpuinfo.is_file() and f" {name}" in cpuinfo.read_text(encoding="ascii", errors="ignore")
