"""Softmax attention, fused or explicit."""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from forecast.attention._costs import Cost, Costs, Head
from forecast.attention._masks import Mask, allowed_pairs, softmax_over
from forecast.attention.base import (
    Attention,
    CausalAbility,
    at_least_float32,
    full_precision,
    is_autocast,
    is_half_on_cpu,
)
from forecast.common.cpu import has_bfloat16_products

# Limit of CUDA kernels whose second grid axis is batch × heads.
MAX_BATCH_HEADS = 65_535
LIMITED_DEVICES = {"cuda"}

FEW_KEYS = 48
"""Most keys for which a CPU with several threads computes plain products, which store the weights.

There the fused kernel of torch 2.13 is no faster on two threads than on one (AMD EPYC, 22 to 42 keys), and plain
products take half to three quarters of its time.
"""


class FullAttention(Attention):
    """Softmax over the scaled products of every query with every key.

    Equation: σ(QKᵀ/√E) V.

    Cost: time O(L S E); memory O(L) fused, O(L S) explicit. With a causal and a padding mask together, the fused form
    also needs L S booleans, since no kernel takes both.

    Shapes: query (B, H, L, E), key (B, H, S, E), value (B, H, S, V), output (B, H, L, V).

    Parameters
    ----------
    implementation
        "fused": torch's `scaled_dot_product_attention`, or plain products where these are faster (`FEW_KEYS`).
        "explicit": all scores in memory, at least float32.

    Notes
    -----
    Differs from the paper in: no dropout on the weights; the output is zero for a query without a key to attend to.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, arXiv:1706.03762.
    """

    causal_ability: ClassVar[CausalAbility] = "strict"
    accepts_pair_mask: ClassVar[bool] = True
    time_cost: ClassVar[Costs] = Cost(length=2, width=1)
    memory_cost: ClassVar[Costs] = {"fused": Cost(length=1), "explicit": Cost(length=2)}
    invariances = ("order of keys", "shift of keys")

    def __init__(self, *, implementation: str, **from_the_layer: Any) -> None:
        super().__init__(**from_the_layer)
        self.implementation = self.one_of("implementation", implementation, ("fused", "explicit"))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        if self.implementation == "explicit":
            weights = self.attention_weights(query, key, mask, query_mask)
            with full_precision(query):
                return weights @ value.to(weights.dtype)
        if self.causal and mask is None:
            return fused_softmax(query, key, value, None, causal=True)
        return fused_softmax(query, key, value, allowed_pairs(query, key, mask, self.causal))

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        return softmax_weights(query, key, allowed_pairs(query, key, mask, self.causal))

    @classmethod
    def operations(cls, head: Head, **arguments: Any) -> float:
        return 2 * head.queries * head.keys * (head.width + head.value_width) / (2 if head.causal else 1)


def softmax_weights(query: Tensor, key: Tensor, allowed: Tensor | None) -> Tensor:
    """Return σ(QKᵀ/√E) over the allowed pairs, shape (B, H, L, S), in at least float32."""
    dtype = at_least_float32(query)
    with full_precision(query):
        scores = (query.to(dtype) / math.sqrt(query.shape[-1])) @ key.to(dtype).transpose(-1, -2)
        return softmax_over(scores, allowed)


def fused_softmax(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None, causal: bool = False) -> Tensor:
    """Return σ(QKᵀ/√E) V, shape (B, H, L, V), dtype of `value`, from torch's fused kernels or plain products.

    `allowed` broadcasts to (B, H, L, S). Values that no query may attend to must be zero. A CPU without products of
    bfloat16 computes in float32.
    """
    if is_half_on_cpu(value) and not has_bfloat16_products():
        with full_precision(value):
            return fused_softmax(query.float(), key.float(), value.float(), allowed, causal).to(value.dtype)
    query, key = query.to(value.dtype), key.to(value.dtype)
    if allowed is None and not causal and _are_plain_products_faster(key):
        return softmax_weights(query, key, None) @ value
    if allowed is None:
        return _in_chunks(query, key, value, None, causal)
    attends = allowed.any(dim=-1, keepdim=True)
    # Kernels disagree about an empty row, so it attends to all keys and is zeroed afterwards.
    output = _in_chunks(query, key, value, allowed | ~attends, causal)
    if allowed.shape[-2] == 1 < query.shape[-2]:
        return output  # a mask of keys: all queries of a batch row are empty, and its values are zero already
    return output.masked_fill(~attends, 0)


def softmax_of_rows(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None) -> Tensor:
    """Return `fused_softmax` for few queries; a CPU computes float16 and bfloat16 in float32.

    Its kernels for these types rearrange all keys and values first, which takes longer than the products of few
    queries: `probsparse` took 39 ms in bfloat16 and 14 ms in float32 (8,192 tokens, 8 heads of 64, two cores with AMX).
    """
    if not is_half_on_cpu(value):
        return fused_softmax(query, key, value, allowed)
    # a head for each thread at a time: their float32 copies stay in the cache
    size = value.shape[1] if torch.compiler.is_compiling() else torch.get_num_threads()
    parts = [tensor.split(size, dim=1) for tensor in (query, key, value)]
    if allowed is not None:
        parts.append(allowed.expand(-1, value.shape[1], -1, -1).split(size, dim=1))
    with full_precision(value):
        rows = [fused_softmax(q, k, v.float(), *mask or [None]) for q, k, v, *mask in zip(*parts, strict=True)]
        return torch.cat(rows, dim=1).to(value.dtype)


def _are_plain_products_faster(key: Tensor) -> bool:
    if torch.compiler.is_compiling() or key.device.type != "cpu" or key.shape[-2] > FEW_KEYS:
        return False
    return key.dtype == torch.float32 and not is_autocast(key) and torch.get_num_threads() > 1


def _in_chunks(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None, causal: bool) -> Tensor:
    batch, heads = query.shape[:2]
    if query.device.type not in LIMITED_DEVICES or batch * heads <= MAX_BATCH_HEADS:
        output = functional.scaled_dot_product_attention(query, key, value, allowed, is_causal=causal)
        return output.to(value.dtype)  # autocast returns the lower precision
    rows = max(1, MAX_BATCH_HEADS // heads)
    masks = [None] * batch if allowed is None else allowed.expand(batch, -1, -1, -1).split(rows)
    chunks = zip(query.split(rows), key.split(rows), value.split(rows), masks, strict=False)
    return torch.cat([_in_chunks(*chunk, causal) for chunk in chunks])


def formula(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, **arguments: Any) -> Tensor:
    """Return the output in the plainest form, in float64; `forecast.check` compares the mechanism with it."""
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    return scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1) @ value
