"""Efficient attention: a softmax of the query and one of the key in place of one of their product."""

from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import Tensor

from forecast.attention._chunks import hidden_keys, join, loop, running_softmax_sums, sum_keys
from forecast.attention.base import Attention, CausalAbility, allowed_pairs, at_least_float32, full_precision


class EfficientAttention(Attention):
    """Features of the query, softmaxed, choose among means of the values, one a feature of the key.

    Equation: σ_features(Q) (σ_positions(K)ᵀ V), Q (B, H, L, E), K (B, H, S, E), V (B, H, S, V)
    → (B, H, L, V). Causal: a running softmax, Σ_{j≤i} exp(k_j) v_j / Σ_{j≤i} exp(k_j) for each feature.

    Time O(L E²), memory O(E²) beside the output; causal by pieces, O(L E) for E near the length of a piece,
    see `running_softmax_sums`.

    Notes
    -----
    Differs from the paper in: its causal form is ours. The public code also scales the query by E^(-1/2)
    and normalises what the block gives, neither of which is part of the mechanism.

    References
    ----------
    Shen et al., "Efficient Attention: Attention with Linear Complexities", 2021, arXiv:1812.01243.
    """

    causal_ability: ClassVar[CausalAbility] = "strict"
    time_cost: ClassVar[str] = "O(L E²)"
    memory_cost: ClassVar[str] = "O(E²), causal O(L E)"

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, query_mask: Tensor | None
    ) -> Tensor:
        with full_precision(query):
            if self.causal:
                return join(running_softmax_sums(_over_features, query, key, value, mask), query.shape[2])
            return join(_mix(query, key, value, mask), query.shape[2])

    def weigh(self, query: Tensor, key: Tensor, mask: Tensor | None, query_mask: Tensor | None) -> Tensor:
        with full_precision(query):
            features = _over_features(query)
            allowed = allowed_pairs(query, key, mask, self.causal)
            scores = key.to(features.dtype).transpose(-1, -2)  # (B, H, E, S)
            if allowed is None:
                return features @ scores.softmax(dim=-1)
            weights = features.new_zeros(())
            for number in range(features.shape[-1]):  # a feature at a time: a causal softmax is (L, S) for each
                logits = scores[:, :, number, None].masked_fill(~allowed, torch.finfo(scores.dtype).min)
                weights = weights + features[..., number, None] * logits.softmax(dim=-1)
            return weights.masked_fill(~allowed, 0)


def _over_features(query: Tensor) -> Tensor:
    return query.softmax(dim=-1, dtype=at_least_float32(query))


def _mix(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Iterator[Tensor]:
    lowest, dtype = torch.finfo(key.dtype).min, at_least_float32(key)
    tops = [
        (keys if hidden is None else keys.masked_fill(hidden, lowest)).amax(dim=2, keepdim=True)
        for keys, hidden in loop(key.detach(), hidden_keys(mask))
    ]
    top = torch.cat(tops, dim=2).amax(dim=2, keepdim=True).to(dtype)  # (B, H, 1, E)

    def exponentials(keys: Tensor, hidden: Tensor | None) -> Tensor:
        features = (keys.to(dtype) - top).exp_()
        return features if hidden is None else features.masked_fill(hidden, 0)

    state, total = sum_keys(exponentials, key, value, mask)
    means = state / total.where(total > 0, 1)  # (B, H, E, V); where nothing is allowed, zeros
    for (queries,) in loop(query):
        yield _over_features(queries) @ means
