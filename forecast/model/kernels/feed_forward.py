"""The feed-forward map with the norm before it and the sum after it, a chunk of tokens at a time."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from forecast.model.kernels.dropout import draw, factors, scale_of, threshold

CHUNK_ELEMENTS = 2**20
"""Numbers of d_ff that are there at a time: they stay in the processor's cache from one operation to the next."""

FAR = 1e4
"""Taken off before the GELU where its result is dropped: it and its derivative are then 0."""


def transform(
    tokens: Tensor, norm: nn.LayerNorm, into: nn.Linear, out_of: nn.Linear, p: float, *, adds_normed: bool
) -> Tensor:
    """Return `norm(tokens)`, or `tokens`, plus the feed-forward of `norm(tokens)`; both dropouts have probability `p`.

    Only `tokens` and the GELU's input are stored for the gradient; the rest is computed again.
    """
    weights = norm.weight, norm.bias, into.weight, into.bias, out_of.weight, out_of.bias
    options = p, norm.eps, adds_normed, torch.is_grad_enabled()
    transformed: Tensor = _Transform.apply(tokens, *weights, *options)  # type: ignore[no-untyped-call]
    return transformed


class _Transform(torch.autograd.Function):
    """The norm, both maps with their dropouts, and the sum; the gradient of each from `rows` and `hidden` alone."""

    @staticmethod
    def forward(context: Any, tokens: Tensor, *arguments: Any) -> Tensor:
        gain, shift, into, into_bias, out_of, out_bias, p, epsilon, adds_normed, holds = arguments
        rows = tokens.reshape(-1, tokens.shape[-1])  # (N, D)
        output = torch.empty_like(rows, memory_format=torch.contiguous_format)
        held: list[Tensor] = []
        all_kept = draw(rows.shape) >= threshold(p) if p else torch.empty(rows.shape[0], 0)
        for chunk, given, kept in _chunks(into, rows, output, all_kept):
            normed = functional.layer_norm(chunk, chunk.shape[1:], gain, shift, epsilon)
            hidden = torch.addmm(into_bias, normed, into.t())
            if p:
                dropped = torch.lt(draw(hidden.shape), threshold(p), out=torch.empty_like(hidden))
                hidden.sub_(dropped, alpha=FAR)
            added = torch.addmm(out_bias, functional.gelu(hidden), out_of.t(), alpha=scale_of(p))
            if p:
                added *= factors(kept, p, added.dtype)
            torch.add(normed if adds_normed else chunk, added, out=given)
            if holds:
                held.append(hidden)
        context.save_for_backward(rows, gain, shift, into, out_of, all_kept, *held)
        context.options = p, epsilon, adds_normed
        return output.view(tokens.shape)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rows, gain, shift, into, out_of, all_kept, *held = context.saved_tensors
        p, epsilon, adds_normed = context.options
        given = gradients[0].reshape(rows.shape)
        gradient = torch.empty_like(rows)
        of_gain, of_shift, of_into, of_into_bias, of_out, of_out_bias = sums = [
            torch.zeros_like(each) for each in (gain, shift, into, into[:, 0], out_of, out_of[:, 0])
        ]
        for hidden, (chunk, wanted, found, kept) in zip(
            held, _chunks(into, rows, given, gradient, all_kept), strict=True
        ):
            passed = wanted * factors(kept, p, wanted.dtype) if p else wanted
            torch.addmm(of_out, passed.t(), functional.gelu(hidden), alpha=scale_of(p), out=of_out)
            of_out_bias += passed.sum(0)
            back = torch.addmm(into[:, 0], passed, out_of, beta=0, alpha=scale_of(p))  # (n, d_ff)
            back = torch.ops.aten.gelu_backward(back, hidden)
            normed, mean, deviation = torch.native_layer_norm(chunk, chunk.shape[1:], gain, shift, epsilon)
            torch.addmm(of_into, back.t(), normed, out=of_into)
            of_into_bias += back.sum(0)
            back = torch.addmm(wanted, back, into) if adds_normed else back @ into
            back, first, second = torch.ops.aten.native_layer_norm_backward(
                back, chunk, chunk.shape[1:], mean, deviation, gain, shift, (True, True, True)
            )
            of_gain += first
            of_shift += second
            torch.add(back, 0.0 if adds_normed else wanted, out=found)
        return gradient.view(gradients[0].shape), *sums, None, None, None, None


def _chunks(into: Tensor, *tensors: Tensor) -> Any:
    """Return tensors (N, D) some rows at a time: fours, so that no random word is begun in one and ends in the next."""
    size = 4 * max(1, CHUNK_ELEMENTS // (4 * into.shape[0]))
    return zip(*(tensor.split(size) for tensor in tensors), strict=True)
