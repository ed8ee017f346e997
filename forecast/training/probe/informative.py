"""How many of the queries that stand out ProbSparse's sample of keys has found."""

import torch
from torch import Tensor

from forecast.attention._sampling import highest
from forecast.attention.base import at_least_float32
from forecast.attention.probsparse import ProbSparseAttention
from forecast.training.probe.capture import Captured
from forecast.training.probe.entropy import chosen_queries

BUDGET = 2**26
"""Products of a query and a key that a layer's exact measure may take; of a longer one every k-th query is ranked."""

PIECE = 2**22
"""Products held at a time."""


def found_share(mechanism: ProbSparseAttention, call: Captured, budget: int = BUDGET) -> tuple[Tensor, float]:
    """Give the share of the truly most informative queries that were chosen, of each head, and that of a blind choice.

    The truth is the measure M(q) = max_j q·k_j − mean_j q·k_j over *all* keys that a query may attend. Where
    heads × queries × keys are beyond the budget only the first sequence's every k-th query is ranked, and
    the best of those looked for are as many as their part of the number chosen.

    Returns
    -------
    tuple
        Shape (H,), 0 to 1, the mean over the sequences; and u / L, what a choice at random finds.
    """
    batch, heads, length, _ = call.query.shape
    products = heads * length * call.key.shape[2]
    sequences, step = max(1, min(batch, budget // products)), -(-products // budget)
    call = Captured(*(tensor[:sequences] for tensor in call))
    chosen = chosen_queries(mechanism, call)  # (B, H, L)
    count = int(chosen[0, 0].sum())
    ranked = torch.arange(0, length, step, device=chosen.device)
    best = highest(exact_measure(call, ranked, mechanism.causal), max(1, round(count * len(ranked) / length)))
    found = chosen[:, :, ranked].gather(2, best).double().mean((0, 2))
    return found, count / length


def exact_measure(call: Captured, queries: Tensor, causal: bool) -> Tensor:
    """Give M of the positions `queries` (n,) over all keys that each may attend, shape (B, H, n)."""
    dtype = at_least_float32(call.query)
    keys = call.key.to(dtype).transpose(-1, -2)  # (B, H, E, S)
    steps = torch.arange(keys.shape[3], device=queries.device)
    size = max(1, PIECE // (keys.shape[0] * keys.shape[1] * keys.shape[3]))
    measures = []
    for piece in queries.split(size):
        scores = call.query[:, :, piece].to(dtype) @ keys  # (B, H, size, S)
        if causal:
            allowed = steps <= piece[:, None]
            mean = scores.masked_fill(~allowed, 0).sum(dim=-1) / (piece + 1)
            measures.append(scores.masked_fill(~allowed, -torch.inf).amax(dim=-1) - mean)
        else:
            measures.append(scores.amax(dim=-1) - scores.mean(dim=-1))
    return torch.cat(measures, dim=2)
