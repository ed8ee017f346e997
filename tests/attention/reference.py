"""Slow references of all mechanisms: one query at a time, from the formula."""

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from forecast.attention.base import Attention
from forecast.check.candidate import Candidate

GOLDEN = (math.sqrt(5) - 1) / 2
SILVER = math.sqrt(2) - 1


def full(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    scores = keys @ query / math.sqrt(len(query))
    weights = (scores - scores.max()).exp()
    return weights @ values / weights.sum()


def mean(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return values.sum(dim=0) / len(values)


def linear(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    weights = (torch.nn.functional.elu(keys) + 1) @ (torch.nn.functional.elu(query) + 1)
    return weights @ values / weights.sum()


def efficient(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    exponentials = (query - query.max()).exp()
    features = exponentials / exponentials.sum()
    output = torch.zeros_like(values[0])
    for number, feature in enumerate(features):
        weights = (keys[:, number] - keys[:, number].max()).exp()
        output = output + feature * (weights @ values) / weights.sum()
    return output


def taylor(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    weights = torch.stack([1 + query @ key / (query @ query * (key @ key)).sqrt() for key in keys])
    if weights.sum() < 1e-4 * len(keys):
        return mean(query, keys, values)
    return weights @ values / weights.sum()


def over_rows(row: Callable[[int, int, int], Tensor | None], like: Tensor, value: Tensor) -> Tensor:
    """Stack `row` of each batch row, head and query; None becomes zeros."""
    rows = [row(b, h, i) for b, h, i in itertools.product(*map(range, like.shape[:3]))]
    zeros = value.new_zeros(value.shape[-1])
    return torch.stack([zeros if x is None else x for x in rows]).reshape(*like.shape[:3], -1)


def one_by_one(formula: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Extend a formula for one query and its allowed keys and values to whole tensors."""

    def attend(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        **arguments: Any,
    ) -> Tensor:
        def row(b: int, h: int, i: int) -> Tensor | None:
            allowed = allowed_keys(mask, b, i, key.shape[2], causal)
            return formula(query[b, h, i], key[b, h, allowed], value[b, h, allowed]) if allowed else None

        return over_rows(row, query, value)

    return attend


def allowed_keys(mask: Tensor | None, batch: int, query: int, num_keys: int, causal: bool) -> list[int]:
    row = None if mask is None else (mask[batch] if mask.ndim == 2 else mask[batch, query])
    return [j for j in range(num_keys) if (row is None or row[j]) and not (causal and j > query)]


def probsparse(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    *,
    factor: int,
    sampling: str,
    measure: str,
) -> Tensor:
    """ProbSparse in evaluation mode."""
    length = query.shape[2]

    @functools.cache
    def chosen(b: int, h: int) -> list[int]:
        keys = allowed_keys(mask, b, 0, key.shape[2], False)
        ranked = []
        for i in range(length):
            sampled = [keys[n] for n in sample(i if sampling == "per_query" else 0, len(keys), factor)]
            seen = [j for j in sampled if not (causal and j > i)]
            products = [(query[b, h, i] @ key[b, h, j]).item() for j in seen]
            divisor = len(keys) if measure == "published" else len(products)
            ranked.append((-(max(products) - sum(products) / divisor) if products else math.inf, i))
        return [i for _, i in sorted(ranked)[: log_count(factor, length)]]

    def row(b: int, h: int, i: int) -> Tensor | None:
        allowed = allowed_keys(mask, b, i, key.shape[2], causal)
        if not allowed:
            return None
        return (full if i in chosen(b, h) else mean)(query[b, h, i], key[b, h, allowed], value[b, h, allowed])

    return over_rows(row, query, value)


def linformer(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    *,
    rank: int,
    key_projection: Tensor,
    value_projection: Tensor,
) -> Tensor:
    assert not causal
    rows = min(rank, key_projection.shape[1])

    def project(projection: Tensor, positions: list[int], vectors: Tensor) -> Tensor:
        weights = projection[:rows, positions].double().tolist()
        taken = [vectors[j] for j in positions]
        mixed = [sum(weight * vector for weight, vector in zip(line, taken, strict=True)) for line in weights]
        return torch.stack([row for row in mixed if isinstance(row, Tensor)])

    @functools.cache
    def projected(b: int, h: int) -> tuple[Tensor, Tensor] | None:
        allowed = allowed_keys(mask, b, 0, key.shape[2], causal)  # the same for every query
        if not allowed:
            return None
        return project(key_projection, allowed, key[b, h]), project(value_projection, allowed, value[b, h])

    def row(b: int, h: int, i: int) -> Tensor | None:
        pair = projected(b, h)
        return None if pair is None else full(query[b, h, i], *pair)

    return over_rows(row, query, value)


def sample(query: int, num_keys: int, factor: int) -> list[int]:
    count = log_count(factor, num_keys)
    if count == num_keys:
        return list(range(num_keys))
    return [int((query * SILVER + (j + 1) * GOLDEN) % 1 * num_keys) for j in range(count)]


def log_count(factor: int, count: int) -> int:
    return min(max(factor * math.ceil(math.log(count)), 1), count)


REFERENCES: dict[str, Callable[..., Tensor]] = {
    "full": one_by_one(full),
    "mean": one_by_one(mean),
    "linear": one_by_one(linear),
    "efficient": one_by_one(efficient),
    "taylor": one_by_one(taylor),
    "linformer": linformer,
    "probsparse": probsparse,
}
"""The mechanisms of this project. Those that a user adds have their formula, or else their map, as the reference."""


def reference_output(
    mechanism: Attention, arguments: dict[str, Any], query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> Tensor:
    """Return the expected output of any mechanism, for float64 inputs; each query has a key."""
    if mechanism.name not in REFERENCES:
        return Candidate(arguments).oracle(mechanism.double(), (query, key, value), mask)
    known = {name: value for name, value in arguments.items() if name not in ("name", "implementation")}
    known |= {name: parameter.detach() for name, parameter in mechanism.named_parameters()}
    return REFERENCES[mechanism.name](query, key, value, mask, mechanism.causal, **known)
