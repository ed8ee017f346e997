"""Passes written by hand, forwards and backwards: faster on a CPU, or smaller; the tests compare each with the layer.

`use_cpu_kernels` is asked by a layer that has a plain form beside its kernel.
"""

import torch
from torch import Tensor


def use_cpu_kernels(tokens: Tensor) -> bool:
    """Return whether a layer takes its kernel, which holds less for the gradient and stays in a processor's cache.

    So it is on a CPU, in one arithmetic; a compiler fuses the plain form itself, a GPU wants few launches.
    """
    return tokens.device.type == "cpu" and not torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling()
