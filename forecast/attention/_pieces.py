"""Sums over the sequence, some positions at a time: what is made on the way stays in the processor's cache."""

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

# What features are made of: keys (B, H, n, E) and which of them are masked, (B, 1, n, 1) or None.
KeyFeatures = Callable[[Tensor, Tensor | None], Tensor]
QueryFeatures = Callable[[Tensor], Tensor]

# Positions of a piece in a causal form: the products within pieces, L × piece, then take about as much
# room as the states, L/piece × E², at the usual E = 64.
PIECE_LENGTH = 64

# Numbers of one tensor that a loop takes at a time. A processor wants them in its cache, where fresh memory
# costs it more than the arithmetic, but fewer and longer steps where its cores are shared. An accelerator
# wants few launches, and for a gradient all is kept anyway.
LOOP_ELEMENTS_CPU = 2**20
LOOP_ELEMENTS = 2**26


def loop(first: Tensor, *others: Tensor | None) -> Iterator[tuple[Any, ...]]:
    """Yield (B, ·, N, ·) tensors some positions at a time, whole pieces of `PIECE_LENGTH`; None stays None."""
    kept = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (first, *others))
    elements = LOOP_ELEMENTS_CPU if first.device.type == "cpu" and not kept else LOOP_ELEMENTS
    heads, _, width = first.shape[1:]
    size = max(1, elements // max(1, batch_to_reckon_with(first) * heads * width * PIECE_LENGTH)) * PIECE_LENGTH
    # split and not slices: its gradient is written once, and not once for each
    parts = [repeat(None) if tensor is None else tensor.split(size, dim=2) for tensor in (first, *others)]
    return zip(*parts, strict=False)


def batch_to_reckon_with(tensor: Tensor) -> int:
    """Return the batch rows that pieces are sized by: one in a program exported for any number of them."""
    return 1 if torch.compiler.is_exporting() else tensor.shape[0]


def join(parts: Iterator[Tensor], length: int) -> Tensor:
    """Return the parts (B, H, n, V) as one tensor (B, H, length, V)."""
    part = next(parts)
    if part.shape[2] == length:
        return part.contiguous()  # a causal one may be cut from whole pieces
    if part.requires_grad:
        return torch.cat([part, *parts], dim=2)
    # with no gradient to keep them for, one part at a time is there
    output = part.new_empty((*part.shape[:2], length, part.shape[3]))
    for start in range(0, length, size := part.shape[2]):
        output[:, :, start : start + size] = part
        part = next(parts, part)
    return output


def hidden_keys(mask: Tensor | None) -> Tensor | None:
    """Return where keys are masked, shape (B, 1, S, 1), from a mask (B, S)."""
    return None if mask is None else ~mask[:, None, :, None]


def sum_keys(features: KeyFeatures, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return Σ f(k) vᵀ, shape (B, H, E, V), and Σ f(k), shape (B, H, E, 1)."""
    state = total = torch.zeros((), dtype=key.dtype, device=key.device)
    for keys, values, hidden in loop(key, value, hidden_keys(mask)):
        featured = features(keys, hidden).transpose(-1, -2)  # (B, H, E, n)
        state = state + featured @ values.to(featured.dtype)
        total = total + featured.sum(dim=-1, keepdim=True)
    return state, total


def causal_sums(
    query_features: QueryFeatures,
    key_features: KeyFeatures,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield Σ_{j≤i} f(q_i)·f(k_j) v_j, shape (B, H, n, V), and the sum of the weights, shape (B, H, n, 1).

    Within a piece the products are masked, across pieces the sums are carried: nothing that a later position
    brings is ever added to an earlier one.
    """
    carried = carried_total = torch.zeros((), dtype=key.dtype, device=key.device)
    for queries, keys, values, hidden in loop(query, key, value, hidden_keys(mask)):
        length = queries.shape[2]
        size = min(PIECE_LENGTH, length)
        featured = in_pieces(query_features(queries), size)
        featured_keys = in_pieces(key_features(keys, hidden), size)
        values = in_pieces(values.to(featured.dtype), size)
        products = (featured @ featured_keys.transpose(-1, -2)).tril_()  # (B, H, pieces, size, size)
        state, carried = _before(carried, featured_keys.transpose(-1, -2) @ values)
        total, carried_total = _before(carried_total, featured_keys.sum(dim=3).unsqueeze(-1))
        output = products @ values + featured @ state
        weight = products.sum(dim=-1, keepdim=True) + featured @ total
        yield output.flatten(2, 3)[:, :, :length], weight.flatten(2, 3)[:, :, :length]


def in_pieces(tensor: Tensor, size: int, fill: float = 0.0) -> Tensor:
    """Return (B, H, N, C) as (B, H, pieces, size, C), `fill` after the last position."""
    if tensor.shape[2] % size:
        tensor = functional.pad(tensor, (0, 0, 0, -tensor.shape[2] % size), value=fill)
    pieces: Tensor = tensor.unflatten(2, (-1, size))
    return pieces


def _before(carried: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
    """Return for each piece, axis 2 of `added`, what was carried to it, and what is carried on."""
    through = added.cumsum(dim=2) + carried
    return torch.cat([carried.expand_as(through[:, :, :1]), through[:, :, :-1]], dim=2), through[:, :, -1:]


def divide(output: Tensor, total: Tensor) -> Tensor:
    """Divide by a total of any size; where there is nothing to attend, zeros."""
    return output / total.where(total >= torch.finfo(total.dtype).tiny, 1)
