"""Count the floating-point operations of a forecast."""

import torch

from forecast.common.operations import operations
from forecast.data.windows import Windows
from forecast.model.informer import Informer, in_evaluation


def flops_per_window(network: Informer, windows: Windows) -> int:
    """Return the operations of one window's forward pass in evaluation mode; restore the mode afterwards."""
    batch = windows.batch(torch.zeros(1, dtype=torch.int64, device=windows.starts.device))
    with in_evaluation(network):
        return operations(lambda: network(batch.past, batch.past_known, batch.future_known, batch.past_observed))
