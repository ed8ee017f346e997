"""Hand-written forward and backward passes that save time or memory; tests compare each with plain torch.

`fused` decides where operations of the attention mechanisms run in kernels written in Triton, for GPUs: `summed_means`
for `linear`, `efficient` and `taylor`, `informative_queries` and `softmax_of_few` for `probsparse`. `fused.use(True)`
turns the kernels on for a measurement, `fused.use(False)` off, and `fused.watch()` tells which form ran.
"""

import torch
from torch import Tensor


def use_cpu_kernels(tokens: Tensor) -> bool:
    """Return whether layers use their kernel: on a CPU, without autocast, not compiled.

    A compiler fuses the plain layers itself; a GPU needs few launches.
    """
    return tokens.device.type == "cpu" and not torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling()
