"""The key samples of ProbSparse, and the ranking of its queries."""

import math

import torch
from torch import Tensor

# Steps of two low-discrepancy sequences on [0, 1): the sample in evaluation mode depends on lengths only.
_STEP_OF_SAMPLE = (math.sqrt(5) - 1) / 2
_STEP_OF_QUERY = math.sqrt(2) - 1


def log_count(factor: int, count: int) -> int:
    """Return factor·⌈ln count⌉, at least 1 and at most `count`."""
    return min(max(factor * _ceil_log(count), 1), count)


def _ceil_log(count: int) -> int:
    """Return ⌈ln count⌉, by comparison: a compiled graph holds for all lengths with the same result."""
    logarithm = 0
    while math.exp(logarithm) < count:
        logarithm += 1
    return logarithm


def log_counts(factor: int, counts: Tensor) -> Tensor:
    """Return `log_count` of each element, and 0 for a count of 0."""
    # float64: float32 may round a logarithm just above an integer down to it
    logarithms = factor * counts.clamp_min(1).double().log().ceil().long()
    return logarithms.clamp_min(1).minimum(counts)


def fixed_fractions(rows: int, columns: int, device: torch.device) -> Tensor:
    """Return fixed fractions in [0, 1), shape (rows, columns); each depends on its row and column only."""
    row = torch.arange(rows, device=device, dtype=torch.float64)
    column = torch.arange(1, columns + 1, device=device, dtype=torch.float64)
    return (row[:, None] * _STEP_OF_QUERY + column * _STEP_OF_SAMPLE) % 1


def positions_of(fractions: Tensor, length: int, width: int) -> Tensor:
    """Return ⌊fraction · length⌋, shape (1, R, U), or all positions in order if `width` equals `length`."""
    if width == length:
        return torch.arange(length, device=fractions.device).expand(1, fractions.shape[0], -1)
    # clamp: float32 may round the product up to the length
    return (fractions * length).long().clamp(max=length - 1)[None]


def allowed_positions_of(fractions: Tensor, mask: Tensor, valid: Tensor) -> Tensor:
    """Return positions (B, R, U) of keys that `mask` (B, S) allows; only the first `valid` (B,) columns are valid."""
    columns = fractions.shape[1]
    counts = mask.sum(dim=1)[:, None, None]
    ranks = (fractions * counts).long().minimum((counts - 1).clamp_min(0))
    all_ranks = torch.arange(columns, device=mask.device)
    ranks = torch.where(valid[:, None, None] == counts, all_ranks.minimum((counts - 1).clamp_min(0)), ranks)
    # column n of `order` is the n-th allowed position of each row; ONNX has no stable sort
    order = stable_topk(mask.float(), mask.shape[1])
    return order.gather(1, ranks.flatten(1)).view_as(ranks)


def take_rows(tensor: Tensor, index: Tensor) -> Tensor:
    """Gather rows (B, H, U, C) of `tensor` (B, H, N, C) at `index`, broadcastable to (B, H, U)."""
    return tensor[_places(tensor, index)]


def put_rows(tensor: Tensor, index: Tensor, rows: Tensor) -> Tensor:
    """Return `tensor` (B, H, N, C) with `rows` (B, H, U, C) at `index`, broadcastable to (B, H, U)."""
    return tensor.index_put(_places(tensor, index), rows)


def _places(tensor: Tensor, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return indices of the first three axes. A CPU takes 3 times as long to `gather` and `scatter` bfloat16 rows."""
    batch, head = (torch.arange(size, device=tensor.device) for size in tensor.shape[:2])
    return batch[:, None, None], head[:, None], index


def per_query_scores(query: Tensor, key: Tensor, positions: Tensor) -> Tensor:
    """Return the products (B, H, L, U) of queries (B, H, L, E) with a separate sample of keys for each.

    `key` (B, H, S, E) is contiguous; `positions` (B or 1, L, U) selects keys. Memory: B H L U E elements.
    """
    batch, heads, num_keys, width = key.shape
    first = torch.arange(batch * heads, device=key.device).view(batch, heads, 1, 1) * num_keys
    rows = positions[:, None] + first  # (B, H, L, U), rows of key viewed as (B·H·S, E)
    keys = key.view(-1, width).index_select(0, rows.flatten()).view(*rows.shape, width)
    return (keys @ query.unsqueeze(-1)).squeeze(-1)


def stable_topk(measure: Tensor, count: int) -> Tensor:
    """Return the positions (B, H, count) of the `count` highest values of `measure` (B, H, L), highest first.

    Of equal values the first wins, on every device and with any padding after it; topk does not promise that.
    """
    # A float32 leaves 29 bits of a float64 unused. Subtracting a multiple of the position in these bits breaks ties;
    # the last term does so for zeros. Integer keys would work as well, but not in ONNX.
    value = measure.to(torch.float32).clamp(max=torch.finfo(torch.float32).max).to(torch.float64)
    position = torch.arange(1, measure.shape[-1] + 1, device=measure.device, dtype=torch.float64)
    return (value - value.abs() * (position * 2.0**-51) - position * 1e-300).topk(count, dim=-1).indices
