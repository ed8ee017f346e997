"""Work on long sequences in chunks, with a running softmax."""

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from forecast.attention._masks import Mask, masked_keys
from forecast.attention.base import at_least_float32

# What features are made of: keys (B, H, n, E) and which of them are masked, (B, 1, n, 1) or None.
KeyFeatures = Callable[[Tensor, Tensor | None], Tensor]
QueryFeatures = Callable[[Tensor], Tensor]

# Positions of a block in a causal form: the products within blocks, L × block, then take about as much
# room as the states, L/block × E², at the usual E = 64.
BLOCK_LENGTH = 64

# Numbers of one tensor in a chunk, which is some blocks long. A processor wants them in its cache, where fresh memory
# costs it more than the arithmetic, but fewer and longer steps where its cores are shared. An accelerator
# wants few launches, and for a gradient all is kept anyway.
CHUNK_ELEMENTS_CPU = 2**20
CHUNK_ELEMENTS = 2**26


def chunks(first: Tensor, *others: Tensor | None) -> Iterator[tuple[Any, ...]]:
    """Yield (B, ·, N, ·) tensors in chunks of whole blocks of `BLOCK_LENGTH` positions; None stays None."""
    kept = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (first, *others))
    elements = CHUNK_ELEMENTS_CPU if first.device.type == "cpu" and not kept else CHUNK_ELEMENTS
    heads, _, width = first.shape[1:]
    size = max(1, elements // max(1, batch_to_reckon_with(first) * heads * width * BLOCK_LENGTH)) * BLOCK_LENGTH
    # split and not slices: its gradient is written once, and not once for each
    parts = [repeat(None) if tensor is None else tensor.split(size, dim=2) for tensor in (first, *others)]
    return zip(*parts, strict=False)


def batch_to_reckon_with(tensor: Tensor) -> int:
    """Return the batch rows that chunks are sized by: one in a program exported for any number of them."""
    return 1 if torch.compiler.is_exporting() else tensor.shape[0]


def map_chunks(function: Callable[[Tensor], Tensor], query: Tensor) -> Tensor:
    """Return `function` of the queries (B, H, L, E), which it takes a chunk at a time, shape (B, H, L, V)."""
    return concatenate_chunks((function(queries) for (queries,) in chunks(query)), query.shape[2])


def concatenate_chunks(parts: Iterator[Tensor], length: int) -> Tensor:
    """Return chunks (B, H, n, V) as one tensor (B, H, length, V)."""
    chunk = next(parts)
    if chunk.shape[2] == length:
        return chunk.contiguous()  # a causal one may be cut from whole blocks
    if chunk.requires_grad:
        return torch.cat([chunk, *parts], dim=2)
    # with no gradient to keep them for, one chunk at a time is there
    output = chunk.new_empty((*chunk.shape[:2], length, chunk.shape[3]))
    for start in range(0, length, size := chunk.shape[2]):
        output[:, :, start : start + size] = chunk
        chunk = next(parts, chunk)
    return output


def sum_keys(features: KeyFeatures, key: Tensor, value: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
    """Return Σ f(k) vᵀ, shape (B, H, E, V), and Σ f(k), shape (B, H, E, 1)."""
    state = total = torch.zeros((), dtype=key.dtype, device=key.device)
    for keys, values, hidden in chunks(key, value, masked_keys(mask)):
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
    mask: Mask,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield Σ_{j≤i} f(q_i)·f(k_j) v_j, shape (B, H, n, V), and the sum of the weights, shape (B, H, n, 1).

    Products are masked within a block, sums are carried across blocks: a later position never changes an earlier one.
    """
    carried = carried_total = torch.zeros((), dtype=key.dtype, device=key.device)
    for queries, keys, values, hidden in chunks(query, key, value, masked_keys(mask)):
        length = queries.shape[2]
        size = min(BLOCK_LENGTH, length)
        featured = in_blocks(query_features(queries), size)
        featured_keys = in_blocks(key_features(keys, hidden), size)
        values = in_blocks(values.to(featured.dtype), size)
        products = (featured @ featured_keys.transpose(-1, -2)).tril_()  # (B, H, blocks, size, size)
        state, carried = _before(carried, featured_keys.transpose(-1, -2) @ values)
        total, carried_total = _before(carried_total, featured_keys.sum(dim=3).unsqueeze(-1))
        output = products @ values + featured @ state
        weight = products.sum(dim=-1, keepdim=True) + featured @ total
        yield output.flatten(2, 3)[:, :, :length], weight.flatten(2, 3)[:, :, :length]


def in_blocks(tensor: Tensor, size: int, fill: float = 0.0) -> Tensor:
    """Return (B, H, N, C) as (B, H, blocks, size, C), `fill` after the last position."""
    if tensor.shape[2] % size:
        tensor = functional.pad(tensor, (0, 0, 0, -tensor.shape[2] % size), value=fill)
    blocks: Tensor = tensor.unflatten(2, (-1, size))
    return blocks


def _before(carried: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
    """Return for each block, axis 2 of `added`, what was carried to it, and what is carried on."""
    through = added.cumsum(dim=2) + carried
    return torch.cat([carried.expand_as(through[:, :, :1]), through[:, :, :-1]], dim=2), through[:, :, -1:]


def divide(output: Tensor, total: Tensor) -> Tensor:
    """Divide by a total of any size; where there is nothing to attend, zeros."""
    return output / total.where(total >= torch.finfo(total.dtype).tiny, 1)


def running_softmax_sums(
    query_features: Callable[[Tensor], Tensor], query: Tensor, key: Tensor, value: Tensor, mask: Mask
) -> Iterator[Tensor]:
    """Yield Σ_e f(q_i)_e Σ_{j≤i} exp(k_je) v_j / Σ_{j≤i} exp(k_je), shape (B, H, n, V).

    Exponents are differences that are never positive, so keys of any size neither overflow nor vanish. With m_i the
    largest key up to i, a key j and a later query i meet through a position c between: exp(k_j - m_c) exp(m_c - m_i).
    Here c is the last position of the previous block or, within a block, of the first half of the smallest span that is
    halved between j and i. A block costs log₂(its length) halvings, each a masked product. Nothing is added to an
    earlier position. The halving is that of a parallel prefix sum (Sklansky, "Conditional-Sum Addition Logic", 1960).
    """
    dtype = at_least_float32(key)
    lowest = torch.finfo(dtype).min / 4  # finite: the difference of two is a number, too
    top = torch.full_like(key[:, :, :1], lowest, dtype=dtype)  # (B, H, 1, E), the largest key so far
    norm = state = torch.zeros((), dtype=dtype, device=key.device)
    for queries, keys, values, hidden in chunks(query, key, value, masked_keys(mask)):
        length = queries.shape[2]
        size = min(BLOCK_LENGTH, 1 << (length - 1).bit_length())  # a power of two
        keys = keys.to(dtype) if hidden is None else keys.to(dtype).masked_fill(hidden, lowest)
        keys, values = in_blocks(keys, size, lowest), in_blocks(values.to(dtype), size)  # (B, H, blocks, size, ·)
        tops, before, top = _running_tops(keys, top)
        own, since = (keys - tops).exp(), (before - tops).exp()
        last = since[:, :, :, -1:]  # (B, H, blocks, 1, E)
        halvings = _halvings(keys, tops)

        norms = own
        for half, kept, _ in halvings:
            norms = _add_to_second(norms, half, kept * _halves(norms, half)[0][..., -1:, :])
        norm_before, norm = _carry(norm, last, norms[:, :, :, -1:])
        weights = in_blocks(query_features(queries), size) / (norms + since * norm_before)

        added = (keys - tops[:, :, :, -1:]).exp().transpose(-1, -2) @ values
        state_before, state = _carry(state, last.transpose(-1, -2), added)
        output = (weights * own).sum(dim=-1, keepdim=True) * values + (weights * since) @ state_before
        for half, kept, gathered in halvings:
            products = (_halves(weights, half)[1] * kept) @ gathered.transpose(-1, -2)  # (.., half, half)
            output = _add_to_second(output, half, products @ _halves(values, half)[0])
        yield output.flatten(2, 3)[:, :, :length]


def _running_tops(keys: Tensor, top: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the largest key up to each position, before each block, and up to the end."""
    tops = keys.detach()
    for half in _powers(tops.shape[-2]):
        first, second = _halves(tops, half)
        tops = _joined(first, second.maximum(first[..., -1:, :]))
    largest = [top]  # so far: what cummax gives, which ONNX does not have
    for own in tops[:, :, :, -1].unbind(dim=2):
        largest.append(largest[-1].maximum(own.unsqueeze(2)))
    before = torch.stack(largest[:-1], dim=2)  # (B, H, blocks, 1, E)
    return tops.maximum(before), before, largest[-1]


def _halvings(keys: Tensor, tops: Tensor) -> list[tuple[int, Tensor, Tensor]]:
    """Return for spans of two halves, their middle m: exp(m - m_i) of the second, exp(k_j - m) of the first."""
    found = []
    for half in _powers(keys.shape[-2]):
        first, second = _halves(tops, half)
        middle = first[..., -1:, :]
        found.append((half, (middle - second).exp(), (_halves(keys, half)[0] - middle).exp()))
    return found


def _powers(size: int) -> list[int]:
    return [1 << power for power in range(size.bit_length() - 1)]


def _halves(block: Tensor, half: int) -> tuple[Tensor, Tensor]:
    """Return (.., size, C) as the first and second halves of its spans, each (.., spans, half, C)."""
    first, second = block.unflatten(-2, (-1, 2, half)).unbind(dim=-3)
    return first, second


def _add_to_second(block: Tensor, half: int, added: Tensor) -> Tensor:
    first, second = _halves(block, half)
    return _joined(first, second + added)


def _joined(first: Tensor, second: Tensor) -> Tensor:
    """Return what `_halves` gives these halves of."""
    return torch.stack([first, second], dim=-3).flatten(-4, -2)


def _carry(carried: Tensor, kept: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
    """Return what is carried to each block, axis 2, and from the last: of each, `kept` stays, `added` comes."""
    before = []
    for stays, comes in zip(kept.unbind(dim=2), added.unbind(dim=2), strict=True):
        before.append(carried.expand_as(comes))
        carried = carried * stays + comes
    return torch.stack(before, dim=2), carried
