"""Ten wrong mechanisms. Each has the right formula in its file, and a map that agrees with its output."""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from forecast.attention.base import Attention, CausalAbility, Cost, Costs, allowed_pairs, at_least_float32
from forecast.attention.base import full_precision as precise
from tests.check.broken import Mask, Softmax


def formula(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, **arguments: Any) -> Tensor:
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    return scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1) @ value


class Plain(Softmax):
    """No fault: softmax of `scores` over `allowed`, which the others change."""

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        with precise(query):
            scores = self.scores(query.to(at_least_float32(query)), key.to(at_least_float32(key)))
            allowed = self.allowed(query, key, mask)
            if allowed is None:
                return scores.softmax(dim=-1)
            scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
            return scores.softmax(dim=-1).masked_fill(~allowed, 0)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query / math.sqrt(query.shape[-1]) @ key.transpose(-1, -2)

    def allowed(self, query: Tensor, key: Tensor, mask: Mask) -> Tensor | None:
        return allowed_pairs(query, key, mask, self.causal)


class DividesByTheWidth(Plain):
    """E instead of √E, and costs of another mechanism."""

    time_cost: ClassVar[Costs] = Cost(length=1)
    memory_cost: ClassVar[Costs] = Cost()

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query / query.shape[-1] @ key.transpose(-1, -2)


class TakesTheFirstHead(Plain):
    """Every head gets the weights of head 0."""

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return super().scores(query, key)[:, :1].expand(-1, query.shape[1], -1, -1)


class ForgetsTheMask(Plain):
    def allowed(self, query: Tensor, key: Tensor, mask: Mask) -> Tensor | None:
        return super().allowed(query, key, None)


class LooksAheadByOne(Plain):
    def allowed(self, query: Tensor, key: Tensor, mask: Mask) -> Tensor | None:
        allowed = allowed_pairs(query, key, mask, False)
        if not self.causal:
            return allowed
        near = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril(1)[None, None]
        return near if allowed is None else near & allowed


class ForgetsTheScale(Plain):
    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-1, -2)


class MixesHeads(Plain):
    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        weights = super().attention_weights(query, key, mask, query_mask)
        return weights.mean(dim=1, keepdim=True).expand_as(weights)


class NormalizesOverQueries(Plain):
    causal_ability: ClassVar[CausalAbility] = "no"

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        weights = super().attention_weights(query, key, mask, query_mask)
        return weights / weights.sum(dim=-2, keepdim=True).clamp_min(1e-30)


class DeclaresFewerOperations(Plain):
    time_cost: ClassVar[Costs] = Cost(length=1, logarithms=1, width=1)


class DropsOutAlways(Plain):
    deterministic: ClassVar[bool] = False

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        weights = super().attention_weights(query, key, mask, query_mask)
        return weights * (1 + 1e-6 * torch.rand_like(weights)) if weights.dtype == torch.float32 else weights


class OverflowsInHalf(Plain):
    """Sums before it divides, in the dtype of the values."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        weights = self.attention_weights(query, key, mask, query_mask)
        if value.dtype != torch.float16:
            return weights @ value.to(weights.dtype)
        top = weights.amax(dim=-1, keepdim=True)
        relative = weights / top.where(top > 0, 1)
        sums = (relative @ value.float()).to(value.dtype)
        return sums * (top / weights.sum(dim=-1, keepdim=True).clamp_min(1e-30)).to(value.dtype)


WRONG: dict[type[Attention], set[str]] = {
    DividesByTheWidth: {"formula", "formula, gradient", "operations", "live bytes"},
    TakesTheFirstHead: {"formula", "heads permuted", "one head changed"},
    ForgetsTheMask: {"formula, masked", "masked = cut"},
    LooksAheadByOne: {"formula, causal", "causal"},
    ForgetsTheScale: {"formula", "output, float32"},
    MixesHeads: {"formula", "one head changed"},
    NormalizesOverQueries: {"formula"},
    DeclaresFewerOperations: {"operations"},
    DropsOutAlways: {"repeatable, eval"},
    OverflowsInHalf: {"long sums, half"},
}
"""Each wrong mechanism, with the checks that must say why."""
