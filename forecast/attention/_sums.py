"""Sums of the linear family: over all keys, or over those up to each query, in blocks."""

from collections.abc import Callable

import torch
from torch import Tensor

from forecast.attention._chunks import block_length, in_blocks, out_of_blocks, sum_chunks
from forecast.attention._masks import Mask, masked_keys

# Maps keys (B, H, n, E), and a mask of hidden keys (B, 1, n, 1) or None, to features.
KeyFeatures = Callable[[Tensor, Tensor | None], Tensor]


def sum_keys(features: KeyFeatures, key: Tensor, value: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
    """Return Σ f(k) vᵀ, shape (B, H, E, V), and Σ f(k), shape (B, H, E, 1)."""

    def add(keys: Tensor, values: Tensor, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
        featured = features(keys, hidden).transpose(-1, -2)  # (B, H, E, n)
        return featured @ values.to(featured.dtype), featured.sum(dim=-1, keepdim=True)

    state, total = sum_chunks(add, key, value, masked_keys(mask))
    return state, total


def zero_sums(key: Tensor, value: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return zeros of the shapes of `sum_keys`."""
    shape = (*key.shape[:2], key.shape[3])
    return value.new_zeros((*shape, value.shape[3]), dtype=dtype), key.new_zeros((*shape, 1), dtype=dtype)


def causal_sums(
    queries: Tensor, keys: Tensor, values: Tensor, state: Tensor, total: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return Σ_{j≤i} f(q_i)·f(k_j) v_j, (B, H, n, V), the sum of the weights, (B, H, n, 1), and both sums after.

    `queries` and `keys` are features of n positions; `state` and `total` are the sums of `sum_keys` over all earlier
    positions. Products are masked within a block; sums are carried across blocks. Later positions never change earlier
    ones.
    """
    length = queries.shape[2]
    size = min(block_length(max(keys.shape[3], values.shape[3])), length)
    queries, keys, values = (in_blocks(x, size) for x in (queries, keys, values))
    products = (queries @ keys.transpose(-1, -2)).tril_()  # (B, H, blocks, size, size)
    states, state = _before(state, keys.transpose(-1, -2) @ values)
    totals, total = _before(total, keys.sum(dim=3).unsqueeze(-1))
    output = products @ values + queries @ states
    weight = products.sum(dim=-1, keepdim=True) + queries @ totals
    return out_of_blocks(output, length), out_of_blocks(weight, length), state, total


def _before(carried: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum before each block, axis 2 of `added`, and the sum after the last."""
    after = added.cumsum(dim=2) + carried.unsqueeze(2)
    return torch.cat([carried.unsqueeze(2), after[:, :, :-1]], dim=2), after[:, :, -1]


def divide(output: Tensor, total: Tensor) -> Tensor:
    """Divide by the sum of the weights; return zeros where the sum is zero."""
    return output / total.where(total >= torch.finfo(total.dtype).tiny, 1)
