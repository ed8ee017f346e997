"""How widely a query spreads its attention, from the explicit or implied weights."""

import torch
from torch import Tensor

from forecast.attention.base import Attention
from forecast.attention.probsparse import ProbSparseAttention
from forecast.training.probe.capture import Captured
from forecast.training.probe.distance import mean_rows, relative_distance

WHOLE = 2**24
"""Weights, sequences by heads by queries by keys, up to which a map is made whole to look at some of its rows."""

AGREEMENT = 0.01
"""Relative distance to the output up to which implied weights count as those that the output was made with."""


def entropy(weights: Tensor, num_keys: Tensor) -> Tensor:
    """Give −Σ p ln p / ln(keys), the mean over sequences and queries, of each head: shape (H,), 0 to 1.

    p is |w| / Σ|w|: weights that may be negative, as Linformer's implied ones, count by their size. A query
    that may attend to one key only has no choice and is left out; NaN where none is left.

    Parameters
    ----------
    weights
        Shape (B, H, n, S), zero where a key is not allowed.
    num_keys
        How many keys each query may attend to, shape (n,).
    """
    sizes = weights.abs()
    shares = sizes / sizes.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(sizes.dtype).tiny)
    nats = -torch.special.xlogy(shares, shares).sum(dim=-1)[:, :, num_keys > 1]  # (B, H, n')
    widest = num_keys[num_keys > 1].to(nats.dtype).log()
    mean: Tensor = (nats / widest).double().mean((0, 2))
    return mean


def implied_rows(mechanism: Attention, call: Captured, queries: Tensor, exact: Tensor) -> Tensor | None:
    """Give the rows of the map that the mechanism's output was made with, shape (B, H, n, S).

    None where the map of these queries alone does not give the output: a mechanism in which one query's
    weights hang on the others'. ProbSparse, which is of that kind, has its rows rebuilt from its choice. None, too,
    where a mechanism takes as many queries as keys alone and the whole map is too large.

    Parameters
    ----------
    call
        All queries of the sequences.
    queries
        Positions (n,), in ascending order.
    exact
        The softmax of the same rows.
    """
    if isinstance(mechanism, ProbSparseAttention):
        chosen = chosen_queries(mechanism, call)[:, :, queries, None]
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


def chosen_queries(mechanism: ProbSparseAttention, call: Captured) -> Tensor:
    """Give which queries get the softmax, booleans (B, H, L), as in evaluation mode."""
    chosen = mechanism.choose(call.query, call.key, None, None)
    return torch.zeros(call.query.shape[:3], dtype=torch.bool, device=chosen.device).scatter(2, chosen, True)
