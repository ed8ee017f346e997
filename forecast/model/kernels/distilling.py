"""The distilling layer on a CPU: its convolution as products of matrices, its pooling before the ELU."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from forecast.model.kernels.batch_norm import BatchNorm


def distil(tokens: Tensor, weight: Tensor, bias: Tensor | None, norm: BatchNorm) -> Tensor:
    """Return `Distilling` of tokens: (B, L, D) to (B, ceil(L / 2), D).

    Pooling keeps order, so the ELU may follow it, on half the numbers. The gradient of both needs a byte an element.
    """
    convolved: Tensor = _Convolution.apply(tokens, weight, bias)  # type: ignore[no-untyped-call]
    halved: Tensor = _Pooling.apply(norm.over_tokens(convolved))  # type: ignore[no-untyped-call]
    return halved


class _Convolution(torch.autograd.Function):
    """Convolution over three steps, tokens (B, L, D), weight (D, D, 3).

    All windows share one table, padded by a step on both sides, so each product with a weight serves all of them;
    the two rows that read beyond a window's end are left out.
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
        given = functional.pad(gradients[0], (0, 0, 0, 2)).flatten(0, 1)  # (B (L + 2), D)
        inner = given[:-2]
        length = inner.shape[0]
        of_rows = torch.zeros_like(rows)
        of_weight = []
        for step in range(3):
            part = of_rows[step : step + length]
            torch.addmm(part, inner, weight[..., step], out=part)
            of_weight.append(inner.t() @ rows[step : step + length])
        of_rows = of_rows.view(gradients[0].shape[0], -1, rows.shape[1])
        of_tokens = of_rows[:, 1:-1]
        of_tokens[:, 0] += of_rows[:, 0]
        of_tokens[:, -1] += of_rows[:, -1]
        return of_tokens.contiguous(), torch.stack(of_weight, 2), inner.sum(0)


class _Pooling(torch.autograd.Function):
    """The ELU of the highest of three steps, every second step: (B, L, D) to (B, ceil(L / 2), D)."""

    @staticmethod
    def forward(context: Any, tokens: Tensor) -> Tensor:
        highest = tokens[:, ::2].contiguous()
        odd = tokens[:, 1::2]
        place = torch.zeros_like(highest, dtype=torch.int8)
        for step, own, neighbour in _neighbours(highest, place, odd):
            own[1].masked_fill_(neighbour > own[0], step)
            torch.maximum(own[0], neighbour, out=own[0])
        context.length = tokens.shape[1]
        output = functional.elu_(highest)
        context.save_for_backward(output, place)
        return output

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        output, place = context.saved_tensors
        given = gradients[0] * output.clamp(max=0).add_(1)  # the derivative of the ELU from its result
        found: Tensor = given.new_zeros(given.shape[0], context.length, given.shape[2])
        found[:, ::2] = given * (place == 0)
        for step, own, neighbour in _neighbours(given, place, found[:, 1::2]):
            neighbour += own[0] * (own[1] == step)
        return found


def _neighbours(even: Tensor, place: Tensor, odd: Tensor) -> Any:
    """Yield, for the step before (-1) and after (1), the even steps that have one, their places, and those steps."""
    before, after = even.shape[1] - 1, odd.shape[1]
    yield -1, (even[:, 1:], place[:, 1:]), odd[:, :before]
    yield 1, (even[:, :after], place[:, :after]), odd
