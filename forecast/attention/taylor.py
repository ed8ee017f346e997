"""Taylor attention: the first two terms of the softmax's exponential, so that keys and values are summed once."""

from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from forecast.attention._chunks import map_chunks, sum_chunks
from forecast.attention._costs import Cost, Costs, Head
from forecast.attention._masks import Mask, allowed_pairs, zero_pairs
from forecast.attention._recompute import State
from forecast.attention._recurrent import RecurrentAttention
from forecast.attention._sums import weighted_causal_sums, zero_sums
from forecast.attention.base import CausalAbility, at_least_float32, full_precision
from forecast.attention.mean import first_sums, mean_weights, running_sums
from forecast.kernels.causal_products import product, unit
from forecast.kernels.fused import summed_means

# Below this mean weight, rounding in float32 dominates the weights of a row.
SMALLEST_MEAN_WEIGHT = 1e-4

# Shorter vectors count as zero.
SMALLEST_LENGTH = 1e-12


class TaylorAttention(RecurrentAttention):
    """Weights 1 + q·k of query and key scaled to length 1; they are never negative.

    Equation: (ΣV + Q'(K'ᵀV)) / (S + Q' ΣK') with Q' = Q/‖Q‖ and K' = K/‖K‖. The causal form sums up to the query's
    position i and has i instead of S.

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
            if self.causal:
                return self.scan(query, key, value, mask)
            return summed_means(self.attend_in_chunks, query, key, value, mask, features="taylor")

    def attend_in_chunks(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        """Return the output that is not causal, in plain form."""
        state, total, values = sum_chunks(_sum, key, value)
        count: Tensor | int = key.shape[2]
        if mask is not None:
            count = mask.sum(dim=1).clamp_min(1)[:, None, None, None]  # without a key, all sums are 0
        mean = values / count  # (B, H, 1, V)
        return map_chunks(partial(_mix, count), (mean, state - total * mean, total), query, value.dtype)

    def first_state(self, key: Tensor, value: Tensor) -> State:
        # K'ᵀV and ΣK', ΣV (B, H, 1, V), and the count of allowed keys (B, 1, 1, 1)
        return *zero_sums(key, value, at_least_float32(key)), *first_sums(value)

    def causal_step(
        self, state: State, queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None
    ) -> tuple[State, Tensor]:
        sums, total, value_sum, count = state
        units = _unit(queries)
        value_sums, counts = running_sums(values, hidden, value_sum, count)
        mean = value_sums / counts.clamp_min(1)
        output, sums, weight, total = weighted_causal_sums(units, _unit(keys), values.to(units.dtype), sums, total)
        after = (sums, total, value_sums[:, :, -1:], counts[:, :, -1:])
        return after, mean + _divide(output - weight * mean, weight, counts)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        with full_precision(query):
            weights = 1 + _unit(query) @ _unit(key).transpose(-1, -2)
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


def _mix(count: Tensor | int, queries: Tensor, mean: Tensor, state: Tensor, total: Tensor) -> Tensor:
    units = _unit(queries)
    return mean + _divide(units @ state, units @ total, count)


def _sum(keys: Tensor, values: Tensor) -> State:
    """Return K'ᵀV, shape (B, H, E, V), ΣK', shape (B, H, E, 1), and ΣV, shape (B, H, 1, V)."""
    units = _unit(keys).transpose(-1, -2)  # hidden keys are zero and stay zero
    values = values.to(units.dtype)
    return product(units, values), units.sum(dim=-1, keepdim=True), values.sum(dim=2, keepdim=True)


def _unit(vectors: Tensor) -> Tensor:
    return unit(vectors.to(at_least_float32(vectors)), SMALLEST_LENGTH)


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
