"""Efficient attention: separate softmaxes of query and key instead of one of their product."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from forecast.attention._chunks import map_chunks
from forecast.attention._costs import Cost, Costs, Head
from forecast.attention._masks import Mask, allowed_pairs, zero_masked
from forecast.attention._recompute import State
from forecast.attention._recurrent import RecurrentAttention
from forecast.attention._running_softmax import first_state, scan_softmax, softmax_means, softmax_step
from forecast.attention.base import CausalAbility, at_least_float32, full_precision
from forecast.kernels.causal_products import for_products, product
from forecast.kernels.fused import summed_means


class EfficientAttention(RecurrentAttention):
    """Softmax of the query over features times E weighted means of the values, one per feature of the key.

    Equation: σ_features(Q) (σ_positions(K)ᵀ V). The causal form has a running softmax for each feature:
    Σ_{j≤i} exp(k_j) v_j / Σ_{j≤i} exp(k_j).

    Cost: time O(L E²); memory O(E²), or O(L E) if causal, without the output. The causal form works in blocks; see
    `softmax_step`.

    Shapes: query (B, H, L, E), key (B, H, S, E), value (B, H, S, V), output (B, H, L, V).

    Parameters
    ----------
    scale_query
        Whether the softmax of the query is multiplied by E^(-1/2), as in a published implementation. The weights of a
        query then sum to E^(-1/2). That implementation also normalizes the output of the layer:
        `MultiHeadAttention(normalize_output=True)`.

    Notes
    -----
    Differs from the paper in: the causal form and `scale_query`, which the paper does not have.

    References
    ----------
    Shen et al., "Efficient Attention: Attention with Linear Complexities", 2021, arXiv:1812.01243.
    """

    causal_ability: ClassVar[CausalAbility] = "strict"
    time_cost: ClassVar[Costs] = Cost(length=1, width=2)
    memory_cost: ClassVar[Costs] = {"": Cost(width=2), "causal": Cost(length=1, width=1)}
    invariances = ("order of keys", "shift of keys")

    def __init__(self, *, scale_query: bool = False, **from_the_layer: Any) -> None:
        super().__init__(**from_the_layer)
        self.scale_query = self.true_or_false("scale_query", scale_query)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        with full_precision(query):
            if self.causal:
                return self.scan(query, key, value, mask)
            inputs = query, key, value, mask
            return summed_means(self.attend_in_chunks, *inputs, features="softmax", scale=self._scale)

    def attend_in_chunks(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        """Return the output that is not causal, in plain form."""
        context = self.global_context(key, value, mask)
        # stored for the backward pass: a second softmax would take longer than all the rest
        return map_chunks(self._mix, (context,), query, value.dtype, recompute=False)

    def global_context(self, key: Tensor, value: Tensor, mask: Mask = None) -> Tensor:
        """Return σ_positions(K)ᵀ V, the weighted mean of the values for each feature of the key.

        Without causality the output of a query is a mean of its rows. In the causal form it is the context of the last
        position.

        Parameters
        ----------
        key
            Shape (B, H, S, E).
        value
            Shape (B, H, S, V).
        mask
            Boolean, True where a key takes part, shape (B, S).

        Returns
        -------
        Tensor
            Shape (B, H, E, V), at least float32. Zeros for a batch row whose keys are all masked.
        """
        with full_precision(key):
            return softmax_means(zero_masked(key, mask), zero_masked(value, mask), mask)[0]

    def scan(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        return scan_softmax(self._features_of_step, query, key, value, mask)

    def first_state(self, key: Tensor, value: Tensor) -> State:
        return first_state(key, value)

    def causal_step(
        self, state: State, queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None
    ) -> tuple[State, Tensor]:
        return softmax_step(self._features_of_step, state, queries, keys, values, hidden)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        with full_precision(query):
            features = self._over_features(query)
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

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, scale_query={self.scale_query}"

    @property
    def _scale(self) -> float:
        return float(self.head_dim**-0.5) if self.scale_query else 1.0

    def _over_features(self, query: Tensor) -> Tensor:
        features = query.softmax(dim=-1, dtype=at_least_float32(query))
        return features * self._scale if self.scale_query else features

    def _mix(self, queries: Tensor, context: Tensor) -> Tensor:
        return product(for_products(self._over_features(queries), queries), context)

    def _features_of_step(self, queries: Tensor, norms: Tensor, tops: Tensor) -> Tensor:
        return self._over_features(queries)


def formula(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, scale_query: bool, **arguments: Any) -> Tensor:
    """Return the output in the plainest form, in float64; `forecast.check` compares the mechanism with it."""
    features = query.softmax(dim=-1) * (query.shape[-1] ** -0.5 if scale_query else 1)
    scores = key.transpose(-1, -2)[:, :, None].masked_fill(~allowed[..., None, :], -torch.inf)  # (B, H, L, E, S)
    return (features[..., None, :] @ scores.softmax(dim=-1) @ value[:, :, None]).squeeze(-2)
