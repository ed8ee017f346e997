"""Taylor attention: the first two terms of the softmax's exponential, so that keys and values are summed once."""

from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor

from forecast.attention._chunks import causal_sums, concatenate_chunks, map_chunks, sum_keys
from forecast.attention._costs import Cost, Costs, Head
from forecast.attention._masks import Mask, allowed_pairs, zero_pairs
from forecast.attention.base import Attention, CausalAbility, at_least_float32, full_precision
from forecast.attention.mean import mean_of_values, mean_weights

# Below this mean weight, rounding in float32 dominates the weights of a row.
SMALLEST_MEAN_WEIGHT = 1e-4

# Shorter vectors count as zero.
SMALLEST_LENGTH = 1e-12


class TaylorAttention(Attention):
    """Weights 1 + q·k of query and key scaled to length 1; they are never negative.

    Equation: (ΣV + Q'(K'ᵀV)) / (S + Q' ΣK') with Q' = Q/‖Q‖ and K' = K/‖K‖. The causal form sums up to the query's
    position i and has i in place of S.

    Cost: time O(L E²); memory O(E²), or O(L E) if causal, without the output. The causal form works in blocks.

    Shapes: query (B, H, L, E), key (B, H, S, E), value (B, H, S, V), output (B, H, L, V).

    If all keys are opposite to a query, its weights sum to 0. Where their mean is below `SMALLEST_MEAN_WEIGHT`, the
    output is the mean of the allowed values.

    Notes
    -----
    Differs from the paper in: the rule for small weights; a zero vector stays zero. The code computes the same quotient
    as mean(V) + Q'(K'ᵀV − ΣK' mean(V)) / (S + Q' ΣK'), which is accurate for a small sum of weights as well.

    References
    ----------
    Li et al., "Linear Attention Mechanism: An Efficient Attention for Semantic Segmentation", 2020,
    arXiv:2007.14902.
    """

    causal_ability: ClassVar[CausalAbility] = "strict"
    time_cost: ClassVar[Costs] = Cost(length=1, width=2)
    memory_cost: ClassVar[Costs] = {"": Cost(width=2), "causal": Cost(length=1, width=1)}
    invariances = ("order of keys", "scale of keys", "scale of queries")

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        with full_precision(query):
            value = value.to(at_least_float32(value))
            if self.causal:
                return concatenate_chunks(_mix_causal(query, key, value, mask), query.shape[2])
            mean = mean_of_values(value, mask, 1, False)  # (B, H, 1, V)
            count = key.shape[2] if mask is None else mask.sum(dim=1)[:, None, None, None]
            state, total = sum_keys(_unit_keys, key, value, mask)  # K'ᵀV (B, H, E, V), ΣK' (B, H, E, 1)
            state = state - total * mean

            def mix(queries: Tensor) -> Tensor:
                unit = _unit(queries)
                return mean + _divide(unit @ state, unit @ total, count)

            return map_chunks(mix, query)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        with full_precision(query):
            weights = 1 + _unit(query) @ _unit_keys(key).transpose(-1, -2)
            allowed = allowed_pairs(query, key, mask, self.causal)
            allowed = torch.ones_like(weights, dtype=torch.bool) if allowed is None else allowed.expand_as(weights)
            weights = zero_pairs(weights, allowed)
            total, count = weights.sum(dim=-1, keepdim=True), allowed.sum(dim=-1, keepdim=True)
            enough = total > SMALLEST_MEAN_WEIGHT * count
            return torch.where(enough, weights / total.where(enough, 1), mean_weights(query, key, mask, self.causal))

    @classmethod
    def operations(cls, head: Head, **arguments: Any) -> float:
        products = 2 * (head.queries + head.keys) * head.width * head.value_width  # K'ᵀV, and Q' times it
        key_sums = (2 * head.queries + head.keys) * head.width  # ΣK', and Q' times it
        return products + key_sums + (head.queries + head.keys) * head.value_width  # ΣV


def _mix_causal(query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Iterator[Tensor]:
    mean = mean_of_values(value, mask, query.shape[2], True)
    allowed = torch.ones_like(key[:1, 0, :, 0], dtype=torch.bool) if mask is None else mask
    count = allowed.cumsum(dim=1)[:, None, :, None]
    start = 0
    for products, total in causal_sums(_unit, _unit_keys, query, key, value, mask):
        here = slice(start, start + products.shape[2])
        start = here.stop
        yield mean[:, :, here] + _divide(products - total * mean[:, :, here], total, count[:, :, here])


def _unit(vectors: Tensor) -> Tensor:
    vectors = vectors.to(at_least_float32(vectors))
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    unit: Tensor = vectors / length.where(length > SMALLEST_LENGTH, torch.inf)
    return unit


def _unit_keys(key: Tensor, hidden: Tensor | None = None) -> Tensor:
    return _unit(key)  # hidden keys are zero and stay zero


def _divide(products: Tensor, total: Tensor, count: Tensor | int) -> Tensor:
    """Divide by the sum of the weights, count + total; return 0 where it is nearly 0."""
    weight = total + count
    return products / weight.where(weight > SMALLEST_MEAN_WEIGHT * count, torch.inf)


def formula(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, **arguments: Any) -> Tensor:
    """Return the output in the plainest form, in float64; `forecast.check` compares the mechanism with it."""
    query, key = (x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp_min(1e-12) for x in (query, key))
    weights = (1 + query @ key.transpose(-1, -2)).masked_fill(~allowed, 0)
    total, count = weights.sum(dim=-1, keepdim=True), allowed.sum(dim=-1, keepdim=True)
    weights = torch.where(total > 1e-4 * count, weights / total, allowed.to(total.dtype) / count)
    return weights @ value
