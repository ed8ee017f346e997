"""Sums of the linear family: over all keys, or over those up to each query, in blocks."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from forecast.attention._chunks import block_length, in_blocks, out_of_blocks, sum_chunks
from forecast.attention._masks import Mask, masked_keys
from forecast.attention.base import at_least_float32, is_half_on_cpu, is_transformed
from forecast.kernels.causal_products import causal_products, product, weighted_causal_products

# Maps keys (B, H, n, E), and a mask of hidden keys (B, 1, n, 1) or None, to features.
KeyFeatures = Callable[[Tensor, Tensor | None], Tensor]


def sum_keys(
    features: KeyFeatures, key: Tensor, value: Tensor, mask: Mask, recompute: bool = True
) -> tuple[Tensor, Tensor]:
    """Return Σ f(k) vᵀ, shape (B, H, E, V), and Σ f(k), shape (B, H, E, 1).

    Without `recompute`, the features are stored for the backward pass.
    """
    state, total = sum_chunks(partial(_sums_of, features), key, value, masked_keys(mask), recompute=recompute)
    return state, total


def _sums_of(features: KeyFeatures, keys: Tensor, values: Tensor, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
    plain = features(keys, hidden)
    featured = plain.transpose(-1, -2)  # (B, H, E, n)
    total = featured.sum(dim=-1, keepdim=True, dtype=at_least_float32(featured))
    if is_half_on_cpu(values) and not (torch.compiler.is_compiling() or is_transformed()):
        outer: Tensor = _Outer.apply(plain, values.to(plain.dtype))  # type: ignore[no-untyped-call]
        return outer, total
    return product(featured, values.to(featured.dtype)), total


class _Outer(torch.autograd.Function):
    """Σ f(k) vᵀ for half precision on a CPU, with contiguous gradients: they are converted without being rearranged.

    The plain product takes 4 to 7 % longer for `linear`, and 12 to 21 % for `efficient` (both passes in bf16, 8 heads
    of 64, 8,192 positions).
    """

    @staticmethod
    def forward(context: Any, features: Tensor, values: Tensor) -> Tensor:
        context.save_for_backward(features, values)
        return features.mT @ values

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        features, values = context.saved_tensors
        return values @ gradients[0].mT, features @ gradients[0]


def zero_sums(key: Tensor, value: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return zeros of the shapes of `sum_keys`."""
    shape = (*key.shape[:2], key.shape[3])
    return value.new_zeros((*shape, value.shape[3]), dtype=dtype), key.new_zeros((*shape, 1), dtype=dtype)


def causal_sums(queries: Tensor, keys: Tensor, values: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Return Σ_{j≤i} f(q_i)·f(k_j) v_j, shape (B, H, n, V), and the state after.

    `queries` and `keys` are features of n positions; `state` is the first sum of `sum_keys` over all earlier positions.
    Products are masked within a block; sums are carried across blocks. Later positions never change earlier ones.
    """
    output, state = causal_products(*_in_blocks(queries, keys, values), state)
    return out_of_blocks(output, queries.shape[2]), state


def weighted_causal_sums(
    queries: Tensor, keys: Tensor, values: Tensor, state: Tensor, total: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return as `causal_sums`, then the sums of the weights, (B, H, n, 1), and the sum of the keys after.

    `total` is the second sum of `sum_keys` over all earlier positions.
    """
    length = queries.shape[2]
    output, state, weight, total = weighted_causal_products(*_in_blocks(queries, keys, values), state, total)
    return out_of_blocks(output, length), state, out_of_blocks(weight, length), total


def _in_blocks(queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    size = min(block_length(max(keys.shape[3], values.shape[3])), queries.shape[2])
    return in_blocks(queries, size), in_blocks(keys, size), in_blocks(values, size)
