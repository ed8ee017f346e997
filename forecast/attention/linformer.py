"""Linformer attention: softmax over a few learned mixtures of the keys."""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from forecast.attention._costs import Cost, Costs, Head
from forecast.attention._masks import Mask
from forecast.attention.base import Attention, CausalAbility, at_least_float32, full_precision
from forecast.attention.full import fused_softmax, softmax_weights
from forecast.common.errors import InputError


class LinformerAttention(Attention):
    """Softmax over r rows that two learned projections make of the keys and of the values.

    Equation: σ(Q(PK)ᵀ/√E)(RV), P and R learned, (r, S), Q (B, H, L, E), K (B, H, S, E), V (B, H, S, V)
    → (B, H, L, V).

    Time O(L r E), memory O(L r) written out, O(r E) fused, beside the output.

    A column of P and R belongs to a position: shorter inputs use the first columns, longer ones are refused,
    masked keys and values are zeros. A row of PK mixes all positions, so it cannot be causal. The implied
    weights σ(Q(PK)ᵀ/√E) R may be negative, and their sum is not 1.

    Parameters
    ----------
    rank : int
        Rows r of the projections; `max_key_length` where that is fewer, since more would only cost.

    Notes
    -----
    Differs from the paper in: nothing, of whose ways to share this is one P and one R for all heads of a
    layer. Both begin as normal numbers of variance 1 / max_key_length, the paper's proof has 1 / r: a row of
    PK is then about as large as a key at any r.

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
            raise InputError(f"attention={self.name} needs max_key_length, the longest key that the layer will bring")
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
        rank = min(int(arguments["rank"]), head.keys)  # PK and RV, the scores, and the weights times RV
        return 2 * rank * (head.queries + head.keys) * (head.width + head.value_width)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, rank={self.rank}, max_key_length={self.max_key_length}"

    def _project(self, projection: Tensor, rows: Tensor) -> Tensor:
        """Return (B, H, S, C) as (B, H, r, C)."""
        return self._columns(projection, rows) @ rows.to(at_least_float32(rows))

    def _columns(self, projection: Tensor, rows: Tensor) -> Tensor:
        """Return the columns of `projection` for the positions of `rows`, shape (r, S)."""
        length, longest = rows.shape[2], projection.shape[1]
        if length > longest:
            raise ValueError(
                f"{self.name} was built for keys of at most {longest} positions, not {length}: "
                f"build it with max_key_length={length}, or take a mechanism without a limit, as full"
            )
        return projection[:, :length].to(at_least_float32(rows))
