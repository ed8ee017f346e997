"""Sparse self-attention computed from the tokens, without keys and values for all of them.

If u of L queries are active and the others share the mean, the projections can be applied to the u queries:
q·k = (Wₖᵀq)·x and Σ p (Wᵥx) = Wᵥ(Σ p x), with tokens x of width D. With H heads of width E this takes 3 H u D
multiplications per token and 6 D E per active query and head, instead of 4 D H E per token.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from forecast.attention.base import Attention, SparseQueries, is_autocast, is_transformed, sparse_queries


class Projections(NamedTuple):
    """Weights (H·E, D) and biases (H·E,) of query and key, V instead of E for the value; (D, H·V), (D,) of the output.

    V is the width of one head of the values.
    """

    query: Tensor
    query_bias: Tensor
    key: Tensor
    key_bias: Tensor
    value: Tensor
    value_bias: Tensor
    output: Tensor
    output_bias: Tensor


def is_cheaper(length: int, active: int, head_dim: int) -> bool:
    """Return whether this form takes less than 3/4 of the usual multiplications; the rest is for moving rows."""
    return 3 * active / head_dim + 6 * active / length < 3  # both sides in units of D H E per token; the usual is 4


def is_half(dtype: torch.dtype) -> bool:
    """Return whether a type has too few bits for this form: scores need at least float32."""
    return dtype.itemsize < 4


def num_active_if_cheaper(mechanism: Attention, length: int) -> int | None:
    """Return the number of active queries among `length`, or None if it is unknown or this form is not cheaper."""
    sparse = sparse_queries(mechanism)
    active = sparse.num_active_queries(length) if sparse is not None and length else None
    return active if active is not None and is_cheaper(length, active, mechanism.head_dim) else None


def operations(length: int, active: int, d_model: int, num_heads: int, head_dim: int) -> float:
    """Return the operations of one layer's forward pass for one batch row."""
    return 2 * num_heads * active * d_model * (3 * length + 6 * head_dim)


def attend_from_tokens(tokens: Tensor, mechanism: Attention, projections: Sequence[nn.Linear]) -> Tensor | None:
    """Return the output (B, L, D) of a layer for tokens (B, L, D); None if only the usual form applies.

    This form reads the weights of `projections` (query, key, value, output) and calls no module. A mechanism with
    `must_be_called`, projections of other classes and weights that are no plain parameters need the usual form.
    """
    half = is_half(tokens.dtype) or is_autocast(tokens)
    if half or not tokens.numel() or num_active_if_cheaper(mechanism, tokens.shape[1]) is None:
        return None
    if mechanism.must_be_called or not all(map(_is_plain, projections)):
        return None
    if not torch.compiler.is_compiling() and is_transformed():
        return None
    assert isinstance(mechanism, SparseQueries)
    weights = Projections(*(tensor for layer in projections for tensor in (layer.weight, _bias(layer))))
    chosen = mechanism.choose_from_products(
        tokens.shape[1],
        tokens.device,
        lambda positions: sampled_scores(tokens, weights, positions, mechanism.num_heads),
    )
    return attend_few(tokens, weights, chosen)


def _is_plain(layer: nn.Module) -> bool:
    """Return whether the layer is a linear map of plain parameters.

    Quantized and distributed weights are subclasses of Tensor, pruned ones are computed by a hook.
    """
    return type(layer) is nn.Linear and (torch.compiler.is_compiling() or type(layer.weight) is nn.Parameter)


def _bias(layer: nn.Linear) -> Tensor:
    """Return the bias of the layer, zeros if it has none."""
    return layer.weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias


@torch.no_grad()
def sampled_scores(tokens: Tensor, weights: Projections, positions: Tensor, heads: int) -> Tensor:
    """Return the products of all queries with the keys at `positions` (U,), shape (B, H, L, U); tokens (B, L, D)."""
    keys = functional.linear(tokens[:, positions], weights.key, weights.key_bias)  # (B, U, H·E)
    keys = keys.unflatten(2, (heads, -1)).permute(2, 0, 1, 3).flatten(1, 2)  # (H, B·U, E)
    by_token = _by_batch(keys @ weights.query.unflatten(0, (heads, -1)), tokens)  # (B, H·U, D)
    constant = _by_batch(keys @ weights.query_bias.view(heads, -1, 1), tokens)  # (B, H·U, 1)
    scores = torch.baddbmm(constant, by_token, tokens.transpose(1, 2))  # (B, H·U, L)
    by_head: Tensor = scores.unflatten(1, (heads, -1))
    return by_head.transpose(2, 3)


def attend_few(tokens: Tensor, weights: Projections, chosen: Tensor) -> Tensor:
    """Return the output (B, L, D) for tokens (B, L, D); the queries at `chosen` (B, H, u) are active."""
    if torch.compiler.is_compiling():
        return _attend(tokens, weights, chosen)
    attended: Tensor = _AttendFew.apply(tokens, chosen, *weights)  # type: ignore[no-untyped-call]
    return attended


class _AttendFew(torch.autograd.Function):
    """As `_attend`, but the backward pass stores only the softmax weights and recomputes all rows of width D."""

    @staticmethod
    def forward(context: Any, tokens: Tensor, chosen: Tensor, *weights: Tensor) -> Tensor:
        projections = Projections(*weights)
        probabilities = _softmax(tokens, _score_factors(tokens, projections, chosen))
        context.save_for_backward(tokens, chosen, probabilities, *weights)
        return _scatter(*_mix(tokens, probabilities, projections, chosen), _row_index(tokens, chosen), tokens.shape[1])

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        tokens, chosen, probabilities, *weights = context.saved_tensors
        grad_output = gradients[0]
        if torch.is_grad_enabled():  # create_graph=True
            needed = context.needs_input_grad
            grad_tokens, *grad_weights = _gradients(tokens, weights, chosen, grad_output, (needed[0], *needed[2:]))
            return grad_tokens, None, *grad_weights
        with torch.enable_grad():
            leaf, softmax_leaf, *leaves = (x.detach().requires_grad_() for x in (tokens, probabilities, *weights))
            factors = _score_factors(leaf, Projections(*leaves), chosen)
            mixed = _mix(leaf, softmax_leaf, Projections(*leaves), chosen)
        grad_rows = grad_output.flatten(0, 1).index_select(0, _row_index(tokens, chosen)).view_as(mixed[1])
        grad_softmax, grad_tokens, *grad_value_and_output = torch.autograd.grad(
            mixed, [softmax_leaf, leaf, *leaves[4:]], [grad_output.sum(1, keepdim=True), grad_rows]
        )
        grad_scores = torch._softmax_backward_data(grad_softmax, probabilities, 2, probabilities.dtype)
        grad_tokens = torch.baddbmm(grad_tokens, grad_scores.transpose(1, 2), factors[0].detach())
        grad_factors = grad_scores @ tokens, grad_scores.sum(2, keepdim=True)
        grad_from_scores, *grad_query_and_key = torch.autograd.grad(factors, [leaf, *leaves[:4]], grad_factors)
        return grad_tokens.add_(grad_from_scores), None, *grad_query_and_key, *grad_value_and_output


def _gradients(
    tokens: Tensor, weights: list[Tensor], chosen: Tensor, grad_output: Tensor, needed: tuple[bool, ...]
) -> list[Tensor | None]:
    """Return differentiable gradients of tokens and weights; the forward pass is recomputed."""
    # views, since two weights may be the same tensor and need separate gradients
    inputs = [tensor.view_as(tensor) for tensor in (tokens, *weights)]
    output = _attend(inputs[0], Projections(*inputs[1:]), chosen)
    leaves = [tensor for tensor, is_needed in zip(inputs, needed, strict=True) if is_needed]
    gradients = iter(torch.autograd.grad(output, leaves, grad_output, create_graph=True))
    return [next(gradients) if is_needed else None for is_needed in needed]


def _attend(tokens: Tensor, weights: Projections, chosen: Tensor) -> Tensor:
    """As `attend_few`, in operations that autograd records."""
    probabilities = _softmax(tokens, _score_factors(tokens, weights, chosen))
    return _scatter(*_mix(tokens, probabilities, weights, chosen), _row_index(tokens, chosen), tokens.shape[1])


def _softmax(tokens: Tensor, factors: tuple[Tensor, Tensor]) -> Tensor:
    """Return the softmax of the active queries over all keys, (B, H·u, L)."""
    return torch.baddbmm(factors[1], factors[0], tokens.transpose(1, 2)).softmax(2)


def _score_factors(tokens: Tensor, weights: Projections, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return slope (B, H·u, D) and intercept (B, H·u, 1) of the active queries' scores as functions of a token."""
    heads = chosen.shape[1]
    rows = tokens.flatten(0, 1).index_select(0, _row_index(tokens, chosen)).unflatten(0, (heads, -1))  # (H, B·u, D)
    width = weights.query.shape[0] // heads
    query = rows @ weights.query.unflatten(0, (heads, -1)).transpose(1, 2) + weights.query_bias.view(heads, 1, -1)
    query = query * width**-0.5
    by_token = query @ weights.key.unflatten(0, (heads, -1))  # (H, B·u, D)
    constant = query @ weights.key_bias.view(heads, -1, 1)  # cancels in the softmax; kept for its gradient
    return _by_batch(by_token, tokens), _by_batch(constant, tokens)


def _mix(tokens: Tensor, probabilities: Tensor, weights: Projections, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the output of inactive queries, (B, 1, D), and what each head adds for active ones, (H, B·u, D)."""
    heads = chosen.shape[1]
    by_head = weights.value.unflatten(0, (heads, -1))  # (H, E, D)
    mean = functional.linear(tokens.mean(1, keepdim=True), weights.value)  # (B, 1, H·E)
    rest = functional.linear(mean + weights.value_bias, weights.output, weights.output_bias)
    mixed = (probabilities @ tokens).unflatten(1, (heads, -1)).transpose(0, 1).flatten(1, 2)  # (H, B·u, D)
    rows = (mixed @ by_head.transpose(1, 2)).unflatten(1, (tokens.shape[0], -1))  # (H, B, u, E)
    rows = rows - mean.unflatten(2, (heads, 1, -1)).squeeze(1).transpose(0, 1)  # less the mean
    return rest, rows.flatten(1, 2) @ weights.output.unflatten(1, (heads, -1)).permute(1, 2, 0)


def _scatter(rest: Tensor, rows: Tensor, index: Tensor, length: int) -> Tensor:
    """Return (B, L, D): `rest` at all positions, plus `rows` of all heads at `index`."""
    output = rest.repeat(1, length, 1)
    output.flatten(0, 1).index_add_(0, index, rows.flatten(0, 1))
    return output


def _row_index(tokens: Tensor, chosen: Tensor) -> Tensor:
    """Return the chosen rows of tokens, viewed as (B·L, D), head by head: (H·B·u,)."""
    first = torch.arange(tokens.shape[0], device=chosen.device) * tokens.shape[1]
    return (chosen + first[:, None, None]).transpose(0, 1).flatten()


def _by_batch(rows: Tensor, tokens: Tensor) -> Tensor:
    """Rearrange (H, B·u, ·) to (B, H·u, ·)."""
    by_window: Tensor = rows.unflatten(1, (tokens.shape[0], -1))  # (H, B, u, ·)
    return by_window.transpose(0, 1).flatten(1, 2)
