"""Linear attention: a feature map instead of the softmax, so that keys and values are summed once."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from forecast.attention._chunks import map_chunks
from forecast.attention._costs import Cost, Costs, Head
from forecast.attention._masks import Mask, allowed_pairs, hidden_from_all, zero_pairs
from forecast.attention._recompute import State
from forecast.attention._recurrent import RecurrentAttention
from forecast.attention._running_softmax import first_state, scan_softmax, softmax_means, softmax_step
from forecast.attention._sums import causal_sums, sum_keys, weighted_causal_sums, zero_sums
from forecast.attention.base import CausalAbility, at_least_float32, full_precision
from forecast.kernels.causal_products import (
    divide,
    for_products,
    is_recomputing,
    precise_product,
    product,
    with_slope,
)
from forecast.kernels.fused import summed_means

# Key features are multiplied by e^KEY_EXPONENT, which cancels: float32 then holds keys from `LOWEST_KEY` to above 10⁴.
# A constant, not the largest key, so that a later key never changes an earlier row.
KEY_EXPONENT = 40.0

# Lower keys are clamped to this value. Its feature, e⁻¹¹⁰, is not zero, so neither is any sum of weights.
LOWEST_KEY = -110.0

# Below this x, softplus(x) equals exp(x) in float64.
SMALL = -37.0

# Maps x and s to φ(x) exp(s), where s is a number or (B, H, n, 1).
FeatureMap = Callable[[Tensor, Tensor | float], Tensor]


class LinearAttention(RecurrentAttention):
    """Weights that are products of features of query and key.

    Equation: φ(Q)(φ(K)ᵀV) / (φ(Q) Σφ(K)), or φ(Q)(φ(K)ᵀV) if not normalized. The causal form sums up to the query's
    position.

    Cost: time O(L E²); memory O(E²), or O(L E) if causal, without the output. The causal form works in blocks of E
    positions, at least 64 and at most 512: products are masked within a block, sums are carried across blocks. `step`
    carries on the causal form with a state of E (V + 1) numbers for each head.

    Shapes: query (B, H, L, E), key (B, H, S, E), value (B, H, S, V), output (B, H, L, V).

    Parameters
    ----------
    feature_map
        φ, for each element: "elu": elu(x) + 1, "relu": max(x, 0), "softplus": ln(1 + eˣ), "exp": eˣ. If all weights of
        a query are 0, which only "relu" allows, its output is zero.
    normalize
        Whether the weights of a query are divided by their sum. Without, the output grows with the number of keys, and
        "exp" overflows in float32 where q + ln Σ exp(k) of a feature is above 88.

    Notes
    -----
    Differs from the paper in: keys below `LOWEST_KEY` are clamped with "elu" and "softplus", so that the output stays a
    weighted mean where the features underflow in float32. Factors of the features that cancel keep other sizes in
    range. With "exp", the sums of each feature are relative to its largest key, as in `softmax_step`. The paper has
    "elu" only, normalized.

    References
    ----------
    Katharopoulos et al., "Transformers are RNNs", 2020, arXiv:2006.16236.
    """

    causal_ability: ClassVar[CausalAbility] = "strict"
    time_cost: ClassVar[Costs] = Cost(length=1, width=2)
    memory_cost: ClassVar[Costs] = {"": Cost(width=2), "causal": Cost(length=1, width=1)}
    invariances = ("order of keys",)

    def __init__(self, *, feature_map: str = "elu", normalize: bool = True, **from_the_layer: Any) -> None:
        super().__init__(**from_the_layer)
        self.feature_map = self.one_of("feature_map", feature_map, (*MAPS, "exp"))
        self.normalize = self.true_or_false("normalize", normalize)
        self.weights_may_vanish = feature_map == "relu"

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        with full_precision(query):
            if self.causal:
                return self.scan(query, key, value, mask)
            inputs = query, key, value, mask
            return summed_means(self.attend_in_chunks, *inputs, features=self.feature_map, normalize=self.normalize)

    def attend_in_chunks(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        """Return the output that is not causal, in plain form."""
        if self.feature_map == "exp":
            return map_chunks(self._mix_means, softmax_means(key, value, mask), query, value.dtype)
        sums = sum_keys(self._key_features, key, value, mask)  # φ(K)ᵀV (B, H, E, V), Σφ(K) (B, H, E, 1)
        return map_chunks(self._mix, sums, query, value.dtype)

    def scan(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        if self.feature_map == "exp":
            return scan_softmax(self._exponential_features, query, key, value, mask)
        return super().scan(query, key, value, mask)

    def first_state(self, key: Tensor, value: Tensor) -> State:
        if self.feature_map == "exp":
            return first_state(key, value)
        sums, total = zero_sums(key, value, at_least_float32(key))  # φ(K)ᵀV and Σφ(K)
        return (sums, total) if self.normalize else (sums,)

    def causal_step(
        self, state: State, queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None
    ) -> tuple[State, Tensor]:
        if self.feature_map == "exp":
            return softmax_step(self._exponential_features, state, queries, keys, values, hidden)
        features, key_features = self._query_features(queries), self._key_features(keys, hidden)
        values = values.to(key_features.dtype)
        if not self.normalize:
            output, *sums = causal_sums(features, key_features, values, *state)
            return tuple(sums), output
        output, sum_, weight, total = weighted_causal_sums(features, key_features, values, *state)
        return (sum_, total), divide(output, weight)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        with full_precision(query):
            allowed = allowed_pairs(query, key, mask, self.causal)
            if self.feature_map == "exp":
                return self._exponentials_of_pairs(query, key, allowed)
            features = self._key_features(key, hidden_from_all(mask))
            weights = zero_pairs(product(self._query_features(query), features.transpose(-1, -2)), allowed)
            return divide(weights, weights.sum(dim=-1, keepdim=True)) if self.normalize else weights

    @classmethod
    def operations(cls, head: Head, **arguments: Any) -> float:
        products = 2 * (head.queries + head.keys) * head.width * head.value_width  # φ(K)ᵀV, and φ(Q) times it
        sums = (2 * head.queries + head.keys) * head.width  # Σφ(K), and φ(Q) times it
        return products + sums * bool(arguments.get("normalize", True))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, feature_map={self.feature_map}, normalize={self.normalize}"

    def _query_features(self, query: Tensor) -> Tensor:
        features = (query_features if self.normalize else plain_features)(self.feature_map, query)
        return self._for_products(features, query)

    def _key_features(self, key: Tensor, hidden: Tensor | None) -> Tensor:
        features = (key_features if self.normalize else plain_features)(self.feature_map, key, hidden)
        return self._for_products(features, key)

    def _for_products(self, features: Tensor, source: Tensor) -> Tensor:
        # relu in float32: its sums of weights may be small, and rounding would dominate their gradients
        return features if self.feature_map == "relu" else for_products(features, source)

    def _mix(self, queries: Tensor, state: Tensor, total: Tensor) -> Tensor:
        features = self._query_features(queries)
        output = product(features, state)
        return divide(output, precise_product(features, total)) if self.normalize else output

    def _mix_means(self, queries: Tensor, means: Tensor, logarithms: Tensor) -> Tensor:
        return product(for_products(self._exponential_weights(queries, logarithms), queries), means)

    def _exponential_features(self, queries: Tensor, norms: Tensor, tops: Tensor) -> Tensor:
        return self._exponential_weights(queries, norms.log() + tops)

    def _exponential_weights(self, queries: Tensor, logarithms: Tensor) -> Tensor:
        """Return exp(q) Σexp(k) for each feature, normalized or not, where `logarithms` are those of Σexp(k)."""
        exponents = queries + logarithms
        return exponents.softmax(dim=-1) if self.normalize else exponents.exp()

    def _exponentials_of_pairs(self, query: Tensor, key: Tensor, allowed: Tensor | None) -> Tensor:
        dtype = at_least_float32(query)
        query, key = query.to(dtype), key.to(dtype)
        pairs = [query[..., e, None] + key[..., None, :, e] for e in range(query.shape[-1])]  # each (B, H, L, S)
        exponents = pairs[0]
        for pair in pairs[1:]:
            exponents = torch.logaddexp(exponents, pair)
        if not self.normalize:
            return zero_pairs(exponents.exp(), allowed)
        if allowed is not None:
            exponents = exponents.masked_fill(~allowed, torch.finfo(dtype).min)
        return zero_pairs(exponents.softmax(dim=-1), allowed)


def query_features(name: str, query: Tensor) -> Tensor:
    """Return the features of queries; a factor for each query keeps small features from underflowing."""
    query = query.to(at_least_float32(query))
    top = query.detach().amax(dim=-1, keepdim=True)
    if name == "relu":
        return query.relu() / top.where(top > 0, 1)
    return MAPS[name](query, -top.clamp(max=0))


def key_features(name: str, key: Tensor, hidden: Tensor | None) -> Tensor:
    """Return the features of keys, all with the same factor; zeros where `hidden` (B, 1, n, 1) is True."""
    key = key.to(at_least_float32(key))
    features = key.relu() if name == "relu" else MAPS[name](key.clamp(min=LOWEST_KEY), KEY_EXPONENT)
    return features if hidden is None else features.masked_fill(hidden, 0)


def plain_features(name: str, vectors: Tensor, hidden: Tensor | None = None) -> Tensor:
    """Return the features without a factor; zeros where `hidden` is True."""
    vectors = vectors.to(at_least_float32(vectors))
    features = MAPS[name](vectors, 0.0)
    return features if hidden is None else features.masked_fill(hidden, 0)


def _elu(vectors: Tensor, exponent: Tensor | float) -> Tensor:
    # max(x, 0) + exp(min(x, 0)) equals elu(x) + 1 without cancellation, which gives 0 below -6 in bfloat16. The clamp
    # also avoids the NaN gradient of an exponential that overflows in an unused branch.
    if is_recomputing():
        with torch.no_grad():
            factor = _exp(exponent)
            features = vectors.clamp(max=0).add_(exponent).exp_() + vectors.clamp(min=0) * factor
            slope = features.minimum(factor) if isinstance(factor, Tensor) else features.clamp(max=factor)
        return with_slope(features, slope, vectors)
    return vectors.clamp(max=0).add_(exponent).exp_() + vectors.relu() * _exp(exponent)


def _relu(vectors: Tensor, exponent: Tensor | float) -> Tensor:
    return vectors.relu()


def _softplus(vectors: Tensor, exponent: Tensor | float) -> Tensor:
    small = (vectors.clamp(max=SMALL) + exponent).exp()  # log1p would round these to few digits, or to 0
    usual = functional.softplus(vectors.clamp(min=SMALL), threshold=40) * _exp(exponent)
    return torch.where(vectors < SMALL, small, usual)


def _exp(exponent: Tensor | float) -> Tensor | float:
    """Return exp(s), where s of a query is large only if all its features are small and this factor is not used."""
    return exponent.clamp(max=-SMALL).exp() if isinstance(exponent, Tensor) else math.exp(exponent)


MAPS: dict[str, FeatureMap] = {"elu": _elu, "relu": _relu, "softplus": _softplus}


def formula(
    query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, feature_map: str, normalize: bool, **arguments: Any
) -> Tensor:
    """Return the output in the plainest form, in float64; `forecast.check` compares the mechanism with it."""
    if feature_map == "elu":
        query, key = (torch.where(x > 0, x + 1, x.clamp(max=0).exp()) for x in (query, key))
    else:
        function = {"relu": torch.relu, "softplus": torch.nn.functional.softplus, "exp": torch.exp}[feature_map]
        query, key = function(query), function(key)
    weights = (query @ key.transpose(-1, -2)).masked_fill(~allowed, 0)
    total = weights.sum(dim=-1, keepdim=True)
    return weights @ value / total.where(total > 0, 1) if normalize else weights @ value
