"""ProbSparse attention: softmax for the few queries that stand out, the mean of the values for the rest."""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from forecast.attention._chunks import batch_to_reckon_with
from forecast.attention._costs import Cost, Costs, Head
from forecast.attention._masks import Mask
from forecast.attention._sampling import (
    allowed_positions_of,
    fixed_fractions,
    highest,
    log_count,
    log_counts,
    own_scores,
    positions_of,
    take_rows,
)
from forecast.attention.base import CausalAbility, SparseQueries, at_least_float32, full_precision
from forecast.attention.full import fused_softmax, softmax_weights
from forecast.attention.mean import mean_of_values, mean_weights

# Numbers that scoring may hold at a time; longer inputs are scored in chunks. On a processor a chunk that
# stays in its cache is twice as fast, an accelerator wants few launches.
CHUNK_ELEMENTS_CPU = 2**22
CHUNK_ELEMENTS = 2**26


class ProbSparseAttention(SparseQueries):
    """Softmax over all keys for the u queries with the highest measure; the others get the mean value.

    Equation: M(q) = max_j q·k_j − mean_j q·k_j over U sampled keys; σ(q Kᵀ/√E) V for the u highest M,
    mean(V) for the rest; U = factor·⌈ln S⌉, u = factor·⌈ln L⌉, at least 1 and at most S, L.
    Q (B, H, L, E), K (B, H, S, E), V (B, H, S, V) → (B, H, L, V).

    Time O(L log S · E), memory O(L log S). The measure carries no gradient.

    With a mask, U and the sample follow each batch row's count of allowed keys, with a query mask u that of
    its real queries. *Causal* holds for the values only: a query's measure sees sampled keys up to its own
    position (with none it ranks last), but the ranking is over all queries, so a later key or query can
    decide whether an earlier one is chosen. What is mixed into an output is never later than it.

    Parameters
    ----------
    factor : int
        Multiplies both logarithms.
    sampling : {"shared", "per_query"}
        One sample for all queries, as in the paper's Algorithm 1, or one for each, as in the public code.
        Drawn anew at each call in training mode, fixed by the lengths in evaluation mode.
    measure : {"sampled_mean", "published"}
        Divide the mean by the number sampled, or by the number of keys, as the public code does.

    Notes
    -----
    Differs from the paper in: the causal default is the running mean, not the running sum; sampling stops
    being random where as many keys are wanted as there are.

    References
    ----------
    Zhou et al., "Informer", 2021, arXiv:2012.07436.
    """

    causal_ability: ClassVar[CausalAbility] = "values only"
    deterministic: ClassVar[bool] = False
    time_cost: ClassVar[Costs] = Cost(length=1, logarithms=1, width=1)
    memory_cost: ClassVar[Costs] = Cost(length=1, logarithms=1)

    def __init__(self, *, factor: int, sampling: str, measure: str, **from_the_layer: Any) -> None:
        super().__init__(**from_the_layer)
        self.factor = self.positive_integer("factor", factor)
        self.sampling = self.one_of("sampling", sampling, ("shared", "per_query"))
        self.measure = self.one_of("measure", measure, ("sampled_mean", "published"))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        chosen = self.choose_active_queries(query, key, mask, query_mask)
        output = mean_of_values(value, mask, query.shape[2], self.causal)
        allowed = self._allowed(chosen, mask, key.shape[2])
        rows = fused_softmax(take_rows(query, chosen), key, value, allowed)
        return self._put(output, rows, chosen, query_mask)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        chosen = self.choose_active_queries(query, key, mask, query_mask)
        weights = mean_weights(query, key, mask, self.causal)
        allowed = self._allowed(chosen, mask, key.shape[2])
        rows = softmax_weights(take_rows(query, chosen), key, allowed)
        return self._put(weights, rows, chosen, query_mask)

    def choose_active_queries(self, query: Tensor, key: Tensor, mask: Mask = None, query_mask: Mask = None) -> Tensor:
        """Return the positions of the queries that get the softmax, best first, shape (B, H, u).

        In a batch row with fewer real queries only as many of the first count as its own u.
        """
        positions, drawn = self.sample(query.shape[2], key.shape[2], key.device, mask)
        measure = self.measure_queries(query, key, mask, positions, drawn)
        if query_mask is not None:
            measure = measure.masked_fill(~query_mask[:, None], -torch.inf)
        return highest(measure, log_count(self.factor, query.shape[2]))

    def num_active_queries(self, length: int) -> int | None:
        return None if self.causal or self.sampling != "shared" else log_count(self.factor, length)

    def choose_from_products(self, length: int, device: torch.device, products: Callable[[Tensor], Tensor]) -> Tensor:
        positions, _ = self.sample(length, length, device, None)
        return highest(self._measure(products(positions[0, 0]), None, length), log_count(self.factor, length))

    @classmethod
    def operations(cls, head: Head, **arguments: Any) -> float:
        # U keys for all queries, then u queries for all keys, twice
        sampled, active = (log_count(arguments["factor"], length) for length in (head.keys, head.queries))
        return 2 * head.queries * sampled * head.width + 2 * active * head.keys * (head.width + head.value_width)

    def sample(self, num_queries: int, num_keys: int, device: torch.device, mask: Mask) -> tuple[Tensor, Tensor | None]:
        """Return key positions, (B or 1, L or 1, U), and which of the U count in a batch row, (B, 1, U)."""
        rows = 1 if self.sampling == "shared" else num_queries
        width = log_count(self.factor, num_keys)
        draw = torch.rand if self.training else fixed_fractions
        fractions = draw(rows, width, device=device)
        if mask is None:
            return positions_of(fractions, num_keys, width), None
        wanted = log_counts(self.factor, mask.sum(dim=1))
        drawn = torch.arange(width, device=device) < wanted[:, None, None]
        return allowed_positions_of(fractions, mask, wanted), drawn

    @torch.no_grad()
    def measure_queries(
        self, query: Tensor, key: Tensor, mask: Mask, positions: Tensor, drawn: Tensor | None
    ) -> Tensor:
        """Return M for each query given the sample, shape (B, H, L), in at least float32."""
        heads, length, width = query.shape[1:]
        shared = positions.shape[1] == 1
        held = batch_to_reckon_with(query) * heads * positions.shape[2] * (1 if shared else width)
        size = max(1, (CHUNK_ELEMENTS_CPU if query.device.type == "cpu" else CHUNK_ELEMENTS) // held)
        num_keys: int | Tensor = key.shape[2] if mask is None else mask.sum(dim=1)[:, None, None]
        dtype = at_least_float32(query)
        measures = []
        with full_precision(query):
            sampled = (take_rows(key, positions) if shared else key.contiguous()).to(dtype)
            for start in range(0, length, size):
                chunk = query[:, :, start : start + size].to(dtype)
                at = positions if shared else positions[:, start : start + size]
                scores = chunk @ sampled.transpose(-1, -2) if shared else own_scores(chunk, sampled, at)
                seen = drawn
                if self.causal:
                    steps = torch.arange(start, start + chunk.shape[2], device=query.device)
                    seen = at <= steps[:, None] if drawn is None else drawn & (at <= steps[:, None])
                measures.append(self._measure(scores, seen, num_keys))
        return torch.cat(measures, dim=2)

    def _measure(self, scores: Tensor, seen: Tensor | None, num_keys: int | Tensor) -> Tensor:
        """Return M from scores (B, H, L, U), of which `seen` (B or 1, L or 1, U) count."""
        if seen is None:
            total, count = scores.sum(dim=-1), scores.shape[-1]
            return scores.amax(dim=-1) - total / (num_keys if self.measure == "published" else count)
        seen = seen[:, None]
        counts = seen.sum(dim=-1)
        divisor = num_keys if self.measure == "published" else counts.clamp_min(1)
        mean = scores.masked_fill(~seen, 0).sum(dim=-1) / divisor
        measure = scores.masked_fill(~seen, -torch.inf).amax(dim=-1) - mean
        # nothing seen: behind all that saw something, before padding, which has -inf
        return measure.masked_fill(counts == 0, torch.finfo(torch.float32).min)

    def _allowed(self, chosen: Tensor, mask: Mask, num_keys: int) -> Tensor | None:
        """Return which keys the chosen queries may attend, broadcastable to (B, H, u, S)."""
        allowed = None if mask is None else mask[:, None, None]
        if not self.causal:
            return allowed
        past = torch.arange(num_keys, device=chosen.device) <= chosen[..., None]
        return past if allowed is None else past & allowed

    def _put(self, output: Tensor, rows: Tensor, chosen: Tensor, query_mask: Mask) -> Tensor:
        """Return `output` (B, H, L, C) with `rows` (B, H, u, C) in the places that were chosen."""
        if query_mask is not None:
            wanted = log_counts(self.factor, query_mask.sum(dim=1))
            kept = torch.arange(chosen.shape[2], device=chosen.device) < wanted[:, None]
            rows = torch.where(kept[:, None, :, None], rows, take_rows(output, chosen))
        return output.scatter(2, chosen[..., None].expand_as(rows), rows)
