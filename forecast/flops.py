"""How many operations a forecast costs, counted while one is made."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from forecast.data.windows import Windows
from forecast.model.informer import Informer


def flops_per_window(network: Informer, windows: Windows) -> int:
    """Give the operations of one window's forward pass in evaluation mode; the network's mode is left as it was."""
    modes = {module: module.training for module in network.modules()}
    network.eval()
    batch = windows.batch(torch.zeros(1, dtype=torch.int64, device=windows.starts.device))
    found = operations(lambda: network(batch.past, batch.past_known, batch.future_known, batch.past_observed))
    for module, training in modes.items():
        module.training = training
    return found


def operations(call: Callable[[], Any]) -> int:
    """Give the operations of what `call` computes.

    A multiplication with its addition counts as 2. Counted are the products of matrices, convolutions and
    the fused softmax attention; what works number by number (softmax, norms, means) is not.
    """
    fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # torch counts the others itself
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping={fused: _fused_softmax}) as counter:
        call()
    return int(counter.get_total_flops())


def _fused_softmax(query: torch.Size, key: torch.Size, value: torch.Size, *_: Any, **__: Any) -> int:
    """Give the operations of QKᵀ and of the weights times V; a causal mask saves none, as in torch's own count."""
    *batch, num_queries, width = query
    num_keys, value_width = value[-2:]
    rows = torch.Size(batch).numel() * num_queries
    return 2 * rows * num_keys * (width + value_width)
