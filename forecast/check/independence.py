"""An output depends on its own row and, if causal, on its own past, and not on chance."""

import torch
from torch import Tensor

from forecast.check.candidate import Candidate
from forecast.check.numbers import distance, worst


def future(candidate: Candidate) -> float | None:
    """Be causal as declared: strict, nothing later counts; values only, no later value is mixed in.

    For "values only" queries and keys are held, so that the choice among them is frozen.
    """
    ability = candidate.kind.causal_ability
    if ability == "no":
        return None
    attention = candidate.build(causal=True)
    inputs = [x.detach() for x in candidate.tensors(candidate.length)]
    before = attention(*inputs)
    errors = []
    for step in (1, candidate.length // 2, candidate.length - 1):
        other = [_with_another_future(x, step) for x in inputs]
        changed = other if ability == "strict" else [*inputs[:2], other[2]]
        errors.append(distance(attention(*changed)[:, :, :step], before[:, :, :step]))
    return worst(errors)


def _with_another_future(tensor: Tensor, step: int) -> Tensor:
    # far larger: a scale taken over all positions would show
    return torch.cat([tensor[:, :, :step], 30 - 7 * tensor[:, :, step:]], dim=2)


def rest_of_batch(candidate: Candidate) -> float:
    """Let no other row of the batch, however long or large, change a row."""
    size, row = candidate.length, slice(1, 2)
    errors = []
    for causal in candidate.forms:
        attention = candidate.build(causal=causal)
        inputs = [x.detach().clone() for x in candidate.tensors(size, batch=5)]
        mask = candidate.prefix([size, size // 2 + 3, size, 1, 0], size)
        alone = attention(*(x[row] for x in inputs), mask[row])
        errors.append(distance(attention(*inputs, mask)[row], alone))
        for x in inputs:
            x[0] *= 50
            x[2] = x[2].flip(1)
        errors.append(distance(attention(*inputs, mask)[row], alone))
    return worst(errors)


def evaluation_repeats(candidate: Candidate) -> float:
    """Give the same output for the same input in evaluation mode, bit for bit."""
    return worst(_two_passes(candidate, causal, training=False) for causal in candidate.forms)


def training_repeats(candidate: Candidate) -> float | None:
    """Give the same output twice in training mode too, where declared deterministic."""
    if not candidate.kind.deterministic:
        return None
    return worst(_two_passes(candidate, causal, training=True) for causal in candidate.forms)


def _two_passes(candidate: Candidate, causal: bool, training: bool) -> float:
    attention = candidate.build(causal=causal).train(training)
    inputs = candidate.tensors(candidate.length)
    return distance(attention(*inputs), attention(*inputs))
