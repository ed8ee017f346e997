"""Measures of attention weights: entropy, distance, informative queries."""

import torch
from torch import Tensor

from forecast.attention._sampling import stable_topk
from forecast.attention.base import Attention, SparseQueries, at_least_float32, sparse_queries
from forecast.attention.full import softmax_weights
from forecast.training.probe.capture import Captured


def allowed_keys(call: Captured, queries: Tensor, causal: bool) -> Tensor:
    """Return which keys the positions `queries` (n,) may attend to, shape (1, 1, n, S) or (B, 1, n, S).

    A hidden query has no keys.
    """
    num_keys = call.key.shape[2]
    last = queries[:, None] if causal else torch.full_like(queries[:, None], num_keys)
    allowed = (torch.arange(num_keys, device=queries.device) <= last)[None, None]
    if call.mask is not None:
        allowed = allowed & call.mask[:, None, None]
    if call.query_mask is not None:
        allowed = allowed & call.query_mask[:, None, queries, None]
    return allowed


def softmax_rows(call: Captured, queries: Tensor, causal: bool) -> Tensor:
    """Return the rows σ(QKᵀ/√E) of the positions `queries` (n,), shape (B, H, n, S)."""
    return softmax_weights(call.query[:, :, queries], call.key, allowed_keys(call, queries, causal))


def mean_rows(call: Captured, queries: Tensor, causal: bool) -> Tensor:
    """Return uniform weights over the allowed keys of the positions `queries` (n,), broadcastable to (B, H, n, S)."""
    allowed = allowed_keys(call, queries, causal).to(at_least_float32(call.query))
    return allowed / allowed.sum(dim=-1, keepdim=True).clamp_min(1)


def relative_distance(output: Tensor, exact: Tensor) -> Tensor:
    """Return ‖output − exact‖₂ / ‖exact‖₂ of each head, shape (H,), float64.

    Both norms are over all sequences, queries and features of (B, H, n, V). 0: equal; 1: as far as an output of zeros;
    NaN or infinite if `exact` is zero.
    """
    difference = (output.double() - exact.double()).square().sum((0, 2, 3)).sqrt()
    distance: Tensor = difference / exact.double().square().sum((0, 2, 3)).sqrt()
    return distance


MAX_WEIGHTS = 2**24
"""Maximum size (sequences * heads * queries * keys) of a map that is computed in full for some of its rows."""

AGREEMENT = 0.01
"""Maximum relative distance to the output at which implied weights count as the weights of the output."""


def entropy(weights: Tensor, num_keys: Tensor) -> Tensor:
    """Return −Σ p ln p / ln(keys) of each head, averaged over sequences and queries: shape (H,), 0 to 1.

    p is |w| / Σ|w|, since implied weights may be negative (Linformer). `weights`, shape (B, H, n, S), are zero for keys
    that are not allowed; `num_keys`, shape (1, n) or (B, n), counts the allowed keys of each query. Queries with fewer
    than two are excluded; NaN if no query remains.
    """
    sizes = weights.abs()
    p = sizes / sizes.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(sizes.dtype).tiny)
    nats = -torch.special.xlogy(p, p).sum(dim=-1)  # (B, H, n)
    maximum = num_keys.clamp_min(2).to(nats.dtype).log()[:, None]
    counted = (num_keys > 1).expand(len(nats), -1)  # (B, n)
    mean: Tensor = (nats / maximum).double().where(counted[:, None], 0).sum((0, 2)) / counted.sum()
    return mean


def implied_rows(mechanism: Attention, call: Captured, queries: Tensor, exact: Tensor) -> Tensor | None:
    """Return the weights of the mechanism's output at the positions `queries`, shape (B, H, n, S).

    `call` has all queries, `queries` (n,) is ascending, and `exact` is the softmax of the same rows. The rows of a
    sparse mechanism are rebuilt from its choice. Return None if the map of these queries does not reproduce the output,
    because the weights of a query depend on other queries. Also return None if a mechanism needs equal numbers of
    queries and keys and the complete map is too large.
    """
    if (sparse := sparse_queries(mechanism)) is not None:
        active = sparse.active_queries(call.query, call.key, call.mask, call.query_mask)[:, :, queries, None]
        return torch.where(active, exact, mean_rows(call, queries, mechanism.causal))
    length = int(queries[-1]) + 1 if mechanism.causal else call.key.shape[2]
    if mechanism.causal:  # a square map up to the last position
        rows = map_of(mechanism, call, torch.arange(length, device=queries.device), length)[:, :, queries]
    elif mechanism.cross:
        rows = map_of(mechanism, call, queries, length)
    else:
        if call.query.shape[:3].numel() * length > MAX_WEIGHTS:
            return None
        rows = mechanism.attention_map(call.query, call.key, call.mask, call.query_mask)[:, :, queries]
    values = call.value[:, :, :length].to(rows.dtype)
    distance = relative_distance(rows @ values, call.output[:, :, queries])
    if not bool((distance <= AGREEMENT).all()):
        return None
    return torch.nn.functional.pad(rows, (0, call.key.shape[2] - length))


def map_of(mechanism: Attention, call: Captured, queries: Tensor, length: int) -> Tensor:
    """Return the map (B, H, n, `length`) of the positions `queries` (n,) over the first keys."""
    mask = None if call.mask is None else call.mask[:, :length]
    query_mask = None if call.query_mask is None else call.query_mask[:, queries]
    return mechanism.attention_map(call.query[:, :, queries], call.key[:, :, :length], mask, query_mask)


BUDGET = 2**26
"""Maximum number of query-key products for the exact measure of a layer; above it every k-th query is ranked."""

CHUNK = 2**22
"""Query-key products in memory at a time."""


def query_recall(mechanism: SparseQueries, call: Captured, budget: int = BUDGET) -> tuple[Tensor, float]:
    """Return the fraction of the most informative queries that the mechanism chose, and that of a random choice, u / L.

    The first has shape (H,) and is the mean over the sequences. Queries are ranked by M(q) = max_j q·k_j − mean_j q·k_j
    over *all* keys that they may attend to. If heads × queries × keys exceed `budget`, only every k-th query of the
    first sequence is ranked. The number of most informative queries shrinks in proportion. Hidden queries do not count.
    """
    batch, heads, length, _ = call.query.shape
    products = heads * length * call.key.shape[2]
    sequences, step = max(1, min(batch, budget // products)), -(-products // budget)
    call = call.rows(slice(sequences))
    active = mechanism.active_queries(call.query, call.key, call.mask, call.query_mask)  # (B, H, L)
    ranked = torch.arange(0, length, step, device=active.device)
    visible = torch.ones_like(active[:, 0]) if call.query_mask is None else call.query_mask  # (B, L)
    chosen, total = active[:, 0].sum(dim=1).double(), visible.sum(dim=1)  # (B,)
    wanted = (chosen * visible[:, ranked].sum(dim=1) / total.clamp_min(1)).round().long().clamp_min(1)
    best = stable_topk(exact_measure(call, ranked, mechanism.causal), int(wanted.max()))
    counted = torch.arange(best.shape[2], device=best.device) < wanted[:, None]
    hits = active[:, :, ranked].gather(2, best) & counted[:, None]
    recall = hits.sum(dim=2) / wanted[:, None].double()  # (B, H)
    return recall[visible.any(1)].mean(0), float(chosen.sum() / total.sum().clamp_min(1))


def exact_measure(call: Captured, queries: Tensor, causal: bool) -> Tensor:
    """Return the measure M of the positions `queries` (n,) over all allowed keys, shape (B, H, n); −∞ without one."""
    dtype = at_least_float32(call.query)
    keys = call.key.to(dtype).transpose(-1, -2)  # (B, H, E, S)
    size = max(1, CHUNK // (keys.shape[0] * keys.shape[1] * keys.shape[3]))
    measures = []
    for chunk in queries.split(size):
        scores = call.query[:, :, chunk].to(dtype) @ keys  # (B, H, size, S)
        allowed = allowed_keys(call, chunk, causal)
        mean = scores.masked_fill(~allowed, 0).sum(dim=-1) / allowed.sum(dim=-1).clamp_min(1)
        measures.append(scores.masked_fill(~allowed, -torch.inf).amax(dim=-1) - mean)
    return torch.cat(measures, dim=2)
