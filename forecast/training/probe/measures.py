"""Measures of attention weights: entropy, distance, informative queries."""

import torch
from torch import Tensor

from forecast.attention._sampling import stable_topk
from forecast.attention.base import Attention, SparseQueries, at_least_float32, sparse_queries
from forecast.attention.full import softmax_weights
from forecast.training.probe.capture import Captured


def softmax_rows(call: Captured, queries: Tensor, causal: bool) -> Tensor:
    """Return the rows σ(QKᵀ/√E) of the positions `queries` (n,), shape (B, H, n, S)."""
    allowed = torch.arange(call.key.shape[2], device=queries.device) <= queries[:, None] if causal else None
    return softmax_weights(call.query[:, :, queries], call.key, allowed)


def mean_rows(like: Tensor, queries: Tensor, causal: bool) -> Tensor:
    """Return uniform weights over the allowed keys, broadcastable to `like` (B, H, n, S)."""
    num_keys = like.shape[-1]
    if not causal:
        return like.new_full((1, 1, 1, num_keys), 1 / num_keys)
    allowed = torch.arange(num_keys, device=queries.device) <= queries[:, None]
    return allowed.to(like.dtype)[None, None] / (queries[:, None] + 1)


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
    that are not allowed; `num_keys`, shape (n,), counts the allowed keys of each query. Queries with one allowed key
    are excluded; NaN if no query remains.
    """
    sizes = weights.abs()
    p = sizes / sizes.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(sizes.dtype).tiny)
    nats = -torch.special.xlogy(p, p).sum(dim=-1)[:, :, num_keys > 1]  # (B, H, n')
    maximum = num_keys[num_keys > 1].to(nats.dtype).log()
    mean: Tensor = (nats / maximum).double().mean((0, 2))
    return mean


def implied_rows(mechanism: Attention, call: Captured, queries: Tensor, exact: Tensor) -> Tensor | None:
    """Return the weights of the mechanism's output at the positions `queries`, shape (B, H, n, S).

    `call` has all queries, `queries` (n,) is ascending, and `exact` is the softmax of the same rows. The rows of a
    sparse mechanism are rebuilt from its choice. Return None if the map of these queries does not reproduce the output,
    because the weights of a query depend on other queries. Also return None if a mechanism needs equal numbers of
    queries and keys and the complete map is too large.
    """
    if (sparse := sparse_queries(mechanism)) is not None:
        chosen = chosen_queries(sparse, call)[:, :, queries, None]
        return torch.where(chosen, exact, mean_rows(exact, queries, mechanism.causal))
    if mechanism.causal:  # a square map up to the last position
        length = int(queries[-1]) + 1
        rows = mechanism.attention_map(call.query[:, :, :length], call.key[:, :, :length])[:, :, queries]
    elif mechanism.cross:
        length = call.key.shape[2]
        rows = mechanism.attention_map(call.query[:, :, queries], call.key)
    else:
        length = call.key.shape[2]
        if call.query.shape[:3].numel() * length > MAX_WEIGHTS:
            return None
        rows = mechanism.attention_map(call.query, call.key)[:, :, queries]
    values = call.value[:, :, :length].to(rows.dtype)
    distance = relative_distance(rows @ values, call.output[:, :, queries])
    if not bool((distance <= AGREEMENT).all()):
        return None
    return torch.nn.functional.pad(rows, (0, call.key.shape[2] - length))


def chosen_queries(mechanism: SparseQueries, call: Captured) -> Tensor:
    """Return a mask of the queries that get the softmax in evaluation mode, shape (B, H, L)."""
    chosen = mechanism.choose_active_queries(call.query, call.key)
    return torch.zeros(call.query.shape[:3], dtype=torch.bool, device=chosen.device).scatter(2, chosen, True)


BUDGET = 2**26
"""Maximum number of query-key products for the exact measure of a layer; above it every k-th query is ranked."""

CHUNK = 2**22
"""Query-key products in memory at a time."""


def query_recall(mechanism: SparseQueries, call: Captured, budget: int = BUDGET) -> tuple[Tensor, float]:
    """Return the fraction of the most informative queries that the mechanism chose, and that of a random choice, u / L.

    The first has shape (H,) and is the mean over the sequences. Queries are ranked by M(q) = max_j q·k_j − mean_j q·k_j
    over *all* keys that they may attend to. If heads × queries × keys exceed `budget`, only every k-th query of the
    first sequence is ranked. The number of most informative queries shrinks in proportion.
    """
    batch, heads, length, _ = call.query.shape
    products = heads * length * call.key.shape[2]
    sequences, step = max(1, min(batch, budget // products)), -(-products // budget)
    call = Captured(*(tensor[:sequences] for tensor in call))
    chosen = chosen_queries(mechanism, call)  # (B, H, L)
    count = int(chosen[0, 0].sum())
    ranked = torch.arange(0, length, step, device=chosen.device)
    best = stable_topk(exact_measure(call, ranked, mechanism.causal), max(1, round(count * len(ranked) / length)))
    recall = chosen[:, :, ranked].gather(2, best).double().mean((0, 2))
    return recall, count / length


def exact_measure(call: Captured, queries: Tensor, causal: bool) -> Tensor:
    """Return the measure M of the positions `queries` (n,) over all allowed keys, shape (B, H, n)."""
    dtype = at_least_float32(call.query)
    keys = call.key.to(dtype).transpose(-1, -2)  # (B, H, E, S)
    steps = torch.arange(keys.shape[3], device=queries.device)
    size = max(1, CHUNK // (keys.shape[0] * keys.shape[1] * keys.shape[3]))
    measures = []
    for chunk in queries.split(size):
        scores = call.query[:, :, chunk].to(dtype) @ keys  # (B, H, size, S)
        if causal:
            allowed = steps <= chunk[:, None]
            mean = scores.masked_fill(~allowed, 0).sum(dim=-1) / (chunk + 1)
            measures.append(scores.masked_fill(~allowed, -torch.inf).amax(dim=-1) - mean)
        else:
            measures.append(scores.amax(dim=-1) - scores.mean(dim=-1))
    return torch.cat(measures, dim=2)
