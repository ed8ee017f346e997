"""Slow float64 reference of the probe's measures, one row and one head at a time."""

import copy
import math
from typing import Any

import torch
from torch import Tensor

from forecast.attention.base import Attention
from forecast.attention.linformer import LinformerAttention
from tests.attention.reference import REFERENCES, over_rows, reference_output


def weights(mechanism: Attention, arguments: dict[str, Any], query: Tensor, key: Tensor) -> Tensor:
    """Return the map of a mechanism: its output for unit vectors as values."""
    query, key = query.detach().double(), key.detach().double()
    if isinstance(mechanism, LinformerAttention):  # the one in `reference` takes seconds
        of_keys, of_values = (weight.detach().double()[:, : key.shape[2]] for weight in mechanism.parameters())
        scores = query @ (of_keys @ key).transpose(-1, -2) / math.sqrt(query.shape[-1])
        return scores.exp() / scores.exp().sum(-1, keepdim=True) @ of_values
    units = torch.eye(key.shape[2], dtype=torch.float64).expand(*key.shape[:2], -1, -1)
    return reference_output(copy.deepcopy(mechanism), arguments, query, key, units, None)


def softmax(query: Tensor, key: Tensor, causal: bool) -> Tensor:
    units = torch.eye(key.shape[2], dtype=torch.float64).expand(*key.shape[:2], -1, -1)
    return REFERENCES["full"](query.detach().double(), key.detach().double(), units, None, causal)


def distances(output: Tensor, exact: Tensor) -> list[float]:
    result = []
    for head in range(output.shape[1]):
        pairs = list(zip(output[:, head].flatten().tolist(), exact[:, head].flatten().tolist(), strict=True))
        result.append(math.sqrt(sum((a - b) ** 2 for a, b in pairs) / sum(b**2 for _, b in pairs)))
    return result


def entropies(rows: Tensor, num_keys: list[int]) -> list[float]:
    """Return the mean over sequences and queries (B, H, n, S) of −Σ p ln p / ln(keys), of each head."""
    result = []
    for head in range(rows.shape[1]):
        values = []
        for sequence in rows[:, head].tolist():
            for row, keys in zip(sequence, num_keys, strict=True):
                sizes = [abs(weight) for weight in row if weight]
                if keys > 1:
                    values.append(-sum(p * math.log(p) for p in (s / sum(sizes) for s in sizes)) / math.log(keys))
        result.append(sum(values) / len(values))
    return result


def recalls(query: Tensor, key: Tensor, rows: Tensor, causal: bool, ranked: list[int], wanted: int) -> list[float]:
    """Return the fraction of the `wanted` best queries of `ranked` that were chosen: their row is not the mean."""
    query, key = query.detach().double(), key.detach().double()
    recall: Tensor = torch.zeros(query.shape[:2], dtype=torch.float64)
    for b in range(query.shape[0]):
        for h in range(query.shape[1]):

            def measure(i: int, b: int = b, h: int = h) -> float:
                products = [(query[b, h, i] @ k).item() for k in key[b, h, : i + 1 if causal else None]]
                return max(products) - sum(products) / len(products)

            best = sorted(ranked, key=measure, reverse=True)[:wanted]
            recall[b, h] = sum(not _is_mean(rows[b, h, i], i, causal) for i in best) / wanted
    return [float(share) for share in recall.mean(0)]


def _is_mean(row: Tensor, position: int, causal: bool) -> bool:
    seen = row[: position + 1] if causal else row
    return len(seen) > 1 and bool((seen - seen.mean()).abs().max() < 1e-12)


def mean_output(value: Tensor, like: Tensor, causal: bool) -> Tensor:
    """Return the mean of the allowed values for each query of `like`."""
    value = value.detach().double()
    return over_rows(lambda b, h, i: value[b, h, : i + 1 if causal else None].mean(0), like, value)
