"""Which arithmetic training uses, decided from what the processor says of itself, never from a timing."""

from pathlib import Path

import torch

from forecast.errors import InputError

PRECISIONS = ("32-true", "bf16-mixed")


def choose_precision(wanted: str, device: torch.device) -> str:
    """Give Lightning's name of the precision to train in; "auto" is bf16 where matrix products gain from it.

    Raises
    ------
    InputError
        If `wanted` is none of auto, 32-true, bf16-mixed.
    """
    if wanted == "auto":
        fast = _cuda_bf16(device) if device.type == "cuda" else device.type == "cpu" and _amx_bf16()
        return "bf16-mixed" if fast else "32-true"
    if wanted not in PRECISIONS:
        raise InputError(f"training.precision {wanted!r}: choose auto, {' or '.join(PRECISIONS)}")
    return wanted


def _cuda_bf16(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= (8, 0)


def _amx_bf16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    return cpuinfo.is_file() and " amx_bf16" in cpuinfo.read_text(encoding="ascii", errors="ignore")
