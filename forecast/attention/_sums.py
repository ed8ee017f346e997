"""Sums of the linear family: over all keys, or over those up to each query, in blocks."""

from collections.abc import Callable

import torch
from torch import Tensor

from forecast.attention._chunks import block_length, in_blocks, out_of_blocks, sum_chunks
from forecast.attention._kernels import causal_products, last_product
from forecast.attention._masks import Mask, masked_keys

# Maps keys (B, H, n, E), and a mask of hidden keys (B, 1, n, 1) or None, to features.
KeyFeatures = Callable[[Tensor, Tensor | None], Tensor]


def sum_keys(features: KeyFeatures, key: Tensor, value: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
    """Return Σ f(k) vᵀ, shape (B, H, E, V), and Σ f(k), shape (B, H, E, 1)."""

    def add(keys: Tensor, values: Tensor, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
        featured = features(keys, hidden).transpose(-1, -2)  # (B, H, E, n)
        return last_product(featured, values.to(featured.dtype)), featured.sum(dim=-1, keepdim=True)

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
    blocks = (in_blocks(x, size) for x in (queries, keys, values))
    output, weight, state, total = causal_products(*blocks, state, total)
    return out_of_blocks(output, length), out_of_blocks(weight, length), state, total
