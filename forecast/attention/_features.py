"""Feature maps of linear attention: elu(x) + 1, relu, softplus and exp."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from forecast.attention.base import at_least_float32
from forecast.kernels.causal_products import is_recomputing, with_slope

# Key features are multiplied by e^KEY_EXPONENT, which cancels: float32 then holds keys from `LOWEST_KEY` to above 10⁴.
# A constant, not the largest key, so that a later key never changes an earlier row.
KEY_EXPONENT = 40.0

# Lower keys are clamped to this value. Its feature, e⁻¹¹⁰, is not zero, so neither is any sum of weights.
LOWEST_KEY = -110.0

# Below this x, softplus(x) equals exp(x) in float64.
SMALL = -37.0

# Maps x and s to φ(x) exp(s), where s is a number or (B, H, n, 1).
FeatureMap = Callable[[Tensor, Tensor | float], Tensor]


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
