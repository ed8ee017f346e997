"""Masks, causality, batch independence and repeatability."""

from collections.abc import Callable

import torch
from torch import Tensor

from forecast.check.candidate import HEAD_DIM, Candidate
from forecast.check.numbers import all_finite, gradients, joint_error, relative_error, worst


def masked_is_cut(candidate: Candidate) -> float:
    """Match the output of cutting the padding for a prefix mask, and return zeros for padded queries."""
    size = candidate.length
    errors = []
    for attention in candidate.each_form(dtype=torch.float64):
        inputs = candidate.tensors(size, batch=1, dtype=torch.float64)
        for length in (size, size // 2, 7, 1):
            mask = candidate.prefix([length], size)
            output = attention(*inputs, mask, mask)
            cut = attention(*(x[:, :, :length].contiguous() for x in inputs))
            errors.append(relative_error(output[:, :, :length], cut))
            errors.append(torch.inf if output[:, :, length:].any() else 0.0)
    return worst(errors)


def mask_per_query(candidate: Candidate) -> float | None:
    """Apply one mask row per query; equal rows act as a mask of the keys."""
    if not candidate.kind.accepts_pair_mask:
        return None
    length = 12
    errors = []
    for attention in candidate.each_form(dtype=torch.float64):
        query, key, value = inputs = candidate.tensors(length, dtype=torch.float64)
        pairs = candidate.pairs(length, length)
        errors.append(relative_error(attention(*inputs, pairs), candidate.oracle(attention, inputs, pairs)))
        weights = attention.attention_map(query, key, pairs)
        errors.append(float(weights.detach().masked_fill(pairs[:, None], 0).abs().max()))
        holes = candidate.holes(2, length)
        alike = holes[:, None].expand(-1, length, -1)
        errors.append(relative_error(attention(query, key, value, alike), attention(query, key, value, holes)))
    return worst(errors)


def empty_row(candidate: Candidate) -> float:
    """Return exact zeros for a query without a key to attend to; the error is inf if a gradient is not finite."""
    values = []
    for attention in candidate.each_form():
        inputs = candidate.tensors(12, batch=3)
        mask = candidate.prefix([12, 0, 12], 12)
        mask[2, :4] = False
        output = attention(*inputs, mask)
        rows = output.detach()
        values.append(float(rows[1].abs().max()))
        if attention.causal:  # the first queries of the third row have no key yet
            values.append(float(rows[2, :, :4].abs().max()))
        values.append(0.0 if all_finite(gradients(output, inputs, attention)) else torch.inf)
    return worst(values)


def empty_inputs(candidate: Candidate) -> float:
    """Return zeros without keys, and an empty tensor without batch rows or queries."""
    values = []
    for attention in candidate.each_form():
        lengths = [(5, 5), (0, 0), *([(5, 0), (0, 5)] if candidate.kind.cross and not attention.causal else [])]
        for length, key_length in lengths:
            batch = 0 if length == key_length > 0 else 2
            inputs = candidate.tensors(length, key_length, batch=batch)
            output = attention(*inputs)
            is_zero = output.shape == (*inputs[0].shape[:3], HEAD_DIM) and not output.any()
            values.append(0.0 if is_zero and all_finite(gradients(output, inputs, attention)) else torch.inf)
    return worst(values)


def masked_nan(candidate: Candidate) -> float:
    """Ignore NaN and infinity at masked positions in output and gradients, which are zero there."""
    mask = torch.tensor([[True] * 20 + [False] * 10, [True, False, True] * 10], device=candidate.device)
    hidden = ~mask[:, None, :, None]
    errors = []
    for attention in candidate.each_form(dtype=torch.float64):
        clean = candidate.tensors(30, dtype=torch.float64)
        bad = [
            x.detach().masked_fill(hidden, number).requires_grad_()
            for x, number in zip(clean, (torch.nan, torch.inf, torch.nan), strict=True)
        ]
        expected, output = attention(*clean, mask, mask), attention(*bad, mask, mask)
        errors.append(relative_error(output, expected))
        actual = gradients(output, bad)
        errors.append(joint_error(actual, gradients(expected, clean)))
        errors.append(max(float(gradient.masked_fill(~hidden, 0).abs().max()) for gradient in actual))
    return worst(errors)


def refusals(candidate: Candidate) -> float | None:
    """Refuse with a ValueError whatever is declared unsupported (the value counts missing refusals)."""
    kind = candidate.kind
    requests: list[Callable[[], object]] = []
    if kind.causal_ability == "no":
        requests.append(lambda: candidate.build(causal=True))
    if not kind.accepts_pair_mask:
        requests.append(lambda: candidate.build()(*candidate.tensors(12), candidate.pairs(12, 12)))
    if not kind.cross:
        requests.append(lambda: candidate.build()(*candidate.tensors(6, 12)))
    return float(sum(map(_is_accepted, requests))) if requests else None


def _is_accepted(request: Callable[[], object]) -> bool:
    try:
        request()
    except ValueError:
        return False
    return True


def causality(candidate: Candidate) -> float | None:
    """Be causal as declared: ignore all later inputs if strict, later values if "values only".

    For "values only" the check changes values alone.
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
        errors.append(relative_error(attention(*changed)[:, :, :step], before[:, :, :step]))
    return worst(errors)


def _with_another_future(tensor: Tensor, step: int) -> Tensor:
    # far larger values, so that a scale over all positions shows
    return torch.cat([tensor[:, :, :step], 30 - 7 * tensor[:, :, step:]], dim=2)


def batch_independence(candidate: Candidate) -> float:
    """Compute each batch row independently of the length and size of other rows."""
    size, row = candidate.length, slice(1, 2)
    errors = []
    for attention in candidate.each_form():
        inputs = [x.detach().clone() for x in candidate.tensors(size, batch=5)]
        mask = candidate.prefix([size, size // 2 + 3, size, 1, 0], size)
        alone = attention(*(x[row] for x in inputs), mask[row])
        errors.append(relative_error(attention(*inputs, mask)[row], alone))
        for x in inputs:
            x[0] *= 50
            x[2] = x[2].flip(1)
        errors.append(relative_error(attention(*inputs, mask)[row], alone))
    return worst(errors)


def repeatable_evaluation(candidate: Candidate) -> float:
    """Return bitwise equal outputs for equal inputs in evaluation mode."""
    return worst(_two_passes(candidate, causal, training=False) for causal in candidate.forms)


def repeatable_training(candidate: Candidate) -> float | None:
    """Return bitwise equal outputs in training mode as well, if declared deterministic."""
    if not candidate.kind.deterministic:
        return None
    return worst(_two_passes(candidate, causal, training=True) for causal in candidate.forms)


def _two_passes(candidate: Candidate, causal: bool, training: bool) -> float:
    attention = candidate.build(causal=causal).train(training)
    inputs = candidate.tensors(candidate.length)
    return relative_error(attention(*inputs), attention(*inputs))
