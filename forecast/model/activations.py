"""What a layer leaves for the backward pass: all that it computed, or only its input."""

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def run_layer(layer: nn.Module, *tokens: Tensor, checkpointing: bool) -> Tensor:
    """Give what `layer` makes of `tokens`; with `checkpointing` it is computed again in the backward pass.

    Dropout and ProbSparse draw the same numbers the second time, so the gradients are the same.

    References
    ----------
    Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, arXiv:1604.06174.
    """
    if checkpointing and torch.is_grad_enabled():
        again: Tensor = checkpoint(layer, *tokens, use_reentrant=False)
        return again
    output: Tensor = layer(*tokens)
    return output
