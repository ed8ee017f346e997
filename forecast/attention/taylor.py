"""Taylor attention: the exponential of the softmax by its first two terms, so that keys and values are summed once."""

from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor

from forecast.attention._chunks import causal_sums, concatenate_chunks, map_chunks, sum_keys
from forecast.attention._costs import Cost, Costs, Head
from forecast.attention._masks import Mask, allowed_pairs, zero_pairs
from forecast.attention.base import Attention, CausalAbility, at_least_float32, full_precision
from forecast.attention.mean import mean_of_values, mean_weights

# A row whose weights have a mean below this has no direction to prefer that float32 could tell from rounding.
SMALLEST_MEAN_WEIGHT = 1e-4

# A vector below this length counts as zero, which has no direction.
SMALLEST_LENGTH = 1e-12


class TaylorAttention(Attention):
    """Weights 1 + q·k of query and key at length 1, which are never negative.

    Equation: (ΣV + Q'(K'ᵀV)) / (S + Q' ΣK'), Q' = Q/‖Q‖, K' = K/‖K‖, Q (B, H, L, E), K (B, H, S, E),
    V (B, H, S, V) → (B, H, L, V). Causal: sums up to the query's own position, and its number in place of S.

    Time O(L E²), memory O(E²) beside the output; causal in blocks, O(L E) for E near the length of a block.

    All keys may lie opposite to a query, and its weights sum to 0: where their mean is below
    `SMALLEST_MEAN_WEIGHT` the answer is the mean of the allowed values.

    Notes
    -----
    Differs from the paper in: that rule, and a zero vector stays zero. What is computed is the same quotient
    as mean(V) + Q'(K'ᵀV − ΣK' mean(V)) / (S + Q' ΣK'), whose rounding does not grow as the sum of the
    weights goes to 0 over few keys.

    References
    ----------
    Li et al., "Linear Attention Mechanism: An Efficient Attention for Semantic Segmentation", 2020,
    arXiv:2007.14902.
    """

    causal_ability: ClassVar[CausalAbility] = "strict"
    time_cost: ClassVar[Costs] = Cost(length=1, width=2)
    memory_cost: ClassVar[Costs] = {"": Cost(width=2), "causal": Cost(length=1, width=1)}

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
                return mean + _over(unit @ state, unit @ total, count)

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
        sums = (2 * head.queries + head.keys) * head.width + (
            head.queries + head.keys
        ) * head.value_width  # ΣK', Q' times it, ΣV
        return products + sums


def _mix_causal(query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Iterator[Tensor]:
    mean = mean_of_values(value, mask, query.shape[2], True)
    allowed = torch.ones_like(key[:1, 0, :, 0], dtype=torch.bool) if mask is None else mask
    count = allowed.cumsum(dim=1)[:, None, :, None]
    start = 0
    for products, total in causal_sums(_unit, _unit_keys, query, key, value, mask):
        here = slice(start, start + products.shape[2])
        start = here.stop
        yield mean[:, :, here] + _over(products - total * mean[:, :, here], total, count[:, :, here])


def _unit(vectors: Tensor) -> Tensor:
    vectors = vectors.to(at_least_float32(vectors))
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    unit: Tensor = vectors / length.where(length > SMALLEST_LENGTH, torch.inf)
    return unit


def _unit_keys(key: Tensor, hidden: Tensor | None = None) -> Tensor:
    return _unit(key)  # what is hidden is zero, and stays it


def _over(products: Tensor, total: Tensor, count: Tensor | int) -> Tensor:
    """Divide by the sum of the weights, count + total; 0 where that is nearly 0."""
    weight = total + count
    return products / weight.where(weight > SMALLEST_MEAN_WEIGHT * count, torch.inf)
