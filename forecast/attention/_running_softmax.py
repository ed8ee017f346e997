"""A running softmax of the keys for each feature, in blocks, and the means of the values that it weights."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from forecast.attention._chunks import in_blocks, out_of_blocks, scan_chunks, split_axis
from forecast.attention._masks import Mask, masked_keys
from forecast.attention._recompute import State
from forecast.attention._sums import causal_sums, sum_keys
from forecast.attention.base import at_least_float32, is_transformed
from forecast.kernels.causal_products import for_products

# Maps queries (.., n, E), sums Σ_{j≤i} exp(k_j - m_i) of the same shape, and m_i, to features.
QueryFeatures = Callable[[Tensor, Tensor, Tensor], Tensor]

# Keys up to this size have exponentials whose sums and quotients float32 holds.
LARGEST_EXPONENT = 30.0

# Positions per block of `softmax_step`: fewer cost more states, more cost more pairs.
BLOCK = 16

# Blocks whose states are computed from all pairs of blocks; more blocks are grouped first.
GROUP = 64


def softmax_means(key: Tensor, value: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
    """Return Σ_j exp(k_je) v_j / Σ_j exp(k_je), (B, H, E, V), and the logarithms of the divisors, (B, H, 1, E).

    If all keys are masked, the means are zeros.
    """
    dtype, hidden = at_least_float32(key), masked_keys(mask)
    top = key.detach() if hidden is None else key.detach().masked_fill(hidden, torch.finfo(key.dtype).min)
    top = top.amax(dim=2, keepdim=True).to(dtype)  # (B, H, 1, E)

    def exponentials(keys: Tensor, hidden: Tensor | None) -> Tensor:
        features = (keys - top if keys.dtype == dtype else keys.to(dtype).sub_(top)).exp_()
        return for_products(features if hidden is None else features.masked_fill(hidden, 0), keys)

    state, total = sum_keys(exponentials, key, value, mask, recompute=False)  # exp takes longer than all the rest
    total = total.where(total > 0, 1)
    return state / total, total.log().mT + top


def first_state(key: Tensor, value: Tensor) -> State:
    """Return the state before the first position.

    The state has the largest key, (B, H, 1, E), the sum of exponentials relative to it, (B, H, 1, E), and their
    products with the values, (B, H, E, V).
    """
    dtype = at_least_float32(key)
    top = torch.full_like(key[:, :, :1], _lowest(dtype), dtype=dtype)
    sums = value.new_zeros((*key.shape[:2], key.shape[3], value.shape[3]), dtype=dtype)
    return top, torch.zeros_like(top), sums


def scan_softmax(features: QueryFeatures, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
    """Return Σ_e f(q_i)_e Σ_{j≤i} exp(k_je) v_j / Σ_{j≤i} exp(k_je), shape (B, H, N, V).

    `exponential_step` computes the rows before the first key beyond `LARGEST_EXPONENT`, and `softmax_step` the others.
    So a later key never changes an earlier row. A compiled graph has one form for all keys.
    """
    state, sequences = first_state(key, value), (query, key, value, masked_keys(mask))
    first = _first_beyond(key.detach()) if _has_readable_values(key) else 0
    if first == 0:
        return scan_chunks(partial(softmax_step, features), state, *sequences, dtype=value.dtype)
    beyond = None
    if first < key.shape[2]:
        beyond = torch.arange(key.shape[2], device=key.device).view(1, 1, -1, 1) >= first
    return scan_chunks(partial(_either_step, features), state, *sequences, beyond, dtype=value.dtype)


def _has_readable_values(key: Tensor) -> bool:
    """Return whether Python may branch on the values: not in graphs, transforms, and tensors without data."""
    if torch.compiler.is_compiling() or is_transformed() or key.is_meta or isinstance(key, FakeTensor):
        return False
    return not (key.is_cuda and torch.cuda.is_current_stream_capturing())


def _first_beyond(key: Tensor) -> int:
    """Return the first position of a key beyond `LARGEST_EXPONENT` or NaN, in any row; the length if there is none."""
    lowest, highest = key.aminmax()
    if torch.maximum(-lowest, highest) <= LARGEST_EXPONENT:  # one transfer from a GPU
        return key.shape[2]
    beyond = ~(key.abs() <= LARGEST_EXPONENT)
    return int(beyond.any(dim=3).flatten(0, 1).any(dim=0).to(torch.uint8).argmax())


def _either_step(
    features: QueryFeatures,
    state: State,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    hidden: Tensor | None,
    beyond: Tensor | None,
) -> tuple[State, Tensor]:
    """Return `softmax_step` for the rows `beyond` (1, 1, n, 1), and `exponential_step` for those before."""
    if beyond is None or not beyond.any():
        return exponential_step(features, state, queries, keys, values, hidden)
    after, output = softmax_step(features, state, queries, keys, values, hidden)
    if not beyond.all():
        _, first_rows = exponential_step(features, state, queries, keys.masked_fill(beyond, 0), values, hidden)
        output = torch.where(beyond, output, first_rows)
    return after, output


def exponential_step(
    features: QueryFeatures, state: State, queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None
) -> tuple[State, Tensor]:
    """Return as `softmax_step`, for keys whose exponentials float32 holds: those are features of linear attention.

    Without it, forward and backward pass of a causal layer take 6 to 17 times as long on a CPU (8 heads of 64, 22 to
    8,192 positions).
    """
    top, norm, sums = state
    exponentials = keys.to(top.dtype).exp()
    if hidden is not None:
        exponentials = exponentials.masked_fill(hidden, 0)
    norms = exponentials.cumsum(dim=2) + norm
    divisors = norms.where(norms > 0, 1)  # 0 before the first key
    weights = features(queries, divisors, torch.zeros_like(top)) / divisors
    weights, exponentials = for_products(weights, queries), for_products(exponentials, keys)
    output, sums = causal_sums(weights, exponentials, values.to(exponentials.dtype), sums)
    norm = norms[:, :, -1:]
    return (torch.zeros_like(top).where(norm > 0, _lowest(top.dtype)), norm, sums), output


def softmax_step(
    features: QueryFeatures, state: State, queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None
) -> tuple[State, Tensor]:
    """Return the state after a chunk of n positions, and its output (B, H, n, V), for keys of any size.

    Let m_i be the largest key up to i. Within a block, exp(k_j - m_i) is computed for each pair j ≤ i. From block to
    block, a state relative to m is carried, and multiplied by exp(m - m_i). No exponent is positive, so that keys of
    any size neither overflow nor underflow.
    """
    top, norm, sums = state
    length, dtype = queries.shape[2], top.dtype
    size = BLOCK if length >= BLOCK else length
    keys = keys.to(dtype) if hidden is None else keys.to(dtype).masked_fill(hidden, _lowest(dtype))
    keys, values = in_blocks(keys, size, _lowest(dtype)), in_blocks(values.to(dtype), size)  # (B, H, blocks, size, ·)
    tops = _running_maximum(keys.detach())
    after = _running_maximum(tops[:, :, :, -1]).unsqueeze(3).maximum(top.unsqueeze(2))  # (B, H, blocks, 1, E)
    before = torch.cat([top.unsqueeze(2), after[:, :, :-1]], dim=2)
    tops = tops.maximum(before)
    decay = (before - tops).exp()
    exponents = keys.unsqueeze(3) - tops.unsqueeze(4)  # (B, H, blocks, size of i, size of j, E)
    pairs = exponents.masked_fill(_later(size, keys)[..., None], -torch.inf).exp()
    last = pairs[:, :, :, -1]  # relative to the largest key after each block

    norm_before, norm_after = _carry(before, after, norm.unsqueeze(2).mT, last.sum(dim=3).unsqueeze(-1))
    norms = pairs.sum(dim=4) + decay * norm_before.mT
    weights = features(in_blocks(queries, size), norms, tops) / norms
    sums_before, sums_after = _carry(before, after, sums.unsqueeze(2), last.mT @ values)
    output = (pairs @ weights.unsqueeze(-1)).squeeze(-1) @ values + (weights * decay) @ sums_before
    return (after[:, :, -1], norm_after[:, :, -1].mT, sums_after[:, :, -1]), out_of_blocks(output, length)


def _lowest(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).min / 4  # finite, so that differences stay finite


def _carry(before: Tensor, after: Tensor, carried: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
    """Return the states before and after each block, (B, H, blocks, E, ·).

    `before` and `after` (B, H, blocks, 1, E) are the largest keys there. A block adds `added` (B, H, blocks, E, ·)
    relative to its `after`; `carried` (B, H, 1, E, ·) is the state before the first block.
    """
    decay = (before[:, :, :1] - after).exp().mT  # (B, H, blocks, E, 1)
    states = _decayed_sums(after.squeeze(3), added) + decay * carried
    return torch.cat([carried, states[:, :, :-1]], dim=2), states


# Sums and maxima over earlier blocks are computed from all pairs of blocks. More than `GROUP` blocks are grouped first,
# so that pairs of blocks take less memory than pairs within blocks, and the number of operations hardly grows.


def _running_maximum(tops: Tensor) -> Tensor:
    """Return the running maximum along axis -2 of (.., n, E). ONNX has no cummax."""
    count = tops.shape[-2]
    if count <= GROUP:
        pairs = tops.unsqueeze(-3).expand(*tops.shape[:-2], count, count, -1)  # (.., n, earlier n, E)
        return pairs.masked_fill(_later(count, tops)[..., None], torch.finfo(tops.dtype).min).amax(dim=-2)
    within = _running_maximum(split_axis(tops, tops.ndim - 2, GROUP))
    earlier = _shifted(_running_maximum(within[..., -1, :]), -2, torch.finfo(tops.dtype).min)
    return within.maximum(earlier.unsqueeze(-2)).flatten(-3, -2)[..., :count, :]


def _decayed_sums(tops: Tensor, added: Tensor) -> Tensor:
    """Return Σ_{b≤c} exp(t_b - t_c) a_b, shape (.., n, E, V), for tops (.., n, E) and a, (.., n, E, V)."""
    count = tops.shape[-2]
    if count <= GROUP:
        by_feature = tops.mT  # (.., E, n)
        exponents = (by_feature.unsqueeze(-2) - by_feature.unsqueeze(-1)).clamp(max=0)  # (.., E, n, earlier n)
        factors = exponents.masked_fill(_later(count, tops), -torch.inf).exp()
        sums: Tensor = factors @ added.transpose(-3, -2)
        return sums.transpose(-3, -2)
    groups = split_axis(tops, tops.ndim - 2, GROUP)
    within = _decayed_sums(groups, split_axis(added, added.ndim - 3, GROUP))
    last = groups[..., -1, :]
    earlier = _shifted(_decayed_sums(last, within[..., -1, :, :]), -3)
    decay = (_shifted(last, -2).unsqueeze(-2) - groups).clamp(max=0).exp().unsqueeze(-1)
    return (within + decay * earlier.unsqueeze(-3)).flatten(-4, -3)[..., :count, :, :]


def _later(count: int, like: Tensor) -> Tensor:
    """Return which block (row) is before which (column), booleans (n, n)."""
    return torch.ones(count, count, dtype=torch.bool, device=like.device).triu(1)


def _shifted(blocks: Tensor, axis: int, first: float = 0.0) -> Tensor:
    """Shift by one block along `axis`; `first` fills the first one."""
    head = torch.full_like(blocks.narrow(axis, 0, 1), first)
    return torch.cat([head, blocks.narrow(axis, 0, blocks.shape[axis] - 1)], dim=axis)
