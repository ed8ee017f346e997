"""Which arithmetic training uses, decided from what the processor says of itself, never from a timing."""

from pathlib import Path

import torch

from forecast.common.errors import InputError

PRECISIONS = ("32-true", "bf16-mixed")

WIDE = 256
"""Width from which a training on a CPU with matrix units gains by bf16. Below it the conversions cost more than the
products save: a step in bf16 took 2.1 times as long as in float32 at width 64, 1.4 at 128, .9 at 256 (patches) and 2.2,
.74 and .44 at 64, 256 and 512 (a token a step), one thread of an Intel Xeon with AMX, torch 2.13."""


def choose_precision(wanted: str, device: torch.device, width: object) -> str:
    """Give Lightning's name of the precision to train in; "auto" is bf16 where a model of this width gains from it.

    Raises
    ------
    InputError
        If `wanted` is none of auto, 32-true, bf16-mixed.
    """
    if wanted == "auto":
        fast = _cuda_bf16(device) if device.type == "cuda" else device.type == "cpu" and _is_wide(width) and _amx_bf16()
        return "bf16-mixed" if fast else "32-true"
    if wanted not in PRECISIONS:
        raise InputError(f"training.precision {wanted!r}: choose auto, {' or '.join(PRECISIONS)}")
    return wanted


def exact_convolutions() -> None:
    """Have convolutions, too, compute in float32 where float32 is said; a GPU would take fewer digits."""
    torch.backends.cudnn.allow_tf32 = False


def _is_wide(width: object) -> bool:
    return isinstance(width, int) and width >= WIDE  # what is no width is refused where the model is made


def _cuda_bf16(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= (8, 0)


def _amx_bf16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    return cpuinfo.is_file() and " amx_bf16" in cpuinfo.read_text(encoding="ascii", errors="ignore")
