"""The feed-forward map with the norm before it and the sum after it, some tokens at a time."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from forecast.model.activations import by_hand
from forecast.model.dropout import Dropout, draw, factors, scale_of, threshold

PIECE_ELEMENTS = 2**20
"""Numbers of d_ff that are there at a time: they stay in the processor's cache from one operation to the next."""

FAR = 1e4
"""Taken off before the GELU where its result is dropped: it and its derivative are then 0."""


class FeedForward(nn.Sequential):
    """Two linear maps with a GELU between, on each token by itself: (..., D) to (..., D)."""

    def __init__(self, d_model: int, d_ff: int, dropout: float) -> None:
        super().__init__(
            nn.Linear(d_model, d_ff), nn.GELU(), Dropout(dropout), nn.Linear(d_ff, d_model), Dropout(dropout)
        )
        self.p = dropout

    def forward(self, tokens: Tensor) -> Tensor:
        """Return what the map makes of tokens; what its end drops is drawn first, as it is by pieces."""
        *inner, end = self
        assert isinstance(end, Dropout)
        kept = end.draw(tokens)
        for layer in inner:
            tokens = layer(tokens)
        return end.drop(tokens, kept)

    def after(self, norm: nn.LayerNorm, tokens: Tensor, *, adds_normed: bool) -> Tensor:
        """Return `norm(tokens)`, or `tokens`, plus what the map makes of `norm(tokens)`.

        On a CPU all of it is done for some tokens at a time, and for the gradient only `tokens` and what
        comes before the GELU are held: the rest is made anew from them.
        """
        if not by_hand(tokens):
            normed = norm(tokens)
            added: Tensor = (normed if adds_normed else tokens) + self(normed)
            return added
        weights = norm.weight, norm.bias, self[0].weight, self[0].bias, self[3].weight, self[3].bias
        options = self.p if self.training else 0.0, norm.eps, adds_normed, torch.is_grad_enabled()
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
        for piece, given, kept in _pieces(into, rows, output, all_kept):
            normed = functional.layer_norm(piece, piece.shape[1:], gain, shift, epsilon)
            hidden = torch.addmm(into_bias, normed, into.t())
            if p:
                dropped = torch.lt(draw(hidden.shape), threshold(p), out=torch.empty_like(hidden))
                hidden.sub_(dropped, alpha=FAR)
            added = torch.addmm(out_bias, functional.gelu(hidden), out_of.t(), alpha=scale_of(p))
            if p:
                added *= factors(kept, p, added.dtype)
            torch.add(normed if adds_normed else piece, added, out=given)
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
        for hidden, (piece, wanted, found, kept) in zip(
            held, _pieces(into, rows, given, gradient, all_kept), strict=True
        ):
            passed = wanted * factors(kept, p, wanted.dtype) if p else wanted
            torch.addmm(of_out, passed.t(), functional.gelu(hidden), alpha=scale_of(p), out=of_out)
            of_out_bias += passed.sum(0)
            back = torch.addmm(into[:, 0], passed, out_of, beta=0, alpha=scale_of(p))  # (n, d_ff)
            back = torch.ops.aten.gelu_backward(back, hidden)
            normed, mean, deviation = torch.native_layer_norm(piece, piece.shape[1:], gain, shift, epsilon)
            torch.addmm(of_into, back.t(), normed, out=of_into)
            of_into_bias += back.sum(0)
            back = torch.addmm(wanted, back, into) if adds_normed else back @ into
            back, first, second = torch.ops.aten.native_layer_norm_backward(
                back, piece, piece.shape[1:], mean, deviation, gain, shift, (True, True, True)
            )
            of_gain += first
            of_shift += second
            torch.add(back, 0.0 if adds_normed else wanted, out=found)
        return gradient.view(gradients[0].shape), *sums, None, None, None, None


def _pieces(into: Tensor, *tensors: Tensor) -> Any:
    """Return tensors (N, D) some rows at a time: fours, so that no random word is begun in one and ends in the next."""
    size = 4 * max(1, PIECE_ELEMENTS // (4 * into.shape[0]))
    return zip(*(tensor.split(size) for tensor in tensors), strict=True)
