"""ProbSparse attention: softmax for a few active queries, the mean of the values for the others."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from forecast.attention._costs import Cost, Costs, Head
from forecast.attention._masks import Mask, check_heads
from forecast.attention._sampling import (
    allowed_positions_of,
    fixed_fractions,
    log_count,
    log_counts,
    per_query_scores,
    positions_of,
    put_rows,
    stable_topk,
    take_rows,
)
from forecast.attention.base import CausalAbility, SparseQueries, at_least_float32, full_precision, is_half_on_cpu
from forecast.attention.full import softmax_of_rows, softmax_weights
from forecast.attention.mean import mean_of_values, mean_weights, running_mean
from forecast.kernels.fused import informative_queries, softmax_of_few

# Elements of the scores in memory at a time; longer inputs are scored in chunks. On a CPU, chunks that fit the cache
# are twice as fast; a GPU needs few launches.
CHUNK_ELEMENTS_CPU = 2**22
CHUNK_ELEMENTS = 2**26

# In half precision on a CPU, the float32 copy of a chunk's queries should fit the cache as well.
CHUNK_ELEMENTS_HALF = 2**18


class ProbSparseAttention(SparseQueries):
    """Softmax over all keys for the u queries with the highest measure; mean of the values for the others.

    Equation: σ(q Kᵀ/√E) V for the u queries with the highest M(q) = max_j q·k_j − mean_j q·k_j over U sampled keys;
    mean(V) for the others. U = factor·⌈ln S⌉ and u = factor·⌈ln L⌉, clipped to [1, S] and [1, L].

    Cost: time O(L log S · E), memory O(L log S).

    Shapes: query (B, H, L, E), key (B, H, S, E), value (B, H, S, V), output (B, H, L, V).

    The measure has no gradient. With a mask, U and the sample depend on the number of allowed keys of each batch row;
    with a query mask, u depends on its number of queries without padding.

    The causal form is causal in the values only. The measure of a query uses sampled keys up to its position; without
    any, the query ranks last. All queries are ranked together, so a later query or key can change which earlier ones
    are active. Later values are never mixed in.

    Parameters
    ----------
    factor
        Multiplies both logarithms.
    sampling
        "shared": one sample of keys for all queries, as in Algorithm 1 of the paper. "per_query": one for each query,
        as in the authors' code. Each call in training mode draws a new sample; in evaluation mode the lengths fix it.
    measure
        "sampled_mean": divide the sum of scores by the number of sampled keys. "published": divide it by the number of
        all keys, as in the authors' code.

    Notes
    -----
    Differs from the paper in: the causal form fills inactive queries with the running mean, not the running sum; where
    U equals the number of keys, all keys are used in order.

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
        plain = partial(self._attend_few, query, key, value, mask, query_mask, chosen)
        if self.causal:
            return plain()
        active = None if query_mask is None else partial(self.is_active, chosen, query_mask)
        return softmax_of_few(plain, query, key, value, mask, chosen, active)

    def _attend_few(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask, chosen: Tensor
    ) -> Tensor:
        allowed = self._allowed(chosen, mask, key.shape[2])
        rows = softmax_of_rows(take_rows(query, chosen), key, value, allowed)
        if self.causal and query_mask is None:
            return running_mean(value, mask, rows, chosen)
        output = running_mean(value, mask) if self.causal else mean_of_values(value, mask, query.shape[2])
        return self._scatter(output, rows, chosen, query_mask)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        chosen = self.choose_active_queries(query, key, mask, query_mask)
        weights = mean_weights(query, key, mask, self.causal)
        allowed = self._allowed(chosen, mask, key.shape[2])
        rows = softmax_weights(take_rows(query, chosen), key, allowed)
        return self._scatter(weights, rows, chosen, query_mask)

    def choose_active_queries(self, query: Tensor, key: Tensor, mask: Mask = None, query_mask: Mask = None) -> Tensor:
        """Return the positions of the active queries, highest measure first, shape (B, H, u).

        In a batch row with padded queries, only the first of them are active, up to the u of that row.
        """
        check_heads(query, key)
        sample = self.sample(query.shape[2], key.shape[2], key.device, mask)
        plain = partial(self._choose, query, key, mask, query_mask, sample)
        if self.causal:
            return plain()
        count, is_published = log_count(self.factor, query.shape[2]), self.measure == "published"
        rest = *sample, mask, query_mask
        return informative_queries(plain, query, key, *rest, count=count, is_published=is_published)

    def _choose(
        self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask, sample: tuple[Tensor, Tensor | None]
    ) -> Tensor:
        measure = self.measure_queries(query, key, mask, *sample)
        if query_mask is not None:
            measure = measure.masked_fill(~query_mask[:, None], -torch.inf)
        return stable_topk(measure, log_count(self.factor, query.shape[2]))

    def is_active(self, chosen: Tensor, query_mask: Mask) -> Tensor:
        if query_mask is None:
            return super().is_active(chosen, query_mask)
        counts = log_counts(self.factor, query_mask.sum(dim=1))
        active = torch.arange(chosen.shape[2], device=chosen.device) < counts[:, None]
        return active[:, None].expand_as(chosen)

    def num_active_queries(self, length: int) -> int | None:
        return None if self.causal or self.sampling != "shared" else log_count(self.factor, length)

    def choose_from_products(self, length: int, device: torch.device, products: Callable[[Tensor], Tensor]) -> Tensor:
        positions, _ = self.sample(length, length, device, None)
        return stable_topk(self._measure(products(positions[0, 0]), None, length), log_count(self.factor, length))

    @classmethod
    def operations(cls, head: Head, **arguments: Any) -> float:
        # U keys for all queries; u queries for all keys, scores and weights times V
        sampled, active = (log_count(arguments["factor"], length) for length in (head.keys, head.queries))
        return 2 * head.queries * sampled * head.width + 2 * active * head.keys * (head.width + head.value_width)

    def sample(self, num_queries: int, num_keys: int, device: torch.device, mask: Mask) -> tuple[Tensor, Tensor | None]:
        """Return sampled key positions, (B or 1, L or 1, U), and which of the U are valid in a batch row, (B, 1, U)."""
        rows = 1 if self.sampling == "shared" else num_queries
        width = log_count(self.factor, num_keys)
        draw = torch.rand if self.training else fixed_fractions
        fractions = draw(rows, width, device=device)
        if mask is None:
            return positions_of(fractions, num_keys, width), None
        counts = log_counts(self.factor, mask.sum(dim=1))
        valid = torch.arange(width, device=device) < counts[:, None, None]
        return allowed_positions_of(fractions, mask, counts), valid

    @torch.no_grad()
    def measure_queries(
        self, query: Tensor, key: Tensor, mask: Mask, positions: Tensor, valid: Tensor | None
    ) -> Tensor:
        """Return M of each query for the sample that `sample` returns, shape (B, H, L), at least float32."""
        heads, width = query.shape[1], query.shape[3]
        shared = positions.shape[1] == 1
        batch = 1 if torch.compiler.is_exporting() else query.shape[0]  # an exported graph serves any batch
        row_elements = batch * heads * positions.shape[2] * (1 if shared else width)
        elements = CHUNK_ELEMENTS_CPU if query.device.type == "cpu" else CHUNK_ELEMENTS
        size = max(1, (CHUNK_ELEMENTS_HALF if shared and is_half_on_cpu(query) else elements) // row_elements)
        num_keys: int | Tensor = key.shape[2] if mask is None else mask.sum(dim=1)[:, None, None]
        with full_precision(query):
            sampled = (take_rows(key, positions) if shared else key.contiguous()).to(at_least_float32(query))
            rest = sampled, positions, valid, num_keys
            if shared and torch.compiler.is_compiling():  # the graph does not depend on the length
                return self._measure_from(0, query, *rest)
            parts = [self._measure_from(start, part, *rest) for start, part in _parts(query, size)]
        return torch.cat(parts, dim=2)

    def _measure_from(
        self,
        start: int,
        query: Tensor,
        sampled: Tensor,
        positions: Tensor,
        valid: Tensor | None,
        num_keys: int | Tensor,
    ) -> Tensor:
        """Return M of the queries (B, H, n, E), the first at position `start`, for keys or samples of `sampled`."""
        is_half, query = is_half_on_cpu(query), query.to(sampled.dtype)
        if positions.shape[1] == 1:
            # the same product; the maximum over adjacent scores is slower, and float32 keeps its bytes
            scores = (sampled @ query.mT).mT if is_half else query @ sampled.transpose(-1, -2)
        else:
            positions = positions[:, start : start + query.shape[2]]
            scores = per_query_scores(query, sampled, positions)
        seen = valid
        if self.causal:
            steps = torch.arange(query.shape[2], device=query.device) + start
            past = positions <= steps[:, None]
            seen = past if valid is None else valid & past
        return self._measure(scores, seen, num_keys)

    def _measure(self, scores: Tensor, seen: Tensor | None, num_keys: int | Tensor) -> Tensor:
        """Return M from scores (B, H, L, U); only those where `seen` (B or 1, L or 1, U) is True count."""
        if seen is None:
            total, count = scores.sum(dim=-1), scores.shape[-1]
            return scores.amax(dim=-1) - total / (num_keys if self.measure == "published" else count)
        seen = seen[:, None]
        counts = seen.sum(dim=-1)
        divisor = num_keys if self.measure == "published" else counts.clamp_min(1)
        mean = scores.masked_fill(~seen, 0).sum(dim=-1) / divisor
        measure = scores.masked_fill(~seen, -torch.inf).amax(dim=-1) - mean
        # no key seen: ranked after all other queries, before padding, which has -inf
        return measure.masked_fill(counts == 0, torch.finfo(torch.float32).min)

    def _allowed(self, chosen: Tensor, mask: Mask, num_keys: int) -> Tensor | None:
        """Return which keys the chosen queries may attend, broadcastable to (B, H, u, S)."""
        allowed = None if mask is None else mask[:, None, None]
        if not self.causal:
            return allowed
        past = torch.arange(num_keys, device=chosen.device) <= chosen[..., None]
        return past if allowed is None else past & allowed

    def _scatter(self, output: Tensor, rows: Tensor, chosen: Tensor, query_mask: Mask) -> Tensor:
        """Return `output` (B, H, L, C) with `rows` (B, H, u, C) at the chosen positions."""
        if query_mask is not None:
            active = self.is_active(chosen, query_mask)[..., None]
            rows = torch.where(active, rows, take_rows(output, chosen))
        return put_rows(output, chosen, rows)


def _parts(query: Tensor, size: int) -> Iterator[tuple[int, Tensor]]:
    """Yield the first position and the queries of each part."""
    for start in range(0, query.shape[2], size):
        yield start, query[:, :, start : start + size]


def formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    allowed: Tensor,
    factor: int,
    sampling: str,
    measure: str,
    **arguments: Any,
) -> Tensor:
    """Return the output in the plainest form, in float64, with the sample of evaluation mode.

    `forecast.check` compares the mechanism with it.
    """
    (batch, heads, length, width), scores = query.shape, query @ key.transpose(-1, -2)
    active = torch.zeros(batch, heads, length, dtype=torch.bool, device=query.device)
    num_active = min(max(factor * math.ceil(math.log(length)), 1), length)
    for row in range(batch):
        keys = allowed[row, 0].any(dim=0).nonzero().flatten()
        num_sampled = min(max(factor * math.ceil(math.log(len(keys))), 1), len(keys))
        sampled = keys.expand(length, -1)
        if num_sampled < len(keys):
            step = torch.arange(length, device=query.device).double() * (0 if sampling == "shared" else 1)
            column = torch.arange(1, num_sampled + 1, device=query.device).double()
            fractions = (step[:, None] * (math.sqrt(2) - 1) + column * ((math.sqrt(5) - 1) / 2)) % 1
            sampled = keys[(fractions * len(keys)).long()]  # (L, U)
        seen = allowed[row, 0].gather(-1, sampled)
        products = scores[row].gather(-1, sampled.expand(heads, -1, -1))
        mean = products.where(seen, 0).sum(dim=-1) / (len(keys) if measure == "published" else seen.sum(dim=-1))
        measures = products.where(seen, -torch.inf).amax(dim=-1) - mean
        ranked = measures.where(seen.any(dim=-1), -torch.inf).argsort(dim=-1, descending=True, stable=True)
        active[row].scatter_(-1, ranked[:, :num_active], True)
    softmax = (scores / math.sqrt(width)).masked_fill(~allowed, -torch.inf).softmax(dim=-1)
    equal = allowed.to(value.dtype) / allowed.sum(dim=-1, keepdim=True)
    return torch.where(active[..., None], softmax, equal) @ value
