"""How far a mechanism's output is from that of exact softmax attention on the same tensors."""

import torch
from torch import Tensor

from forecast.attention.full import softmax_weights
from forecast.training.probe.capture import Captured


def softmax_rows(call: Captured, queries: Tensor, causal: bool) -> Tensor:
    """Give the rows σ(QKᵀ/√E) of the positions `queries` (n,), shape (B, H, n, S)."""
    allowed = torch.arange(call.key.shape[2], device=queries.device) <= queries[:, None] if causal else None
    return softmax_weights(call.query[:, :, queries], call.key, allowed)


def mean_rows(like: Tensor, queries: Tensor, causal: bool) -> Tensor:
    """Give the rows of the plain mean of the allowed values, broadcastable to `like` (B, H, n, S)."""
    num_keys = like.shape[-1]
    if not causal:
        return like.new_full((1, 1, 1, num_keys), 1 / num_keys)
    allowed = torch.arange(num_keys, device=queries.device) <= queries[:, None]
    return allowed.to(like.dtype)[None, None] / (queries[:, None] + 1)


def relative_distance(output: Tensor, exact: Tensor) -> Tensor:
    """Give ‖output − exact‖₂ / ‖exact‖₂ of each head, shape (H,), float64.

    Both norms are over all sequences, queries and features of (B, H, n, V). 0: the same; 1: as far as an
    output of zeros; NaN or infinite where `exact` is zero.
    """
    difference = (output.double() - exact.double()).square().sum((0, 2, 3)).sqrt()
    distance: Tensor = difference / exact.double().square().sum((0, 2, 3)).sqrt()
    return distance
