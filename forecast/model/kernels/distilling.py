"""The distilling layer on a CPU: convolution as matrix products, pooling before the ELU."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from forecast.attention.base import Mask
from forecast.model.batch_norm import BatchNorm


def distil(tokens: Tensor, weight: Tensor, bias: Tensor | None, norm: BatchNorm, mask: Mask = None) -> Tensor:
    """Return the output of `Distilling`: (B, L, D) to (B, ceil(L / 2), D). Tokens that `mask` (B, L) hides are zero.

    The ELU is monotonic, so it may follow the pooling, on half the elements. The backward pass stores the output and
    one byte per element.
    """
    convolved: Tensor = _Convolution.apply(tokens, weight, bias)  # type: ignore[no-untyped-call]
    normed = norm.over_tokens(convolved, mask)
    if mask is not None:
        normed = normed.masked_fill(~mask[..., None], torch.finfo(normed.dtype).min)
    halved: Tensor = _Pooling.apply(normed)  # type: ignore[no-untyped-call]
    return halved


class _Convolution(torch.autograd.Function):
    """Convolution over three steps, tokens (B, L, D), weight (D, D, 3).

    All windows are rows of one matrix, each padded by one step on both sides, so that one product per weight serves
    all of them. The two rows that cross the end of a window are dropped.
    """

    @staticmethod
    def forward(context: Any, tokens: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        rows = torch.cat([tokens[:, :1], tokens, tokens[:, -1:]], 1).flatten(0, 1)  # (B (L + 2), D)
        length = rows.shape[0] - 2
        output = torch.empty_like(rows)
        inner = output[:length]
        torch.addmm(bias, rows[:length], weight[..., 0].t(), out=inner)
        for step in (1, 2):
            torch.addmm(inner, rows[step : step + length], weight[..., step].t(), out=inner)
        context.save_for_backward(rows, weight)
        return output.view(tokens.shape[0], -1, tokens.shape[2])[:, :-2].contiguous()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows, weight = context.saved_tensors
        grad_output = functional.pad(gradients[0], (0, 0, 0, 2)).flatten(0, 1)[:-2]  # (B (L + 2) - 2, D)
        length = grad_output.shape[0]
        grad_rows = torch.zeros_like(rows)
        grad_weight = []
        for step in range(3):
            shifted = grad_rows[step : step + length]
            torch.addmm(shifted, grad_output, weight[..., step], out=shifted)
            grad_weight.append(grad_output.t() @ rows[step : step + length])
        grad_rows = grad_rows.view(gradients[0].shape[0], -1, rows.shape[1])
        grad_tokens = grad_rows[:, 1:-1]
        grad_tokens[:, 0] += grad_rows[:, 0]
        grad_tokens[:, -1] += grad_rows[:, -1]
        return grad_tokens.contiguous(), torch.stack(grad_weight, 2), grad_output.sum(0)


class _Pooling(torch.autograd.Function):
    """Max pooling over three steps with stride 2, then ELU: (B, L, D) to (B, ceil(L / 2), D)."""

    @staticmethod
    def forward(context: Any, tokens: Tensor) -> Tensor:
        highest = tokens[:, ::2].contiguous()
        odd = tokens[:, 1::2]
        place = torch.zeros_like(highest, dtype=torch.int8)
        for step, values, places, neighbor in _neighbors(highest, place, odd):
            places.masked_fill_(neighbor > values, step)
            torch.maximum(values, neighbor, out=values)
        context.length = tokens.shape[1]
        output = functional.elu_(highest)
        context.save_for_backward(output, place)
        return output

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        output, place = context.saved_tensors
        grad_pooled = gradients[0] * output.clamp(max=0).add_(1)  # the derivative of the ELU from its output
        grad_tokens: Tensor = grad_pooled.new_zeros(grad_pooled.shape[0], context.length, grad_pooled.shape[2])
        grad_tokens[:, ::2] = grad_pooled * (place == 0)
        for step, values, places, neighbor in _neighbors(grad_pooled, place, grad_tokens[:, 1::2]):
            neighbor += values * (places == step)
        return grad_tokens


def _neighbors(even: Tensor, place: Tensor, odd: Tensor) -> Any:
    """Yield -1 (step before) and 1 (step after), each with the even steps that have it, their places, and that step."""
    before, after = even.shape[1] - 1, odd.shape[1]
    yield -1, even[:, 1:], place[:, 1:], odd[:, :before]
    yield 1, even[:, :after], place[:, :after], odd
