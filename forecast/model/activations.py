"""What a layer leaves for the backward pass: all that it computed, what it cannot make anew, or only its input."""

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def run_layer(layer: nn.Module, *tokens: Tensor, checkpointing: bool) -> Tensor:
    """Return what `layer` makes of `tokens`; with `checkpointing` it is computed again in the backward pass.

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


def by_hand(tokens: Tensor) -> bool:
    """Tell whether a layer computes by its own steps, forwards and backwards, which hold less and stay in the cache.

    So it is on a CPU, in one arithmetic; a compiler makes such steps by itself, a GPU wants few.
    """
    return tokens.device.type == "cpu" and not torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling()
