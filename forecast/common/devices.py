"""The arithmetic that a device is fast in."""

import torch

from forecast.common.cpu import has_amx


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def has_bfloat16_units(device: torch.device) -> bool:
    """Return whether the device multiplies bf16 matrices faster than float32: a GPU since Ampere, or a CPU with AMX."""
    return has_tensor_cores(device) or (device.type == "cpu" and has_amx())


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def has_tensor_cores(device: torch.device) -> bool:
    """Return whether the device is a GPU that multiplies bf16 matrices, which GPUs since Ampere do."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
