"""Chunks of long sequences: sums over keys, causal sums and a running softmax."""

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from forecast.attention._masks import Mask, masked_keys
from forecast.attention.base import at_least_float32

# Maps keys (B, H, n, E), and a mask of hidden keys (B, 1, n, 1) or None, to features.
KeyFeatures = Callable[[Tensor, Tensor | None], Tensor]
QueryFeatures = Callable[[Tensor], Tensor]

# Positions per block of a causal form. At the usual E = 64, the products within blocks, L × block, then take about
# as much memory as the states, L/block × E².
BLOCK_LENGTH = 64

# Elements of one tensor in a chunk of several blocks. On a CPU a chunk should fit the cache: allocating memory costs
# more than the arithmetic. A GPU needs few launches, and a backward pass stores all chunks anyway.
CHUNK_ELEMENTS_CPU = 2**20
CHUNK_ELEMENTS = 2**26


def chunks(first: Tensor, *others: Tensor | None) -> Iterator[tuple[Any, ...]]:
    """Yield tensors (B, ·, N, ·) in chunks along N, each a multiple of `BLOCK_LENGTH`; None stays None."""
    stored = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (first, *others))
    elements = CHUNK_ELEMENTS_CPU if first.device.type == "cpu" and not stored else CHUNK_ELEMENTS
    heads, _, width = first.shape[1:]
    size = max(1, elements // max(1, chunked_batch(first) * heads * width * BLOCK_LENGTH)) * BLOCK_LENGTH
    # split, not slices: its backward pass writes the gradient once, not once per chunk
    split = [repeat(None) if tensor is None else tensor.split(size, dim=2) for tensor in (first, *others)]
    return zip(*split, strict=False)


def chunked_batch(tensor: Tensor) -> int:
    """Return the batch size that sets the size of chunks: 1 while exporting, where it is unknown."""
    return 1 if torch.compiler.is_exporting() else tensor.shape[0]


def map_chunks(function: Callable[[Tensor], Tensor], query: Tensor) -> Tensor:
    """Apply `function` to queries (B, H, L, E) chunk by chunk; return shape (B, H, L, V)."""
    return concatenate_chunks((function(queries) for (queries,) in chunks(query)), query.shape[2])


def concatenate_chunks(outputs: Iterator[Tensor], length: int) -> Tensor:
    """Concatenate chunks (B, H, n, V) to one tensor (B, H, length, V)."""
    chunk = next(outputs)
    if chunk.shape[2] == length:
        return chunk.contiguous()  # a causal chunk may be a slice of padded blocks
    if chunk.requires_grad:
        return torch.cat([chunk, *outputs], dim=2)
    # without a gradient only one chunk is in memory at a time
    output = chunk.new_empty((*chunk.shape[:2], length, chunk.shape[3]))
    for start in range(0, length, size := chunk.shape[2]):
        output[:, :, start : start + size] = chunk
        chunk = next(outputs, chunk)
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

    Products are masked within a block; sums are carried across blocks. Later positions never change earlier ones.
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
    """Reshape (B, H, N, C) to (B, H, blocks, size, C), padded at the end with `fill`."""
    if tensor.shape[2] % size:
        tensor = functional.pad(tensor, (0, 0, 0, -tensor.shape[2] % size), value=fill)
    blocks: Tensor = tensor.unflatten(2, (-1, size))
    return blocks


def _before(carried: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
    """Return the running sum before each block, axis 2 of `added`, and the sum after the last."""
    after = added.cumsum(dim=2) + carried
    return torch.cat([carried.expand_as(after[:, :, :1]), after[:, :, :-1]], dim=2), after[:, :, -1:]


def divide(output: Tensor, total: Tensor) -> Tensor:
    """Divide by the sum of the weights; return zeros where the sum is zero."""
    return output / total.where(total >= torch.finfo(total.dtype).tiny, 1)


def running_softmax_sums(
    query_features: Callable[[Tensor], Tensor], query: Tensor, key: Tensor, value: Tensor, mask: Mask
) -> Iterator[Tensor]:
    """Yield Σ_e f(q_i)_e Σ_{j≤i} exp(k_je) v_j / Σ_{j≤i} exp(k_je), shape (B, H, n, V).

    Exponents are never positive, so keys of any size neither overflow nor underflow. Let m_i be the largest key up to
    i. A key j and a later query i use a position c between them: exp(k_j - m_c) exp(m_c - m_i). Across blocks, c is the
    last position of the previous block. Within a block, c is the end of the first half of the smallest span whose
    halves separate j and i. A block needs log₂(block length) halvings, each a masked product. No step adds to an
    earlier position. The halving follows the parallel prefix sum of Sklansky, "Conditional-Sum Addition Logic", 1960.
    """
    dtype = at_least_float32(key)
    lowest = torch.finfo(dtype).min / 4  # finite, so that differences stay finite
    top = torch.full_like(key[:, :, :1], lowest, dtype=dtype)  # (B, H, 1, E), largest key so far
    norm = state = torch.zeros((), dtype=dtype, device=key.device)
    for queries, keys, values, hidden in chunks(query, key, value, masked_keys(mask)):
        length = queries.shape[2]
        size = min(BLOCK_LENGTH, 1 << (length - 1).bit_length())  # a power of two
        keys = keys.to(dtype) if hidden is None else keys.to(dtype).masked_fill(hidden, lowest)
        keys, values = in_blocks(keys, size, lowest), in_blocks(values.to(dtype), size)  # (B, H, blocks, size, ·)
        tops, before, top = _running_tops(keys, top)
        scaled_keys, decay = (keys - tops).exp(), (before - tops).exp()
        last = decay[:, :, :, -1:]  # (B, H, blocks, 1, E)
        halvings = _halvings(keys, tops)

        norms = scaled_keys
        for half, decay_half, _ in halvings:
            norms = _add_to_second(norms, half, decay_half * _halves(norms, half)[0][..., -1:, :])
        norm_before, norm = _carry(norm, last, norms[:, :, :, -1:])
        weights = in_blocks(query_features(queries), size) / (norms + decay * norm_before)

        added = (keys - tops[:, :, :, -1:]).exp().transpose(-1, -2) @ values
        state_before, state = _carry(state, last.transpose(-1, -2), added)
        output = (weights * scaled_keys).sum(dim=-1, keepdim=True) * values + (weights * decay) @ state_before
        for half, decay_half, first_keys in halvings:
            products = (_halves(weights, half)[1] * decay_half) @ first_keys.transpose(-1, -2)  # (.., half, half)
            output = _add_to_second(output, half, products @ _halves(values, half)[0])
        yield output.flatten(2, 3)[:, :, :length]


def _running_tops(keys: Tensor, top: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the largest key up to each position, before each block, and up to the end."""
    tops = keys.detach()
    for half in _powers(tops.shape[-2]):
        first, second = _halves(tops, half)
        tops = _join_halves(first, second.maximum(first[..., -1:, :]))
    largest = [top]  # a cumulative maximum by hand: ONNX has no cummax
    for block_top in tops[:, :, :, -1].unbind(dim=2):
        largest.append(largest[-1].maximum(block_top.unsqueeze(2)))
    before = torch.stack(largest[:-1], dim=2)  # (B, H, blocks, 1, E)
    return tops.maximum(before), before, largest[-1]


def _halvings(keys: Tensor, tops: Tensor) -> list[tuple[int, Tensor, Tensor]]:
    """Return, per size of half, exp(m - m_i) of second halves and exp(k_j - m) of first halves; m is the middle."""
    factors = []
    for half in _powers(keys.shape[-2]):
        first, second = _halves(tops, half)
        middle = first[..., -1:, :]
        factors.append((half, (middle - second).exp(), (_halves(keys, half)[0] - middle).exp()))
    return factors


def _powers(size: int) -> list[int]:
    return [1 << power for power in range(size.bit_length() - 1)]


def _halves(block: Tensor, half: int) -> tuple[Tensor, Tensor]:
    """Split (.., size, C) into the first and second halves of its spans, each (.., spans, half, C)."""
    first, second = block.unflatten(-2, (-1, 2, half)).unbind(dim=-3)
    return first, second


def _add_to_second(block: Tensor, half: int, added: Tensor) -> Tensor:
    first, second = _halves(block, half)
    return _join_halves(first, second + added)


def _join_halves(first: Tensor, second: Tensor) -> Tensor:
    """Invert `_halves`."""
    return torch.stack([first, second], dim=-3).flatten(-4, -2)


def _carry(carried: Tensor, decay: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
    """Return the state before each block, axis 2, and after the last; a block computes `state * decay + added`."""
    before = []
    for factor, term in zip(decay.unbind(dim=2), added.unbind(dim=2), strict=True):
        before.append(carried.expand_as(term))
        carried = carried * factor + term
    return torch.stack(before, dim=2), carried
