"""The control of every comparison: the mean of the values, independent of the query."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from forecast.attention._chunks import chunk_length
from forecast.attention._costs import Cost, Costs, Head
from forecast.attention._masks import Mask, allowed_pairs, zero_pairs
from forecast.attention._recompute import State, is_vectorized
from forecast.attention._recurrent import RecurrentAttention
from forecast.attention.base import CausalAbility, at_least_float32, full_precision, is_transformed


class MeanAttention(RecurrentAttention):
    """Mean of the allowed values, the same for every query.

    Equation: Σ_j m_j v_j / Σ_j m_j with mask m. The causal form is the running mean, over j ≤ i for query i.

    Cost: time O(S E); memory O(E), or O(S E) if causal, without the output.

    Shapes: query (B, H, L, E), key (B, H, S, E), value (B, H, S, V), output (B, H, L, V).

    A mechanism that is not better than this control gains nothing from attention.

    Notes
    -----
    Differs from the paper in: nothing, since there is no paper. It is attention with all scores equal.

    References
    ----------
    None.
    """

    causal_ability: ClassVar[CausalAbility] = "strict"
    time_cost: ClassVar[Costs] = Cost(length=1, width=1)
    memory_cost: ClassVar[Costs] = {"": Cost(width=1), "causal": Cost(length=1, width=1)}
    invariances = ("order of keys", "shift of keys", "scale of keys", "scale of queries")

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        if self.causal:
            return self.scan(query, key, value, mask)
        mean = mean_of_values(value, mask, query.shape[2])
        # Copied, so that the output may be written to. The heads of a query are adjacent in memory: merging them
        # needs no second copy.
        return mean.transpose(1, 2).contiguous().transpose(1, 2)

    def scan(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        return running_mean(value, mask)  # query and key need no gradient

    def first_state(self, key: Tensor, value: Tensor) -> State:
        return first_sums(value)

    def causal_step(
        self, state: State, queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None
    ) -> tuple[State, Tensor]:
        sums, counts = running_sums(values, hidden, *state)
        return (sums[:, :, -1:], counts[:, :, -1:]), sums / counts.clamp_min(1)

    def attention_weights(self, query: Tensor, key: Tensor, mask: Mask, query_mask: Mask) -> Tensor:
        return mean_weights(query, key, mask, self.causal)

    @classmethod
    def operations(cls, head: Head, **arguments: Any) -> float:
        return head.keys * head.value_width

    @classmethod
    def elements_moved(cls, head: Head, backward: bool) -> int:
        rows = head.keys * (1 + head.causal)  # the values, and as many means if causal
        return rows * head.value_width * (1 + backward)


def mean_of_values(value: Tensor, mask: Mask, num_queries: int) -> Tensor:
    """Return the mean of the allowed values for each query, an expanded view (B, H, L, V).

    `value` (B, H, S, V) is zero where `mask` (B, S) is False.
    """
    length = value.shape[2]
    with full_precision(value):
        # bfloat16 has the range of float32: its sum has float32 terms, and its gradient needs no tensor of this length
        sums = torch.bfloat16 if value.dtype == torch.bfloat16 else at_least_float32(value)
        total = value.sum(dim=2, keepdim=True, dtype=sums).to(at_least_float32(value))  # (B, H, 1, V)
        mean = total / (length if mask is None else mask.sum(dim=1).clamp_min(1)[:, None, None, None])
        return mean.to(value.dtype).expand(-1, -1, num_queries, -1)


def running_mean(value: Tensor, mask: Mask, rows: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
    """Return the mean of the allowed values up to each position, shape (B, H, S, V), dtype of `value`.

    `value` (B, H, S, V) is zero where `mask` (B, S) is False. `rows` (B, H, u, V), if given, replace those at
    `positions` (B, H, u). The backward pass stores no value, and computes the gradient in chunks.
    """
    if mask is None:
        counts = torch.arange(1, value.shape[2] + 1, device=value.device)[:, None]
    else:
        counts = mask.cumsum(dim=1).clamp_min(1)[:, None, :, None]
    index = None if positions is None else positions[..., None].expand(-1, -1, -1, value.shape[3])
    with full_precision(value):
        if torch.compiler.is_compiling() or is_transformed():
            mean = (value.to(at_least_float32(value)).cumsum(dim=2) / counts).to(value.dtype)
            return mean if rows is None or index is None else mean.scatter(2, index, rows.to(mean.dtype))
        output: Tensor = _RunningMean.apply(value, counts, rows, index)  # type: ignore[no-untyped-call]
        return output


class _RunningMean(torch.autograd.Function):
    """The plain form takes 1.4 to 2.1 times as long for forward and backward pass (8 heads of 64, 8,192 positions)."""

    @staticmethod
    def forward(context: Any, value: Tensor, counts: Tensor, rows: Tensor | None, index: Tensor | None) -> Tensor:
        context.save_for_backward(counts, index)
        mean = value.cumsum(dim=2, dtype=at_least_float32(value)).div_(counts).to(value.dtype)
        return mean if rows is None or index is None else mean.scatter_(2, index, rows.to(mean.dtype))

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,), (counts, index) = gradients, context.saved_tensors
        rows = None if index is None else gradient.gather(2, index)
        if not context.needs_input_grad[0]:
            return None, None, rows, None
        if torch.is_grad_enabled() or is_vectorized(gradients):
            kept = gradient if index is None else gradient.scatter(2, index, 0)
            kept = kept.to(at_least_float32(kept)) / counts
            return kept.flip(2).cumsum(dim=2).flip(2).to(gradient.dtype), None, rows, None
        return _sums_from_the_end(gradient, counts, index), None, rows, None


def _sums_from_the_end(gradient: Tensor, counts: Tensor, index: Tensor | None) -> Tensor:
    """Return Σ_{i≥j} g_i / c_i without the rows at `index`, in chunks from the last."""
    sums = torch.empty_like(gradient)
    replaced = None
    if index is not None:
        replaced = torch.zeros_like(gradient[..., :1], dtype=torch.bool).scatter_(2, index[..., :1], True)
    size = chunk_length((gradient,), recorded=True)
    carried: Tensor | int = 0
    for start in reversed(range(0, gradient.shape[2], size)):
        here = slice(start, start + size)
        part = gradient[:, :, here].to(at_least_float32(gradient)) / counts[..., here, :]
        if replaced is not None:
            part.masked_fill_(replaced[:, :, here], 0)
        part = part.flip(2).cumsum(dim=2).flip(2).add_(carried)
        sums[:, :, here] = part
        carried = part[:, :, :1]
    return sums


def first_sums(value: Tensor) -> State:
    """Return the sum of no values, (B, H, 1, V), and their count, (B, 1, 1, 1)."""
    total = value.new_zeros((*value.shape[:2], 1, value.shape[3]), dtype=at_least_float32(value))
    return total, value.new_zeros((value.shape[0], 1, 1, 1), dtype=torch.int64)


def running_sums(values: Tensor, hidden: Tensor | None, total: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums of the values (B, H, n, V), and the counts of those not hidden, (B, 1, n, 1).

    `total` and `count` are those of all earlier positions; see `first_sums`.
    """
    allowed = torch.ones_like(values[:, :1, :, :1], dtype=torch.bool) if hidden is None else ~hidden
    return values.to(total.dtype).cumsum(dim=2) + total, allowed.cumsum(dim=2) + count


def mean_weights(query: Tensor, key: Tensor, mask: Mask, causal: bool) -> Tensor:
    """Return equal weights over the allowed keys, shape (B, H, L, S), in at least float32."""
    weights = query.new_ones((*query.shape[:3], key.shape[2]), dtype=at_least_float32(query))
    weights = zero_pairs(weights, allowed_pairs(query, key, mask, causal))
    return weights / weights.sum(dim=-1, keepdim=True).clamp_min(1)


def formula(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, **arguments: Any) -> Tensor:
    """Return the output in the plainest form, in float64; `forecast.check` compares the mechanism with it."""
    weights = allowed.to(value.dtype)
    return (weights / weights.sum(dim=-1, keepdim=True) @ value).expand(*query.shape[:3], -1)
