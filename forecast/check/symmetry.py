"""Symmetries: of the heads, those that a class declares, and which keys have a weight."""

from collections.abc import Callable

import torch
from torch import Tensor

from forecast.attention.base import Attention, Invariance
from forecast.check.candidate import HEAD_DIM, Candidate
from forecast.check.numbers import gradients, relative_error, worst

HEADS = 3
FAR = 2_400  # positions between a query and a key that a local mechanism does not weigh


def permuted_heads(candidate: Candidate) -> float | None:
    """Permute the output when the heads of the inputs are permuted, if all heads compute the same function."""
    if not candidate.kind.heads_alike:
        return None
    order = [2, 0, 1]
    return worst(
        relative_error(attention(*(x[:, order] for x in inputs)), attention(*inputs)[:, order])
        for attention, inputs in _of_three_heads(candidate)
    )


def changed_head(candidate: Candidate) -> float:
    """Leave the other heads as they are when all inputs of one head change."""
    errors = []
    for attention, inputs in _of_three_heads(candidate):
        before = attention(*inputs)
        for head in range(HEADS):
            others = [other for other in range(HEADS) if other != head]
            changed = [x.clone() for x in inputs]
            for x in changed:
                x[:, head] = 30 - 7 * x[:, head]
            errors.append(relative_error(attention(*changed)[:, others], before[:, others]))
    return worst(errors)


def _of_three_heads(candidate: Candidate) -> list[tuple[Attention, list[Tensor]]]:
    """Return each form of the mechanism with inputs, in float64."""
    drawn = candidate.tensors(candidate.length, num_heads=HEADS, dtype=torch.float64)
    inputs = [x.detach() for x in drawn]
    return [(attention, inputs) for attention in candidate.each_form(num_heads=HEADS, dtype=torch.float64)]


def order_of_keys(candidate: Candidate) -> float | None:
    """Return the same output for another order of keys and values, if declared; not causal."""
    if "order of keys" not in candidate.kind.invariances:
        return None
    attention = candidate.build(dtype=torch.float64)
    query, key, value = (x.detach() for x in candidate.tensors(candidate.length, dtype=torch.float64))
    order = torch.randperm(candidate.length, generator=torch.Generator().manual_seed(5)).to(candidate.device)
    mask = candidate.holes(2, candidate.length)
    errors = [relative_error(attention(query, key[:, :, order], value[:, :, order]), attention(query, key, value))]
    moved = attention(query, key[:, :, order], value[:, :, order], mask[:, order])
    return worst([*errors, relative_error(moved, attention(query, key, value, mask))])


def shift_of_keys(candidate: Candidate) -> float | None:
    """Return the same output when one vector is added to all keys, if declared."""
    shift = _uniform(candidate, (1, 1, 1, HEAD_DIM))
    return _unchanged(candidate, "shift of keys", lambda query, key: (query, key + shift))


def scale_of_keys(candidate: Candidate) -> float | None:
    """Return the same output when each key is multiplied by its own positive number, if declared."""
    scale = _uniform(candidate, (2, 1, candidate.length, 1))
    return _unchanged(candidate, "scale of keys", lambda query, key: (query, key * scale))


def scale_of_queries(candidate: Candidate) -> float | None:
    """Return the same output when each query is multiplied by its own positive number, if declared."""
    scale = _uniform(candidate, (2, 1, candidate.length, 1))
    return _unchanged(candidate, "scale of queries", lambda query, key: (query * scale, key))


def _uniform(candidate: Candidate, shape: tuple[int, ...]) -> Tensor:
    """Return fixed random numbers between 0.5 and 2."""
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    return (0.5 + 1.5 * drawn).to(candidate.device)


def _unchanged(
    candidate: Candidate, invariance: Invariance, change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
) -> float | None:
    """Return the error of every form after a change of query and key; None if the invariance is not declared."""
    if invariance not in candidate.kind.invariances:
        return None
    errors = []
    for attention in candidate.each_form(dtype=torch.float64):
        query, key, value = (x.detach() for x in candidate.tensors(candidate.length, dtype=torch.float64))
        errors.append(relative_error(attention(*change(query, key), value), attention(query, key, value)))
    return worst(errors)


def reach(candidate: Candidate) -> float | None:
    """Weigh every allowed key, or none 2,400 positions away if declared local (the value counts wrong keys)."""
    if candidate.kind.local:
        return float(sum(_far_weights(candidate, causal) for causal in candidate.forms))
    if candidate.weights_may_vanish:
        return None
    return float(sum(_keys_without_weight(candidate, causal) for causal in candidate.forms))


def _keys_without_weight(candidate: Candidate, causal: bool) -> int:
    """Return how many keys have no influence on the last query, of any head."""
    attention = candidate.build(causal=causal, dtype=torch.float64)
    inputs = candidate.tensors(candidate.length, dtype=torch.float64)
    (gradient,) = gradients(attention(*inputs)[:, :, -1:], inputs[2:])
    return int((gradient == 0).all(dim=-1).sum())


def _far_weights(candidate: Candidate, causal: bool) -> int:
    """Return 1 if the first value changes the last output, else 0."""
    query, key, value = (x.detach() for x in candidate.tensors(FAR, batch=1, num_heads=1))
    attention = candidate.build(causal=causal, num_heads=1, key_length=FAR)
    before = attention(query, key, value)[:, :, -1]
    value[:, :, 0] += 1e3
    return int((attention(query, key, value)[:, :, -1] != before).any())
