"""Which keys ProbSparse looks at before it chooses, and how it ranks queries by what it saw."""

import math

import torch
from torch import Tensor

# Steps of two sequences that fill [0, 1) evenly however many terms are taken, so that a sample for
# evaluation depends on nothing but lengths.
_STEP_OF_SAMPLE = (math.sqrt(5) - 1) / 2
_STEP_OF_QUERY = math.sqrt(2) - 1


def log_count(factor: int, count: int) -> int:
    """Return factor·⌈ln count⌉, at least 1 and at most `count`."""
    return min(max(factor * math.ceil(math.log(count)), 1), count)


def log_counts(factor: int, counts: Tensor) -> Tensor:
    """Return `log_count` of each element, 0 where the count is 0."""
    # float64: in float32 a logarithm just above an integer may be rounded down to it
    wanted = factor * counts.clamp_min(1).double().log().ceil().long()
    return wanted.clamp_min(1).minimum(counts)


def fixed_fractions(rows: int, columns: int, device: torch.device) -> Tensor:
    """Return fractions in [0, 1), shape (rows, columns), each a function of its own row and column."""
    row = torch.arange(rows, device=device, dtype=torch.float64)
    column = torch.arange(1, columns + 1, device=device, dtype=torch.float64)
    return (row[:, None] * _STEP_OF_QUERY + column * _STEP_OF_SAMPLE) % 1


def positions_of(fractions: Tensor, length: int, width: int) -> Tensor:
    """Return ⌊fraction · length⌋, shape (1, R, U); all positions in order where as many are wanted."""
    if width == length:
        return torch.arange(length, device=fractions.device).expand(1, fractions.shape[0], -1)
    # clamp: in float32 the product may be rounded up to the length
    return (fractions * length).long().clamp(max=length - 1)[None]


def allowed_positions_of(fractions: Tensor, mask: Tensor, wanted: Tensor) -> Tensor:
    """Return positions (B, R, U) among the keys that `mask` (B, S) allows; the first `wanted` (B,) columns count."""
    columns = fractions.shape[1]
    counts = mask.sum(dim=1)[:, None, None]
    ranks = (fractions * counts).long().minimum((counts - 1).clamp_min(0))
    everything = torch.arange(columns, device=mask.device)
    ranks = torch.where(wanted[:, None, None] == counts, everything.minimum((counts - 1).clamp_min(0)), ranks)
    # the n-th allowed position of each row; in prefix masks it is n
    order = mask.to(torch.int8).argsort(dim=1, descending=True, stable=True)
    return order.gather(1, ranks.flatten(1)).view_as(ranks)


def take_rows(tensor: Tensor, index: Tensor) -> Tensor:
    """Return rows `index` (B, H, U) or (B, 1, U) or (1, 1, U) of `tensor` (B, H, N, C): (B, H, U, C)."""
    batch, heads, _, width = tensor.shape
    return tensor.gather(2, index.expand(batch, heads, -1)[..., None].expand(-1, -1, -1, width))


def own_scores(query: Tensor, key: Tensor, positions: Tensor) -> Tensor:
    """Return the products (B, H, L, U) of queries (B, H, L, E) with their own keys.

    `key` is (B, H, S, E), contiguous; `positions` selects keys, (B or 1, L, U). Memory: (B, H, L, U, E).
    """
    batch, heads, num_keys, width = key.shape
    first = torch.arange(batch * heads, device=key.device).view(batch, heads, 1, 1) * num_keys
    rows = positions[:, None] + first  # (B, H, L, U), rows of key seen as (B·H·S, E)
    keys = key.view(-1, width).index_select(0, rows.flatten()).view(*rows.shape, width)
    return (keys @ query.unsqueeze(-1)).squeeze(-1)


def highest(measure: Tensor, count: int) -> Tensor:
    """Return the positions (B, H, count) of the `count` highest of `measure` (B, H, L), highest first.

    The first of equal measures wins, on every device and with any padding after it, which topk does not promise.
    """
    # A float32 leaves 29 bits of a float64 free: the place, from 1 on, takes up to 24 of them off, or, where there
    # is only a 0 to take it off, the smallest numbers. Integers with a place do as well, but ONNX cannot make them.
    value = measure.to(torch.float32).clamp(max=torch.finfo(torch.float32).max).to(torch.float64)
    place = torch.arange(1, measure.shape[-1] + 1, device=measure.device, dtype=torch.float64)
    return (value - value.abs() * (place * 2.0**-51) - place * 1e-300).topk(count, dim=-1).indices
