"""Self-attention in which few queries attend, straight from the tokens, without keys and values for all of them.

Where u of L queries attend and the others share the mean, the weights can be applied to the few:
q·k = (Wₖᵀq)·x and Σ p (Wᵥx) = Wᵥ(Σ p x), tokens x of width D. With H heads of width E a token then takes
3 H u D multiplications, and each of the few 6 D E a head, in place of 4 D H E a token.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from forecast.attention.base import Attention, SparseQueries, is_autocast, sparse_queries


class Projections(NamedTuple):
    """Weights (H·E, D) and biases (H·E,) of query, key and value, and (D, H·E) and (D,) of the output."""

    query: Tensor
    query_bias: Tensor
    key: Tensor
    key_bias: Tensor
    value: Tensor
    value_bias: Tensor
    output: Tensor
    output_bias: Tensor


def is_cheaper(length: int, few: int, head_dim: int) -> bool:
    """Return whether it takes fewer multiplications; what is asked for above that is for moving rows about."""
    return 3 * few / head_dim + 6 * few / length < 3  # of 4, both over D H E


def num_active_if_cheaper(mechanism: Attention, length: int) -> int | None:
    """Return how many of `length` queries attend where that is known beforehand and cheaper, else None."""
    sparse = sparse_queries(mechanism)
    few = sparse.num_active_queries(length) if sparse is not None and length else None
    return few if few is not None and is_cheaper(length, few, mechanism.head_dim) else None


def operations(length: int, few: int, d_model: int, num_heads: int, head_dim: int) -> float:
    """Return the operations of a layer, forward, a batch row."""
    return 2 * num_heads * few * d_model * (3 * length + 6 * head_dim)


def attend_from_tokens(tokens: Tensor, mechanism: Attention, projections: Sequence[nn.Linear]) -> Tensor | None:
    """Return the layer's output (B, L, D) from tokens (B, L, D); None where the usual way is needed.

    The weights of `projections` (query, key, value, output) are read; no module is called. A projection that is hooked,
    replaced or wrapped therefore needs the usual way.
    """
    half = tokens.dtype.itemsize < 4 or is_autocast(tokens)  # scores are taken in float32 at least
    if half or not tokens.numel() or num_active_if_cheaper(mechanism, tokens.shape[1]) is None:
        return None
    if _is_transformed() or not (all(map(_is_plain, projections)) and _is_own(mechanism)):
        return None
    assert isinstance(mechanism, SparseQueries)
    weights = Projections(*(each for layer in projections for each in (layer.weight, layer.bias)))
    chosen = mechanism.choose_from_products(
        tokens.shape[1],
        tokens.device,
        lambda positions: sampled_scores(tokens, weights, positions, mechanism.num_heads),
    )
    return attend_few(tokens, weights, chosen)


def _is_plain(layer: nn.Module) -> bool:
    """Return whether a call of the layer is its weight, its bias and nothing else."""
    if type(layer) is not nn.Linear or layer.bias is None or _is_hooked(layer):
        return False
    if torch.compiler.is_compiling():
        return True
    # a quantized or distributed weight is a tensor with rules of its own
    return type(layer.weight) in (nn.Parameter, Tensor) and "forward" not in vars(layer)


def _is_own(mechanism: Attention) -> bool:
    """Return whether a call of the mechanism shows or changes no more than its class says."""
    if _is_hooked(mechanism):
        return False
    return torch.compiler.is_compiling() or not {"forward", "attend"} & vars(mechanism).keys()


def _is_hooked(module: nn.Module) -> bool:
    own = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(own) or bool(nn.modules.module._has_any_global_hook())


def _is_transformed() -> bool:
    """Return whether torch.func or forward-mode differentiation is at work, which `_AttendFew` has no rule for."""
    if torch.compiler.is_compiling():
        return False
    return bool(torch._C._are_functorch_transforms_active()) or torch.autograd.forward_ad._current_level >= 0


@torch.no_grad()
def sampled_scores(tokens: Tensor, weights: Projections, positions: Tensor, heads: int) -> Tensor:
    """Return the products of all queries with the keys at `positions` (U,), shape (B, H, L, U), tokens (B, L, D)."""
    keys = functional.linear(tokens[:, positions], weights.key, weights.key_bias)  # (B, U, H·E)
    keys = keys.unflatten(2, (heads, -1)).permute(2, 0, 1, 3).flatten(1, 2)  # (H, B·U, E)
    by_token = _by_batch(keys @ weights.query.unflatten(0, (heads, -1)), tokens)  # (B, H·U, D)
    constant = _by_batch(keys @ weights.query_bias.view(heads, -1, 1), tokens)  # (B, H·U, 1)
    scores = torch.baddbmm(constant, by_token, tokens.transpose(1, 2))  # (B, H·U, L)
    by_head: Tensor = scores.unflatten(1, (heads, -1))
    return by_head.transpose(2, 3)


def attend_few(tokens: Tensor, weights: Projections, chosen: Tensor) -> Tensor:
    """Return the layer's output (B, L, D) from tokens (B, L, D), where the queries at `chosen` (B, H, u) attend."""
    if torch.compiler.is_compiling():
        return _attend(tokens, weights, chosen)
    attended: Tensor = _AttendFew.apply(tokens, chosen, *weights)  # type: ignore[no-untyped-call]
    return attended


class _AttendFew(torch.autograd.Function):
    """The same, and for the gradient only the shares are held: what makes rows of D numbers is made anew."""

    @staticmethod
    def forward(context: Any, tokens: Tensor, chosen: Tensor, *weights: Tensor) -> Tensor:
        known = Projections(*weights)
        shares = _shares(tokens, _ask(tokens, known, chosen))
        context.save_for_backward(tokens, chosen, shares, *weights)
        return _put(*_mix(tokens, shares, known, chosen), _places(tokens, chosen), tokens.shape[1])

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        tokens, chosen, shares, *weights = context.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True
            needed = context.needs_input_grad
            of_tokens, *of_weights = _gradients(tokens, weights, chosen, gradients[0], (needed[0], *needed[2:]))
            return of_tokens, None, *of_weights
        with torch.enable_grad():
            leaf, mixed_shares, *leaves = (each.detach().requires_grad_() for each in (tokens, shares, *weights))
            asked = _ask(leaf, Projections(*leaves), chosen)
            mixed = _mix(leaf, mixed_shares, Projections(*leaves), chosen)
        given = gradients[0]
        of_rows = given.flatten(0, 1).index_select(0, _places(tokens, chosen)).view_as(mixed[1])
        of_shares, of_tokens, *later = torch.autograd.grad(
            mixed, [mixed_shares, leaf, *leaves[4:]], [given.sum(1, keepdim=True), of_rows]
        )
        of_scores = torch._softmax_backward_data(of_shares, shares, 2, shares.dtype)
        of_tokens = torch.baddbmm(of_tokens, of_scores.transpose(1, 2), asked[0].detach())
        of_asked = of_scores @ tokens, of_scores.sum(2, keepdim=True)
        more, *earlier = torch.autograd.grad(asked, [leaf, *leaves[:4]], of_asked)
        return of_tokens.add_(more), None, *earlier, *later


def _gradients(
    tokens: Tensor, weights: list[Tensor], chosen: Tensor, given: Tensor, needed: tuple[bool, ...]
) -> list[Tensor | None]:
    """Return gradients of tokens and weights that can be differentiated again; all is computed a second time."""
    # a view of each: one tensor may be two of the weights, and each has a gradient of its own
    inputs = [each.view_as(each) for each in (tokens, *weights)]
    output = _attend(inputs[0], Projections(*inputs[1:]), chosen)
    wanted = [each for each, is_needed in zip(inputs, needed, strict=True) if is_needed]
    found = iter(torch.autograd.grad(output, wanted, given, create_graph=True))
    return [next(found) if is_needed else None for is_needed in needed]


def _attend(tokens: Tensor, weights: Projections, chosen: Tensor) -> Tensor:
    """Return what `attend_few` does, in operations that autograd records."""
    shares = _shares(tokens, _ask(tokens, weights, chosen))
    return _put(*_mix(tokens, shares, weights, chosen), _places(tokens, chosen), tokens.shape[1])


def _shares(tokens: Tensor, asked: tuple[Tensor, Tensor]) -> Tensor:
    """Return the softmax of the chosen queries over all keys, (B, H·u, L)."""
    return torch.baddbmm(asked[1], asked[0], tokens.transpose(1, 2)).softmax(2)


def _ask(tokens: Tensor, weights: Projections, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return what makes a chosen query's score of a token: its factors (B, H·u, D), and what is added (B, H·u, 1)."""
    heads = chosen.shape[1]
    rows = tokens.flatten(0, 1).index_select(0, _places(tokens, chosen)).unflatten(0, (heads, -1))  # (H, B·u, D)
    width = weights.query.shape[0] // heads
    query = rows @ weights.query.unflatten(0, (heads, -1)).transpose(1, 2) + weights.query_bias.view(heads, 1, -1)
    query = query * width**-0.5
    by_token = query @ weights.key.unflatten(0, (heads, -1))  # (H, B·u, D)
    constant = query @ weights.key_bias.view(heads, -1, 1)  # no weight changes by it, but a gradient is there
    return _by_batch(by_token, tokens), _by_batch(constant, tokens)


def _mix(tokens: Tensor, shares: Tensor, weights: Projections, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return what all have, (B, 1, D), and what each head adds for its chosen ones, (H, B·u, D)."""
    heads = chosen.shape[1]
    by_head = weights.value.unflatten(0, (heads, -1))  # (H, E, D)
    mean = functional.linear(tokens.mean(1, keepdim=True), weights.value)  # (B, 1, H·E)
    rest = functional.linear(mean + weights.value_bias, weights.output, weights.output_bias)
    mixed = (shares @ tokens).unflatten(1, (heads, -1)).transpose(0, 1).flatten(1, 2)  # (H, B·u, D)
    rows = (mixed @ by_head.transpose(1, 2)).unflatten(1, (tokens.shape[0], -1))  # (H, B, u, E)
    rows = rows - mean.unflatten(2, (heads, 1, -1)).squeeze(1).transpose(0, 1)  # values less their mean
    return rest, rows.flatten(1, 2) @ weights.output.unflatten(1, (heads, -1)).permute(1, 2, 0)


def _put(rest: Tensor, rows: Tensor, places: Tensor, length: int) -> Tensor:
    """Return (B, L, D): `rest` everywhere, and at `places` what the heads add to it."""
    output = rest.repeat(1, length, 1)
    output.flatten(0, 1).index_add_(0, places, rows.flatten(0, 1))
    return output


def _places(tokens: Tensor, chosen: Tensor) -> Tensor:
    """Return the rows of tokens, seen as (B·L, D), that are chosen, head by head: (H·B·u,)."""
    first = torch.arange(tokens.shape[0], device=chosen.device) * tokens.shape[1]
    return (chosen + first[:, None, None]).transpose(0, 1).flatten()


def _by_batch(rows: Tensor, tokens: Tensor) -> Tensor:
    """Return (H, B·u, ·) as (B, H·u, ·)."""
    by_window: Tensor = rows.unflatten(1, (tokens.shape[0], -1))  # (H, B, u, ·)
    return by_window.transpose(0, 1).flatten(1, 2)
