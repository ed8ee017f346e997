"""LayerNorm, feed-forward map and residual sum on a CPU, in chunks of tokens."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from forecast.kernels.dropout import draw, factors, scale_of, threshold

CHUNK_ELEMENTS = 2**20
"""Elements of width d_ff in memory at a time; they stay in the CPU's cache between operations."""

FAR = 1e4
"""Subtracted before the GELU where its output is dropped: output and derivative are then 0."""


def transform(
    tokens: Tensor, norm: nn.LayerNorm, into: nn.Linear, out_of: nn.Linear, p: float, *, adds_normed: bool
) -> Tensor:
    """Return feed_forward(norm(tokens)) + norm(tokens) if `adds_normed`, else + tokens; both dropouts have rate `p`.

    Only `tokens` and the input of the GELU are stored for the backward pass; it recomputes the rest.
    """
    weights = norm.weight, norm.bias, into.weight, into.bias, out_of.weight, out_of.bias
    options = p, norm.eps, adds_normed, torch.is_grad_enabled()
    transformed: Tensor = _Transform.apply(tokens, *weights, *options)  # type: ignore[no-untyped-call]
    return transformed


class _Transform(torch.autograd.Function):
    """LayerNorm, both linear maps with dropout, and the sum; gradients need only `rows` and `hidden`."""

    @staticmethod
    def forward(context: Any, tokens: Tensor, *arguments: Any) -> Tensor:
        gain, shift, into, into_bias, out_of, out_bias, p, epsilon, adds_normed, stores = arguments
        rows = tokens.reshape(-1, tokens.shape[-1])  # (N, D)
        output = torch.empty_like(rows, memory_format=torch.contiguous_format)
        stored: list[Tensor] = []
        all_keep = draw(rows.shape) >= threshold(p) if p else torch.empty(rows.shape[0], 0)
        for chunk, output_chunk, keep in _chunks(into, rows, output, all_keep):
            normed = functional.layer_norm(chunk, chunk.shape[1:], gain, shift, epsilon)
            hidden = torch.addmm(into_bias, normed, into.t())
            if p:
                dropped = torch.lt(draw(hidden.shape), threshold(p), out=torch.empty_like(hidden))
                hidden.sub_(dropped, alpha=FAR)
            added = torch.addmm(out_bias, functional.gelu(hidden), out_of.t(), alpha=scale_of(p))
            if p:
                added *= factors(keep, p, added.dtype)
            torch.add(normed if adds_normed else chunk, added, out=output_chunk)
            if stores:
                stored.append(hidden)
        context.save_for_backward(rows, gain, shift, into, out_of, all_keep, *stored)
        context.options = p, epsilon, adds_normed
        return output.view(tokens.shape)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rows, gain, shift, into, out_of, all_keep, *stored = context.saved_tensors
        p, epsilon, adds_normed = context.options
        grad_output = gradients[0].reshape(rows.shape)
        grad_rows = torch.empty_like(rows)
        grad_gain, grad_shift, grad_into, grad_into_bias, grad_out, grad_out_bias = grad_weights = [
            torch.zeros_like(weight) for weight in (gain, shift, into, into[:, 0], out_of, out_of[:, 0])
        ]
        chunks = _chunks(into, rows, grad_output, grad_rows, all_keep)
        for hidden, (chunk, grad_chunk, result, keep) in zip(stored, chunks, strict=True):
            kept = grad_chunk * factors(keep, p, grad_chunk.dtype) if p else grad_chunk
            torch.addmm(grad_out, kept.t(), functional.gelu(hidden), alpha=scale_of(p), out=grad_out)
            grad_out_bias += kept.sum(0)
            grad = torch.addmm(into[:, 0], kept, out_of, beta=0, alpha=scale_of(p))  # (n, d_ff)
            grad = torch.ops.aten.gelu_backward(grad, hidden)
            normed, mean, inverse_std = torch.native_layer_norm(chunk, chunk.shape[1:], gain, shift, epsilon)
            torch.addmm(grad_into, grad.t(), normed, out=grad_into)
            grad_into_bias += grad.sum(0)
            grad = torch.addmm(grad_chunk, grad, into) if adds_normed else grad @ into
            grad, gain_term, shift_term = torch.ops.aten.native_layer_norm_backward(
                grad, chunk, chunk.shape[1:], mean, inverse_std, gain, shift, (True, True, True)
            )
            grad_gain += gain_term
            grad_shift += shift_term
            torch.add(grad, 0.0 if adds_normed else grad_chunk, out=result)
        return grad_rows.view(gradients[0].shape), *grad_weights, None, None, None, None


def _chunks(into: Tensor, *tensors: Tensor) -> Any:
    """Split tensors (N, D) into chunks of rows, a multiple of 4, so that no random word spans two chunks."""
    size = 4 * max(1, CHUNK_ELEMENTS // (4 * into.shape[0]))
    return zip(*(tensor.split(size) for tensor in tensors), strict=True)
