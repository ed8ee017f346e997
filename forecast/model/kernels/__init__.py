"""Hand-written forward and backward passes: faster on a CPU, or smaller; tests compare each with its plain layer."""

import torch
from torch import Tensor


def use_cpu_kernels(tokens: Tensor) -> bool:
    """Return whether a layer takes its kernel, which saves memory and fits a CPU's cache: on a CPU, in one arithmetic.

    A compiler fuses the plain form itself, a GPU wants few launches.
    """
    return tokens.device.type == "cpu" and not torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling()
