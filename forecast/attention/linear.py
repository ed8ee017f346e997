"""Linear attention: a feature map in place of the softmax, so that keys and values are summed once."""

import math
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from forecast.attention.base import Attention, CausalAbility, allowed_pairs, at_least_float32, full_precision

# Key features carry this power of e, which cancels in the quotient: float32 then holds them from k = -120
# to 10⁴ and more. It is a constant, and not the largest key, so that no later key can touch an earlier row.
KEY_EXPONENT = 40.0

# Positions of a piece in the causal form: the products within pieces, L × piece, then take about as much
# room as the states, L/piece × E², at the usual E = 64.
PIECE_LENGTH = 64


class LinearAttention(Attention):
    """Weights that are products of positive features of query and key.

    Equation: φ(Q)(φ(K)ᵀV) / (φ(Q) Σφ(K)), φ(x) = elu(x) + 1, Q (B, H, L, E), K (B, H, S, E),
    V (B, H, S, V) → (B, H, L, V). Causal: both sums up to the query's own position.

    Time O(L E²), memory O(E²) beside the output; causal by pieces of `PIECE_LENGTH`, the products masked
    within a piece and the sums of earlier pieces carried, O(L E) for E near the length of a piece.

    Notes
    -----
    Differs from the paper in: nothing in what is computed. The features of a query are divided by the
    largest, those of the keys multiplied by a constant, and both cancel.

    References
    ----------
    Katharopoulos et al., "Transformers are RNNs", 2020, arXiv:2006.16236.
    """

    causal_ability: ClassVar[CausalAbility] = "strict"
    time_cost: ClassVar[str] = "O(L E²)"
    memory_cost: ClassVar[str] = "O(E²), causal O(L E)"

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, query_mask: Tensor | None
    ) -> Tensor:
        with full_precision(query):
            query, key, value = _query_features(query), _key_features(key, mask), value.to(at_least_float32(value))
            if self.causal:
                return _causal_mean(query, key, value)
            state = key.transpose(-1, -2) @ value  # (B, H, E, V)
            total = query @ key.sum(dim=2).unsqueeze(-1)  # (B, H, L, 1)
            return _divide(query @ state, total)

    def weigh(self, query: Tensor, key: Tensor, mask: Tensor | None, query_mask: Tensor | None) -> Tensor:
        with full_precision(query):
            allowed = allowed_pairs(query, key, mask, self.causal)
            weights = _query_features(query) @ _key_features(key, mask).transpose(-1, -2)
            if allowed is not None:
                weights = weights.masked_fill(~allowed, 0)
            return _divide(weights, weights.sum(dim=-1, keepdim=True))


# φ(x) = max(x, 0) + exp(min(x, 0)) is elu(x) + 1 without its cancellation: in bfloat16 that is 0 below -6,
# and the exponential of a large x, taken or not, would give a NaN gradient.


def _query_features(query: Tensor) -> Tensor:
    query = query.to(at_least_float32(query))
    # Where all features of a row are small, exp(x - max) keeps them from vanishing; the factor cancels.
    top = query.detach().amax(dim=-1, keepdim=True).clamp(max=0)
    return query.relu() + (query.clamp(max=0) - top).exp()


def _key_features(key: Tensor, mask: Tensor | None) -> Tensor:
    key = key.to(at_least_float32(key))
    features = key.relu() * math.exp(KEY_EXPONENT) + (key.clamp(max=0) + KEY_EXPONENT).exp()
    return features if mask is None else features.masked_fill(~mask[:, None, :, None], 0)


def _causal_mean(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    length = query.shape[2]
    size = min(PIECE_LENGTH, length)
    # (B, H, N, E) → (B, H, pieces, size, E); zeros fill the last piece
    query, key, value = (
        functional.pad(x, (0, 0, 0, -length % size)).unflatten(2, (-1, size)) for x in (query, key, value)
    )
    products = (query @ key.transpose(-1, -2)).tril()  # (B, H, pieces, size, size)
    before = _sum_before(key.transpose(-1, -2) @ value)  # (B, H, pieces, E, V)
    total_before = _sum_before(key.sum(dim=3).unsqueeze(-1))  # (B, H, pieces, E, 1)
    output = products @ value + query @ before
    total = products.sum(dim=-1, keepdim=True) + query @ total_before
    return _divide(output, total).flatten(2, 3)[:, :, :length]


def _sum_before(pieces: Tensor) -> Tensor:
    """Return for each piece, axis 2, the sum of the pieces before it."""
    return functional.pad(pieces[:, :, :-1].cumsum(dim=2), (0, 0, 0, 0, 1, 0))


def _divide(output: Tensor, total: Tensor) -> Tensor:
    """Divide by a total of any size; where there is nothing to attend, zeros."""
    return output / total.where(total >= torch.finfo(total.dtype).tiny, 1)
