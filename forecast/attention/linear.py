"""Linear attention: a feature map instead of the softmax, so that keys and values are summed once."""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from forecast.attention._chunks import map_chunks, scan_chunks
from forecast.attention._costs import Cost, Costs, Head
from forecast.attention._masks import Mask, allowed_pairs, masked_keys, zero_pairs
from forecast.attention._recompute import State
from forecast.attention._sums import causal_sums, divide, sum_keys, zero_sums
from forecast.attention.base import Attention, CausalAbility, at_least_float32, full_precision

# Key features are multiplied by e^KEY_EXPONENT, which cancels: float32 then holds keys from `LOWEST_KEY` to above 10⁴.
# A constant, not the largest key, so that a later key never changes an earlier row.
KEY_EXPONENT = 40.0

# Lower keys are clamped to this value. Its feature, e⁻¹¹⁰, is not zero, so neither is any sum of weights.
LOWEST_KEY = -110.0


class LinearAttention(Attention):
    """Weights that are products of positive features of query and key.

    Equation: φ(Q)(φ(K)ᵀV) / (φ(Q) Σφ(K)) with φ(x) = elu(x) + 1. The causal form sums up to the query's position.

    Cost: time O(L E²); memory O(E²), or O(L E) if causal, without the output. The causal form works in blocks of
    `BLOCK_LENGTH`: products are masked within a block, sums are carried across blocks.

    Shapes: query (B, H, L, E), key (B, H, S, E), value (B, H, S, V), output (B, H, L, V).

    Notes
    -----
    Differs from the paper in: keys below `LOWEST_KEY` are clamped, so that the output stays a weighted mean where the
    features underflow in float32. Features of a query are divided by their maximum, those of the keys multiplied by a
    constant; both factors cancel.

    References
    ----------
    Katharopoulos et al., "Transformers are RNNs", 2020, arXiv:2006.16236.
    """

    causal_ability: ClassVar[CausalAbility] = "strict"
    time_cost: ClassVar[Costs] = Cost(length=1, width=2)
    memory_cost: ClassVar[Costs] = {"": Cost(width=2), "causal": Cost(length=1, width=1)}

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        with full_precision(query):
            if self.causal:
                start = zero_sums(key, value, at_least_float32(value))
                return scan_chunks(_causal_step, start, query, key, value, masked_keys(mask))
            sums = sum_keys(_key_features, key, value, mask)  # φ(K)ᵀV (B, H, E, V), Σφ(K) (B, H, E, 1)
            return map_chunks(_mix, sums, query)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        with full_precision(query):
            weights = _query_features(query) @ _key_features(key, masked_keys(mask)).transpose(-1, -2)
            weights = zero_pairs(weights, allowed_pairs(query, key, mask, self.causal))
            return divide(weights, weights.sum(dim=-1, keepdim=True))

    @classmethod
    def operations(cls, head: Head, **arguments: Any) -> float:
        products = 2 * (head.queries + head.keys) * head.width * head.value_width  # φ(K)ᵀV, and φ(Q) times it
        return products + (2 * head.queries + head.keys) * head.width  # Σφ(K), and φ(Q) times it


def _mix(queries: Tensor, state: Tensor, total: Tensor) -> Tensor:
    features = _query_features(queries)
    return divide(features @ state, features @ total)


def _causal_step(
    sums: State, queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None
) -> tuple[State, Tensor]:
    features = _query_features(queries)
    output, weight, *sums = causal_sums(features, _key_features(keys, hidden), values.to(features.dtype), *sums)
    return tuple(sums), divide(output, weight)


# φ(x) = max(x, 0) + exp(min(x, 0)) equals elu(x) + 1 without cancellation, which gives 0 below -6 in bfloat16.
# The clamp also avoids the NaN gradient of an exponential that overflows in an unused branch.


def _query_features(query: Tensor) -> Tensor:
    query = query.to(at_least_float32(query))
    # exp(x - max) keeps a row of small features from underflowing; the factor cancels
    top = query.detach().amax(dim=-1, keepdim=True).clamp_(max=0)
    return query.clamp(max=0).sub_(top).exp_() + query.relu()


def _key_features(key: Tensor, hidden: Tensor | None) -> Tensor:
    key = key.to(at_least_float32(key))
    small = key.clamp(min=LOWEST_KEY, max=0.0).add_(KEY_EXPONENT).exp_()
    features = torch.add(small, key.relu(), alpha=math.exp(KEY_EXPONENT))
    return features if hidden is None else features.masked_fill_(hidden, 0)
