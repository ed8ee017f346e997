"""Linear attention: a feature map in place of the softmax, so that keys and values are summed once."""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from forecast.attention._chunks import causal_sums, concatenate_chunks, divide, map_chunks, sum_keys
from forecast.attention._costs import Cost, Costs, Head
from forecast.attention._masks import Mask, allowed_pairs, masked_keys, zero_pairs
from forecast.attention.base import Attention, CausalAbility, at_least_float32, full_precision

# Key features carry this power of e, which cancels in the quotient: float32 then holds them from `LOWEST_KEY`
# to 10⁴ and more. It is a constant, and not the largest key, so that no later key can touch an earlier row.
KEY_EXPONENT = 40.0

# A lower key counts as this one. Its feature, e⁻¹¹⁰, is then no zero, so that a sum of weights never is, either.
LOWEST_KEY = -110.0


class LinearAttention(Attention):
    """Weights that are products of positive features of query and key.

    Equation: φ(Q)(φ(K)ᵀV) / (φ(Q) Σφ(K)), φ(x) = elu(x) + 1, Q (B, H, L, E), K (B, H, S, E),
    V (B, H, S, V) → (B, H, L, V). Causal: both sums up to the query's own position.

    Time O(L E²), memory O(E²) beside the output; causal in blocks of `BLOCK_LENGTH`, the products masked
    within a block and the sums of earlier blocks carried, O(L E) for E near the length of a block.

    Notes
    -----
    Differs from the paper in: a key below `LOWEST_KEY` counts as that. The output so stays a weighted mean
    where float32 holds none of the features. The features of a query are divided by the largest, those of the
    keys multiplied by a constant, and both cancel.

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
                sums = causal_sums(_query_features, _key_features, query, key, value, mask)
                return concatenate_chunks((divide(*both) for both in sums), query.shape[2])
            state, total = sum_keys(_key_features, key, value, mask)  # φ(K)ᵀV (B, H, E, V), Σφ(K) (B, H, E, 1)

            def mix(queries: Tensor) -> Tensor:
                features = _query_features(queries)
                return divide(features @ state, features @ total)

            return map_chunks(mix, query)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        with full_precision(query):
            weights = _query_features(query) @ _key_features(key, masked_keys(mask)).transpose(-1, -2)
            weights = zero_pairs(weights, allowed_pairs(query, key, mask, self.causal))
            return divide(weights, weights.sum(dim=-1, keepdim=True))

    @classmethod
    def operations(cls, head: Head, **arguments: Any) -> float:
        products = 2 * (head.queries + head.keys) * head.width * head.value_width  # φ(K)ᵀV, and φ(Q) times it
        return products + (2 * head.queries + head.keys) * head.width  # Σφ(K), and φ(Q) times it


# φ(x) = max(x, 0) + exp(min(x, 0)) is elu(x) + 1 without its cancellation: in bfloat16 that is 0 below -6,
# and the exponential of a large x, taken or not, would give a NaN gradient.


def _query_features(query: Tensor) -> Tensor:
    query = query.to(at_least_float32(query))
    # Where all features of a row are small, exp(x - max) keeps them from vanishing; the factor cancels.
    top = query.detach().amax(dim=-1, keepdim=True).clamp_(max=0)
    return query.clamp(max=0).sub_(top).exp_() + query.relu()


def _key_features(key: Tensor, hidden: Tensor | None) -> Tensor:
    key = key.to(at_least_float32(key))
    small = key.clamp(min=LOWEST_KEY, max=0).add_(KEY_EXPONENT).exp_()
    features = torch.add(small, key.relu(), alpha=math.exp(KEY_EXPONENT))
    return features if hidden is None else features.masked_fill_(hidden, 0)
