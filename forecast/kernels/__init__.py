"""Hand-written forward and backward passes that save time or memory; tests compare each with plain torch."""

import torch
from torch import Tensor


def use_cpu_kernels(tokens: Tensor) -> bool:
    """Return whether layers use their kernel: on a CPU, without autocast, not compiled.

    A compiler fuses the plain layers itself; a GPU needs few launches.
    """
    return tokens.device.type == "cpu" and not torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling()
