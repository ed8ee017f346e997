"""The arithmetic that a device is fast in."""

from pathlib import Path

import torch

CPUINFO = Path("/proc/cpuinfo")


def flags_of(cpuinfo: Path) -> frozenset[str]:
    """Return the abilities that a file like /proc/cpuinfo lists; none if there is no such file."""
    if not cpuinfo.is_file():
        return frozenset()
    lines = cpuinfo.read_text(encoding="ascii", errors="ignore").splitlines()
    return frozenset(next((line.split(":", 1)[1] for line in lines if line.startswith("flags")), "").split())


_FLAGS = flags_of(CPUINFO)  # a constant for torch.compile


def has_amx(cpuinfo: Path | None = None) -> bool:
    """Return whether the CPU has matrix units for bf16."""
    return "amx_bf16" in (_FLAGS if cpuinfo is None else flags_of(cpuinfo))


def has_bfloat16_products() -> bool:
    """Return whether the CPU multiplies bf16 without converting it: with AMX, or with AVX-512 alone."""
    return has_amx() or "avx512_bf16" in _FLAGS


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def has_bfloat16_units(device: torch.device) -> bool:
    """Return whether the device multiplies bf16 matrices faster than float32: a GPU since Ampere, or a CPU with AMX."""
    return has_tensor_cores(device) or (device.type == "cpu" and has_amx())


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def has_tensor_cores(device: torch.device) -> bool:
    """Return whether the device is a GPU that multiplies bf16 matrices, which GPUs since Ampere do."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
