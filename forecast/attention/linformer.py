"""Linformer attention: softmax over a few learned combinations of the keys."""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from forecast.attention._costs import Cost, Costs, Head
from forecast.attention._masks import Mask
from forecast.attention.base import Attention, CausalAbility, at_least_float32, full_precision, is_half_on_cpu
from forecast.attention.full import fused_softmax, softmax_weights
from forecast.common.errors import InputError


class LinformerAttention(Attention):
    """Softmax over r learned combinations of the keys, applied to r learned combinations of the values.

    Equation: σ(Q(PK)ᵀ/√E)(RV) with learned projections P and R, shape (r, S).

    Cost: time O(L r E); memory O(r E), or O(L r) where no fused kernel applies, without the output.

    Shapes: query (B, H, L, E), key (B, H, S, E), value (B, H, S, V), output (B, H, L, V).

    Each column of P and R belongs to one position. Shorter inputs use the first columns; longer inputs are refused.
    Masked keys and values are zeros. The mechanism cannot be causal, since a row of PK mixes all positions. The implied
    weights σ(Q(PK)ᵀ/√E) R may be negative and do not sum to 1.

    Parameters
    ----------
    rank
        Number of rows r of the projections, at most `max_key_length`: a larger value is reduced to it.

    Notes
    -----
    Differs from the paper in: the initial variance of P and R, 1 / max_key_length instead of 1 / r, so that rows of PK
    have the size of keys for any r. All heads of a layer share one P and one R, one of the paper's variants.

    References
    ----------
    Wang et al., "Linformer: Self-Attention with Linear Complexity", 2020, arXiv:2006.04768.
    """

    causal_ability: ClassVar[CausalAbility] = "no"
    time_cost: ClassVar[Costs] = Cost(length=1, width=1, other="r")
    memory_cost: ClassVar[Costs] = Cost(length=1, other="r")

    def __init__(self, *, rank: int, **from_the_layer: Any) -> None:
        super().__init__(**from_the_layer)
        if (max_key_length := self.max_key_length) is None:
            raise InputError(f"attention={self.name} needs max_key_length, the length of the longest key")
        self.rank = min(self.positive_integer("rank", rank), max_key_length)
        size = (self.rank, max_key_length)
        self.key_projection = nn.Parameter(torch.randn(size) / math.sqrt(max_key_length))
        self.value_projection = nn.Parameter(torch.randn(size) / math.sqrt(max_key_length))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        with full_precision(query):
            keys, values = self._project(self.key_projection, key), self._project(self.value_projection, value)
            return fused_softmax(query, keys, values, None)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        with full_precision(query):
            weights = softmax_weights(query, self._project(self.key_projection, key), None)
            implied = weights @ self._columns(self.value_projection, key)
            return implied if mask is None else implied.masked_fill(~mask[:, None, None], 0)

    @classmethod
    def operations(cls, head: Head, **arguments: Any) -> float:
        rank = min(int(arguments["rank"]), head.keys)  # PK, RV, the scores, and the weights times RV
        return 2 * rank * (head.queries + head.keys) * (head.width + head.value_width)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, rank={self.rank}, max_key_length={self.max_key_length}"

    def _project(self, projection: Tensor, rows: Tensor) -> Tensor:
        """Project rows (B, H, S, C) to (B, H, r, C)."""
        columns = self._columns(projection, rows)
        if is_half_on_cpu(rows):  # the product folds all heads into one matrix: this converts and folds in one pass
            folded = rows.permute(2, 0, 1, 3).to(columns.dtype, memory_format=torch.contiguous_format)  # (S, B, H, C)
            projected: Tensor = (columns @ folded.flatten(1)).unflatten(1, folded.shape[1:])  # (r, B, H, C)
            return projected.permute(1, 2, 0, 3)
        return columns @ rows.to(columns.dtype)

    def _columns(self, projection: Tensor, rows: Tensor) -> Tensor:
        """Return the columns of `projection` for the positions of `rows`, shape (r, S)."""
        length, longest = rows.shape[2], projection.shape[1]
        if length > longest:
            raise ValueError(
                f"{self.name} was built for keys of at most {longest} positions, not {length}: "
                f"build it with max_key_length={length}, or choose a mechanism without a limit, such as full"
            )
        return projection[:, :length].to(at_least_float32(rows))


def formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    allowed: Tensor,
    key_projection: Tensor,
    value_projection: Tensor,
    **arguments: Any,
) -> Tensor:
    """Return the output in the plainest form, in float64; `forecast.check` compares the mechanism with it."""
    length = key.shape[2]
    visible = allowed[:, :, 0, :, None]  # (B, 1, S, 1), the same for every query
    keys = key_projection[:, :length] @ key.where(visible, 0)
    values = value_projection[:, :length] @ value.where(visible, 0)
    return (query @ keys.transpose(-1, -2) / math.sqrt(query.shape[-1])).softmax(dim=-1) @ values
