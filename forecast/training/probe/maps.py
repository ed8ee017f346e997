"""Attention maps of the probe."""

from dataclasses import dataclass
from math import isqrt

import numpy as np
import torch
from torch import Tensor

from forecast.attention.base import Attention, sparse_queries
from forecast.data.windows import Batch, evenly_spaced
from forecast.model.informer import Informer
from forecast.training.probe.capture import Captured, capture_calls, places
from forecast.training.probe.measures import implied_rows, mean_rows, softmax_rows

MAX_PIXELS, MAX_HEADS = 112, 4
"""Maximum rows and columns of a map (the pixels of a quarter picture), and maximum number of heads drawn."""

BUDGET, CAUSAL_BUDGET = 2**24, 2**22
"""Maximum number of weights computed for a map, heads * queries * keys; the second for a causal mechanism."""


@dataclass(frozen=True)
class AttentionMap:
    """Weights of the selected `heads`, H' of `num_heads`.

    `weights` has shape (H', n, m). A row is one of `queries_per_row` queries, a column the mean of `keys_per_column`
    keys. `chosen`, shape (H', n), marks the rows that a sparse mechanism computes in full; None for others. The map
    covers the first `queries` of `num_queries` tokens and the first `keys` of `num_keys`.
    """

    mechanism: str
    heads: list[int]
    num_heads: int
    weights: np.ndarray
    chosen: np.ndarray | None
    queries: int
    keys: int
    num_queries: int
    num_keys: int
    queries_per_row: int
    keys_per_column: int


def shown_places(network: Informer) -> list[str]:
    """Return the first and last self-attention of the encoder, and both attentions of the last decoder layer."""
    encoder = [place for place in places(network) if place.startswith("encoder")]
    decoder = [place for place in places(network) if place.startswith("decoder")]
    return list(dict.fromkeys([*encoder[:1], *encoder[-1:], *decoder[-2:]]))


def attention_maps(network: Informer, batch: Batch) -> dict[str, AttentionMap]:
    """Return the explicit or implied maps of the first sequence of the batch at `shown_places`.

    The map of a sparse mechanism has the softmax for the chosen queries and the mean for the others. A place is omitted
    if its map for some queries depends on other queries.
    """
    maps: dict[str, AttentionMap] = {}
    shown = shown_places(network)

    def on_call(place: str, mechanism: Attention, call: Captured) -> None:
        if place in shown and (result := attention_map(mechanism, call)) is not None:
            maps[place] = result

    capture_calls(network, batch, on_call)
    return maps


@torch.no_grad()
def attention_map(mechanism: Attention, call: Captured) -> AttentionMap | None:
    """Return the map of the first sequence of a call; None if it cannot be derived."""
    call = call.rows(slice(1))
    _, num_heads, num_queries, _ = call.query.shape
    queries, keys = num_queries, call.key.shape[2]
    if mechanism.causal:
        queries = keys = min(keys, max(1, isqrt(CAUSAL_BUDGET // num_heads)))
    max_rows = min(MAX_PIXELS, max(1, BUDGET // (num_heads * keys)))
    per_row, per_column = -(-queries // max_rows), -(-keys // MAX_PIXELS)
    rows, chosen = _rows(mechanism, call, queries, per_row)
    if rows is None:
        return None
    heads = evenly_spaced(num_heads, MAX_HEADS)
    weights = rows[0, heads, :, :keys].double()  # (H', n, S)
    return AttentionMap(
        mechanism=mechanism.name,
        heads=heads.tolist(),
        num_heads=num_heads,
        weights=torch.stack([chunk.mean(2) for chunk in weights.split(per_column, dim=2)], 2).cpu().numpy(),
        chosen=None if chosen is None else chosen[0, heads].cpu().numpy(),
        queries=queries,
        keys=keys,
        num_queries=num_queries,
        num_keys=call.key.shape[2],
        queries_per_row=per_row,
        keys_per_column=per_column,
    )


def _rows(mechanism: Attention, call: Captured, queries: int, step: int) -> tuple[Tensor | None, Tensor | None]:
    """Return the rows of every `step`-th query, shape (1, H, n, S), and the chosen ones of a sparse mechanism."""
    device = call.query.device
    middles = (torch.arange(0, queries, step, device=device) + step // 2).clamp(max=queries - 1)
    if (sparse := sparse_queries(mechanism)) is None:
        return implied_rows(mechanism, call, middles, softmax_rows(call, middles, mechanism.causal)), None
    chosen = sparse.active_queries(call.query, call.key, call.mask, call.query_mask)[:, :, :queries]  # (1, H, L)
    rows, marks = [], []
    for head in range(chosen.shape[1]):  # the first chosen query of each chunk, else the middle one
        one = call.head(head)
        marked = torch.nn.functional.pad(chosen[0, head], (0, -queries % step)).view(-1, step)
        positions = torch.where(marked.any(1), middles - middles % step + marked.int().argmax(1), middles)
        exact = softmax_rows(one, positions, mechanism.causal)
        mean = mean_rows(one, positions, mechanism.causal)
        rows.append(torch.where(marked.any(1)[:, None], exact, mean))
        marks.append(marked.any(1))
    return torch.cat(rows, 1), torch.stack(marks)[None]


def token_names(network: Informer, place: str) -> tuple[str, str]:
    """Return the names of a query and of a key at `place`: "step", "patch", "2 steps" after distilling."""
    part, number, kind = place.split(".")
    past, future = network.tokens.names
    distilled = len(network.encoder.distilling)
    halvings = min(int(number), distilled) if part == "encoder" else distilled
    key = f"{2**halvings} {past}s" if halvings else past
    if part == "encoder":
        return key, key
    return future, key if kind == "cross" else future
