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
    """Return the rows of the plain mean of the allowed values, broadcastable to `like` (B, H, n, S)."""
    num_keys = like.shape[-1]
    if not causal:
        return like.new_full((1, 1, 1, num_keys), 1 / num_keys)
    allowed = torch.arange(num_keys, device=queries.device) <= queries[:, None]
    return allowed.to(like.dtype)[None, None] / (queries[:, None] + 1)


def relative_distance(output: Tensor, exact: Tensor) -> Tensor:
    """Return ‖output − exact‖₂ / ‖exact‖₂ of each head, shape (H,), float64.

    Both norms are over all sequences, queries and features of (B, H, n, V). 0: the same; 1: as far as an output of
    zeros; NaN or infinite where `exact` is zero.
    """
    difference = (output.double() - exact.double()).square().sum((0, 2, 3)).sqrt()
    distance: Tensor = difference / exact.double().square().sum((0, 2, 3)).sqrt()
    return distance


WHOLE = 2**24
"""Most weights (sequences by heads by queries by keys) of a map that is computed whole for some of its rows."""

AGREEMENT = 0.01
"""Largest relative distance to the output at which implied weights count as those behind the output."""


def entropy(weights: Tensor, num_keys: Tensor) -> Tensor:
    """Return −Σ p ln p / ln(keys), the mean over sequences and queries, of each head: shape (H,), 0 to 1.

    p is |w| / Σ|w|: weights that may be negative, as Linformer's implied ones, count by their size. `weights`, shape
    (B, H, n, S), are zero where a key is not allowed; `num_keys`, shape (n,), counts the keys allowed for each query. A
    query with one allowed key has no choice and is left out; NaN where none is left.
    """
    sizes = weights.abs()
    shares = sizes / sizes.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(sizes.dtype).tiny)
    nats = -torch.special.xlogy(shares, shares).sum(dim=-1)[:, :, num_keys > 1]  # (B, H, n')
    widest = num_keys[num_keys > 1].to(nats.dtype).log()
    mean: Tensor = (nats / widest).double().mean((0, 2))
    return mean


def implied_rows(mechanism: Attention, call: Captured, queries: Tensor, exact: Tensor) -> Tensor | None:
    """Return the rows of the map behind the mechanism's output at the positions `queries`, shape (B, H, n, S).

    `call` has all queries, `queries` (n,) ascends, and `exact` is the softmax of the same rows. None where the map of
    these queries alone does not reproduce the output: one query's weights depend on the others'. A sparse mechanism is
    of that kind, but its rows are rebuilt from its choice. Also None where a mechanism accepts only as many queries as
    keys and the whole map is too large.
    """
    if (sparse := sparse_queries(mechanism)) is not None:
        chosen = chosen_queries(sparse, call)[:, :, queries, None]
        return torch.where(chosen, exact, mean_rows(exact, queries, mechanism.causal))
    if mechanism.causal:  # a square map, of as many positions as are needed
        length = int(queries[-1]) + 1
        rows = mechanism.attention_map(call.query[:, :, :length], call.key[:, :, :length])[:, :, queries]
    elif mechanism.cross:
        length = call.key.shape[2]
        rows = mechanism.attention_map(call.query[:, :, queries], call.key)
    else:
        length = call.key.shape[2]
        if call.query.shape[:3].numel() * length > WHOLE:
            return None
        rows = mechanism.attention_map(call.query, call.key)[:, :, queries]
    values = call.value[:, :, :length].to(rows.dtype)
    distance = relative_distance(rows @ values, call.output[:, :, queries])
    if not bool((distance <= AGREEMENT).all()):
        return None
    return torch.nn.functional.pad(rows, (0, call.key.shape[2] - length))


def chosen_queries(mechanism: SparseQueries, call: Captured) -> Tensor:
    """Return which queries get the softmax in evaluation mode, booleans (B, H, L)."""
    chosen = mechanism.choose_active_queries(call.query, call.key)
    return torch.zeros(call.query.shape[:3], dtype=torch.bool, device=chosen.device).scatter(2, chosen, True)


BUDGET = 2**26
"""Most query-key products for a layer's exact measure; above it every k-th query is ranked."""

CHUNK = 2**22
"""Products held at a time."""


def found_share(mechanism: SparseQueries, call: Captured, budget: int = BUDGET) -> tuple[Tensor, float]:
    """Return the share of the most informative queries that were chosen and that of a random choice, u / L.

    The first has shape (H,), 0 to 1, the mean over the sequences. The truth is the measure M(q) = max_j q·k_j − mean_j
    q·k_j over *all* keys that a query may attend to. Where heads × queries × keys exceed `budget`, only every k-th
    query of the first sequence is ranked, and the number looked for shrinks in proportion.
    """
    batch, heads, length, _ = call.query.shape
    products = heads * length * call.key.shape[2]
    sequences, step = max(1, min(batch, budget // products)), -(-products // budget)
    call = Captured(*(tensor[:sequences] for tensor in call))
    chosen = chosen_queries(mechanism, call)  # (B, H, L)
    count = int(chosen[0, 0].sum())
    ranked = torch.arange(0, length, step, device=chosen.device)
    best = stable_topk(exact_measure(call, ranked, mechanism.causal), max(1, round(count * len(ranked) / length)))
    found = chosen[:, :, ranked].gather(2, best).double().mean((0, 2))
    return found, count / length


def exact_measure(call: Captured, queries: Tensor, causal: bool) -> Tensor:
    """Return M of the positions `queries` (n,) over all keys that each may attend to, shape (B, H, n)."""
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
