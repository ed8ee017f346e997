"""The running mean of the values, its sums for one step after the other, and its backward pass."""

from typing import Any

import torch
from torch import Tensor

from forecast.attention._chunks import chunk_length
from forecast.attention._masks import Mask
from forecast.attention._recompute import State, is_vectorized
from forecast.attention.base import at_least_float32, full_precision, is_transformed


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
