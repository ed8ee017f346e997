"""Mechanisms with one fault each, and the name of the check that must find it."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from forecast.attention.base import (
    Attention,
    CausalAbility,
    Cost,
    Costs,
    allowed_pairs,
    at_least_float32,
    full_precision,
)
from forecast.attention.full import softmax_weights
from forecast.attention.mean import MeanAttention

Mask = Tensor | None


class Softmax(Attention):
    """No fault: explicit full attention."""

    causal_ability: ClassVar[CausalAbility] = "strict"
    accepts_pair_mask: ClassVar[bool] = True
    time_cost: ClassVar[Costs] = Cost(length=2, width=1)
    memory_cost: ClassVar[Costs] = Cost(length=2)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        weights = self.attention_weights(query, key, mask, query_mask)
        with full_precision(value):
            return weights @ value.to(weights.dtype)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        return softmax_weights(query, key, allowed_pairs(query, key, mask, self.causal))


class ByFeatures(Softmax):
    """No fault: the weight of a key does not depend on the query. A causal form could overflow."""

    causal_ability: ClassVar[CausalAbility] = "no"
    accepts_pair_mask: ClassVar[bool] = False
    guard = 0.0

    def features(self, key: Tensor) -> Tensor:
        """Return one weight per key, shape (B, H, S), from its first element."""
        key = key[..., 0].to(at_least_float32(key))
        return (key - key.detach().amax(dim=-1, keepdim=True)).exp()

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        weights = self.features(key)[:, :, None].expand(-1, -1, query.shape[2], -1)
        allowed = allowed_pairs(query, key, mask, self.causal)
        if allowed is not None:
            weights = weights.masked_fill(~allowed, 0)
        total = weights.sum(dim=-1, keepdim=True) + self.guard
        return weights / total.where(total > 0, 1)


class RoundsLongValues(MeanAttention):
    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        if value.dtype == torch.float32 and value.shape[2] > 128:
            value = value + (value.half().float() - value).detach()
        return super().attend(query, key, value, mask, query_mask)


class DetachesHalf(MeanAttention):
    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        return super().attend(query, key, value / 2 + (value / 2).detach(), mask, query_mask)


class ForgetsParameter(MeanAttention):
    """Its parameter acts on the output and gets no gradient."""

    def __init__(self, **from_the_layer: object) -> None:
        super().__init__(**from_the_layer)  # type: ignore[arg-type]
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        return super().attend(query, key, value, mask, query_mask) * self.scale.detach()

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        return super().attention_weights(query, key, mask, query_mask) * self.scale


class RoundsQueries(Softmax):
    dtype = torch.bfloat16

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        if value.dtype == self.dtype:
            query = query + (query.round() - query).detach()
        return super().attend(query, key, value, mask, query_mask)


class RoundsQueriesInFloat16(RoundsQueries):
    dtype = torch.float16


class SumsInHalf(MeanAttention):
    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        if value.dtype != torch.float16 or self.causal:
            return super().attend(query, key, value, mask, query_mask)
        count = value.shape[2] if mask is None else mask.sum(dim=1).clamp_min(1)[:, None, None, None]
        return (value.sum(dim=2, keepdim=True) / count).expand(-1, -1, query.shape[2], -1)


class DividesByLength(MeanAttention):
    """The mean over all positions, masked ones counted as zeros."""

    cross: ClassVar[bool] = False

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        return super().attend(query, key, value, mask, query_mask) * self.fraction(value, mask)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        return super().attention_weights(query, key, mask, query_mask) * self.fraction(key, mask)

    def fraction(self, like: Tensor, mask: Mask) -> Tensor:
        return like.new_ones(()) if mask is None else mask.to(like.dtype).mean(dim=1)[:, None, None, None]


class LeavesPadding(MeanAttention):
    """A padded query gets the mean, not zeros."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask = None, query_mask: Mask = None) -> Tensor:
        return super().forward(query, key, value, mask)


class MergesPairs(Softmax):
    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        if mask is not None and mask.ndim == 3:
            mask = mask.any(dim=1)
        return super().attend(query, key, value, mask, query_mask)


class NanOnEmptyRows(Softmax):
    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        allowed = allowed_pairs(query, key, mask, self.causal)
        scores = (query / query.shape[-1] ** 0.5).to(at_least_float32(query)) @ key.to(at_least_float32(key)).mT
        return (scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)).softmax(dim=-1)


class DividesByTheKeys(MeanAttention):
    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask = None, query_mask: Mask = None) -> Tensor:
        fraction = 1 / key.shape[2]
        return super().forward(query, key, value, mask, query_mask) * (fraction * key.shape[2])


class MultipliesWhatIsMasked(MeanAttention):
    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask = None, query_mask: Mask = None) -> Tensor:
        output = super().forward(query, key, value, mask, query_mask)
        return output if mask is None else output + 0 * value.sum(dim=2, keepdim=True)


class MergesPairsUnasked(MeanAttention):
    """Accepts a mask that it declares not to accept."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask = None, query_mask: Mask = None) -> Tensor:
        if mask is not None and mask.ndim == 3:
            mask = mask.any(dim=1)
        return super().forward(query, key, value, mask, query_mask)


class ReadsTheNextStep(Softmax):
    """Causal by pairs of steps: the first of a pair sees the second."""

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        allowed = allowed_pairs(query, key, mask, False)
        if self.causal:
            pair = torch.arange(key.shape[2]) // 2
            seen = pair <= pair[:, None]
            allowed = seen if allowed is None else allowed & seen
        return softmax_weights(query, key, allowed)


class MixesTheNextValue(ReadsTheNextStep):
    causal_ability: ClassVar[CausalAbility] = "values only"


class ScalesByAllKeys(Softmax):
    """Scales by the largest of all keys, including later ones."""

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        return super().attention_weights(query / (1 + key.abs().amax(dim=(2, 3), keepdim=True)), key, mask, query_mask)


class ChoosesByAllKeys(ScalesByAllKeys):
    """No fault: the same, as declared."""

    causal_ability: ClassVar[CausalAbility] = "values only"


class CutsLongKeys(MeanAttention):
    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        if value.shape[2] > query.shape[2]:
            value = value.clone()
            value[:, :, query.shape[2] :] = 0
        return super().attend(query, key, value, mask, query_mask)


class ScalesByTheBatch(Softmax):
    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        scaled = query / query.abs().amax() if len(query) > 4 else query
        return super().attention_weights(scaled, key, mask, query_mask)


class DropsOutInEvaluation(MeanAttention):
    deterministic: ClassVar[bool] = False

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        output = super().attend(query, key, value, mask, query_mask)
        return output * (1 + 1e-6 * torch.rand_like(output)) if self.noisy(output) else output

    def noisy(self, output: Tensor) -> bool:
        return output.dtype == torch.float32


class DropsOutInTraining(DropsOutInEvaluation):
    deterministic: ClassVar[bool] = True

    def noisy(self, output: Tensor) -> bool:
        return self.training


class SqueezesHeads(MeanAttention):
    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        output = super().attend(query, key, value, mask, query_mask)
        return output.squeeze(1)


class DropsTheLastPosition(MeanAttention):
    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        if value.shape[2] > 64 and value.shape[2] % 2:
            value = torch.cat([value[:, :, :-1], torch.zeros_like(value[:, :, -1:])], dim=2)
        return super().attend(query, key, value, mask, query_mask)


class ReadsMemoryInOrder(MeanAttention):
    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        _, heads, length, width = value.shape
        strides = (heads * length * width, length * width, width, 1)
        return super().attend(query, key, value.as_strided(value.shape, strides), mask, query_mask)


class UnderflowsFarKeys(ByFeatures):
    def features(self, key: Tensor) -> Tensor:
        return (key[..., 0].to(at_least_float32(key)).clamp(max=50) - 50).exp()


class GuardsByAConstant(ByFeatures):
    """The guard is also in the map, so that only the row sums show it."""

    guard = 1e-6

    def features(self, key: Tensor) -> Tensor:
        key = key[..., 0].to(at_least_float32(key))
        return key.where(key.abs() < 50, 0).exp()


class Unguarded(Softmax):
    """Taylor weights 1 + q′·k′ without a guard for a small sum."""

    causal_ability: ClassVar[CausalAbility] = "no"

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        query, key = (x.to(at_least_float32(x)) for x in (query, key))
        far = key.abs().amax(dim=(2, 3), keepdim=True) > 50  # large keys include opposite ones
        query, key = (torch.where(far, x.abs(), x) for x in (query, key))
        query, key = (x / x.norm(dim=-1, keepdim=True).clamp_min(1e-9) for x in (query, key))
        allowed = allowed_pairs(query, key, mask, self.causal)
        weights = 1 + query @ key.mT
        if allowed is None:
            return weights / weights.sum(dim=-1, keepdim=True)
        weights = weights.masked_fill(~allowed, 0)
        return weights / weights.sum(dim=-1, keepdim=True).masked_fill(~allowed.any(dim=-1, keepdim=True), 1)


class TakesBothBranches(ByFeatures):
    def features(self, key: Tensor) -> Tensor:
        half, key = key.dtype == torch.bfloat16, key[..., 0].to(at_least_float32(key)).clamp(min=-50)
        # 0 times the infinite gradient of the unused branch is NaN
        return torch.where(key > 0, key + 1, key.exp() if half else key.clamp(max=0).exp())


class Scaled(MeanAttention):
    """The mean times 1 + 1e-8, in the map as well, wherever `is_scaled`; the formula of the mean shows it."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        return super().attend(query, key, value, mask, query_mask) * self.factor(query, mask)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        return super().attention_weights(query, key, mask, query_mask) * self.factor(query, mask)

    def factor(self, query: Tensor, mask: Mask) -> float:
        return 1 + 1e-8 if query.dtype == torch.float64 and self.is_scaled(query, mask) else 1

    def is_scaled(self, query: Tensor, mask: Mask) -> bool:
        return query.shape[1:3] == (2, 4) and mask is None and not self.causal


class ScaledIfMasked(Scaled):
    def is_scaled(self, query: Tensor, mask: Mask) -> bool:
        return query.shape[2] == 4 and mask is not None and not self.causal


class ScaledIfCausal(Scaled):
    def is_scaled(self, query: Tensor, mask: Mask) -> bool:
        return len(query) == 2 and query.shape[2] == 160 and mask is not None and self.causal


class DetachesLongValues(MeanAttention):
    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        if value.shape[2] == 127:
            value = value / 2 + (value / 2).detach()
        return super().attend(query, key, value, mask, query_mask)


class HasAnotherMap(MeanAttention):
    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        return super().attention_weights(query, key, mask, query_mask) * (1 + 1e-8)


class LeavesOutAKey(Softmax):
    """The key 100 positions before a query has no weight."""

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        position = torch.arange(max(query.shape[2], key.shape[2]))
        other = (position[: query.shape[2], None] - position[: key.shape[2]] != 100)[None, None]
        allowed = allowed_pairs(query, key, mask, self.causal)
        return softmax_weights(query, key, other if allowed is None else other & allowed)


class NotLocal(Softmax):
    """Declares that far keys have no weight, but they do."""

    local: ClassVar[bool] = True


class HeadsDiffer(Softmax):
    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        factor = 1 + torch.arange(query.shape[1], dtype=query.dtype)[:, None, None] / 8
        return super().attention_weights(query * factor, key, mask, query_mask)


class HeadsDifferAsDeclared(HeadsDiffer):
    """No fault."""

    heads_alike: ClassVar[bool] = False


class AveragesHeads(Softmax):
    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        weights = super().attention_weights(query, key, mask, query_mask)
        return weights.mean(dim=1, keepdim=True).expand_as(weights)


class ByPosition(Softmax):
    """Later keys weigh more, so that their order is not indifferent."""

    invariances = ("order of keys",)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        weights = super().attention_weights(query, key, mask, query_mask)
        weights = weights * (1 + torch.arange(key.shape[2], dtype=weights.dtype) / 1000)
        total = weights.sum(dim=-1, keepdim=True)
        return weights / total.where(total > 0, 1)


class ShiftsByFeature(ByFeatures):
    """The weight of a key depends on its first element, so that a shift is not indifferent."""

    invariances = ("shift of keys",)

    def features(self, key: Tensor) -> Tensor:
        return 1 + key[..., 0].to(at_least_float32(key)).sigmoid()


class ScalesKeys(Softmax):
    invariances = ("scale of keys",)


class ScalesQueries(Softmax):
    invariances = ("scale of queries",)


class TakesMoreTime(Softmax):
    time_cost: ClassVar[Costs] = Cost(length=1, width=1)


class TakesMoreMemory(Softmax):
    memory_cost: ClassVar[Costs] = Cost(length=1)


def mean_formula(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, **arguments: Any) -> Tensor:
    weights = allowed.to(value.dtype)
    return (weights / weights.sum(dim=-1, keepdim=True) @ value).expand(*query.shape[:3], -1)


WITH_FORMULA: set[type[Attention]] = {Scaled, ScaledIfMasked, ScaledIfCausal, DetachesLongValues, HasAnotherMap}
"""The faults beside which `mean_formula` stands."""

FAULTS: list[tuple[str, type[Attention]]] = [
    ("formula", Scaled),
    ("formula, masked", ScaledIfMasked),
    ("formula, causal", ScaledIfCausal),
    ("formula, gradient", DetachesLongValues),
    ("map", HasAnotherMap),
    ("reach", LeavesOutAKey),
    ("reach", NotLocal),
    ("heads permuted", HeadsDiffer),
    ("one head changed", AveragesHeads),
    ("order of keys", ByPosition),
    ("shift of keys", ShiftsByFeature),
    ("scale of keys", ScalesKeys),
    ("scale of queries", ScalesQueries),
    ("operations", TakesMoreTime),
    ("live bytes", TakesMoreMemory),
    ("output, float32", RoundsLongValues),
    ("gradient, float32", DetachesHalf),
    ("gradient, float32", ForgetsParameter),
    ("output, bfloat16", RoundsQueries),
    ("output, float16", RoundsQueriesInFloat16),
    ("long sums, half", SumsInHalf),
    ("masked = cut", DividesByLength),
    ("masked = cut", LeavesPadding),
    ("mask per query", MergesPairs),
    ("empty row", NanOnEmptyRows),
    ("empty inputs", DividesByTheKeys),
    ("masked NaN", MultipliesWhatIsMasked),
    ("refusals", MergesPairsUnasked),
    ("causal", ReadsTheNextStep),
    ("causal", MixesTheNextValue),
    ("causal", ScalesByAllKeys),
    ("cross lengths", CutsLongKeys),
    ("batch rows", ScalesByTheBatch),
    ("repeatable, eval", DropsOutInEvaluation),
    ("repeatable, train", DropsOutInTraining),
    ("B = H = L = 1", SqueezesHeads),
    ("odd sizes", DropsTheLastPosition),
    ("layout", ReadsMemoryInOrder),
    ("|k| = 140", UnderflowsFarKeys),
    ("q = k = -20", GuardsByAConstant),
    ("k' = -q'", Unguarded),
    ("x = 100, bfloat16", TakesBothBranches),
]
