"""Efficient attention: separate softmaxes of query and key instead of one of their product."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from forecast.attention._chunks import map_chunks
from forecast.attention._costs import Cost, Costs, Head
from forecast.attention._masks import Mask, allowed_pairs, masked_keys
from forecast.attention._running_softmax import running_softmax
from forecast.attention._sums import sum_keys
from forecast.attention.base import Attention, CausalAbility, at_least_float32, full_precision


class EfficientAttention(Attention):
    """Softmax of the query over features times E weighted means of the values, one per feature of the key.

    Equation: σ_features(Q) (σ_positions(K)ᵀ V). The causal form has a running softmax for each feature:
    Σ_{j≤i} exp(k_j) v_j / Σ_{j≤i} exp(k_j).

    Cost: time O(L E²); memory O(E²), or O(L E) if causal, without the output. The causal form works in blocks; see
    `softmax_step`.

    Shapes: query (B, H, L, E), key (B, H, S, E), value (B, H, S, V), output (B, H, L, V).

    Notes
    -----
    Differs from the paper in: the causal form, which the paper does not have. The authors' code also scales the query
    by E^(-1/2) and normalizes the output of the layer; neither is part of the mechanism.

    References
    ----------
    Shen et al., "Efficient Attention: Attention with Linear Complexities", 2021, arXiv:1812.01243.
    """

    causal_ability: ClassVar[CausalAbility] = "strict"
    time_cost: ClassVar[Costs] = Cost(length=1, width=2)
    memory_cost: ClassVar[Costs] = {"": Cost(width=2), "causal": Cost(length=1, width=1)}

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        with full_precision(query):
            if self.causal:
                return running_softmax(lambda queries, _: _over_features(queries), query, key, value, mask)
            means = _means(key, value, mask)  # σ_positions(K)ᵀ V, (B, H, E, V)
            return map_chunks(lambda queries, means: _over_features(queries) @ means, (means,), query)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        with full_precision(query):
            features = _over_features(query)
            allowed = allowed_pairs(query, key, mask, self.causal)
            scores = key.to(features.dtype).transpose(-1, -2)  # (B, H, E, S)
            if allowed is None:
                return features @ scores.softmax(dim=-1)
            weights = features.new_zeros(())
            for number in range(features.shape[-1]):  # one feature at a time: each causal softmax is (L, S)
                logits = scores[:, :, number, None].masked_fill(~allowed, torch.finfo(scores.dtype).min)
                weights = weights + features[..., number, None] * logits.softmax(dim=-1)
            return weights.masked_fill(~allowed, 0)

    @classmethod
    def operations(cls, head: Head, **arguments: Any) -> float:
        products = 2 * (head.queries + head.keys) * head.width * head.value_width  # σ(K)ᵀV, and σ(Q) times it
        return products + (2 * head.queries + head.keys) * head.width


def _over_features(query: Tensor) -> Tensor:
    return query.softmax(dim=-1, dtype=at_least_float32(query))


def _means(key: Tensor, value: Tensor, mask: Mask) -> Tensor:
    """Return the weighted mean of the values per feature of the key, (B, H, E, V); zeros if all keys are masked."""
    dtype = at_least_float32(key)
    hidden = masked_keys(mask)
    top = key.detach() if hidden is None else key.detach().masked_fill(hidden, torch.finfo(key.dtype).min)
    top = top.amax(dim=2, keepdim=True).to(dtype)  # (B, H, 1, E)

    def exponentials(keys: Tensor, hidden: Tensor | None) -> Tensor:
        features = (keys.to(dtype) - top).exp_()
        return features if hidden is None else features.masked_fill(hidden, 0)

    state, total = sum_keys(exponentials, key, value, mask)
    return state / total.where(total > 0, 1)
