"""Exactness: against the formula, or else the map, in float64; at extreme values; at lower precision."""

from collections.abc import Iterator
from contextlib import nullcontext

import torch
from torch import Tensor

from forecast.attention.base import Attention
from forecast.check.candidate import HEAD_DIM, NUM_HEADS, Candidate
from forecast.check.numbers import all_finite, exact_copy, exact_inputs, gradients, joint_error, relative_error, worst

ODD_LENGTHS = (3, 7, 65, 97, 127)  # 65, 97, 127: incomplete blocks of 64, 32 or 16
ODD_WIDTH = 5
CROSS_LENGTHS = ((1, 6), (6, 1), (48, 14), (14, 48))


def formula_error(candidate: Candidate) -> float:
    """Match the formula of its file in float64, not causal and without a mask."""
    return worst(_formula_error(candidate, lengths) for lengths in _pairs_of_lengths(candidate))


def masked_formula_error(candidate: Candidate) -> float:
    """Match the formula in float64 with masks of keys, and of pairs if declared."""
    return worst(
        _formula_error(candidate, lengths, mask=mask)
        for lengths in _pairs_of_lengths(candidate)
        for mask in _masks(candidate, *lengths)
    )


def causal_formula_error(candidate: Candidate) -> float | None:
    """Match the formula in float64 in the causal form, without and with masks."""
    if True not in candidate.forms:
        return None
    lengths = [(length, length) for length in (*ODD_LENGTHS, candidate.length)]
    errors = [_formula_error(candidate, each, causal=True) for each in lengths]
    masks = _masks(candidate, *lengths[-1])
    return worst([*errors, *(_formula_error(candidate, lengths[-1], causal=True, mask=mask) for mask in masks)])


def formula_gradient_error(candidate: Candidate) -> float:
    """Match the gradients of the formula in float64, parameters included, in every form and with masks."""
    lengths = (ODD_LENGTHS[-1],) * 2
    return worst(
        _formula_error(candidate, lengths, causal=causal, mask=mask, backward=True)
        for causal in candidate.forms
        for mask in (None, *_masks(candidate, *lengths))
    )


def map_error(candidate: Candidate) -> float:
    """Match its own map times the values in float64; the probe reads the map."""
    errors = []
    for attention in candidate.each_form(dtype=torch.float64):
        query, key, value = inputs = candidate.tensors(candidate.length, dtype=torch.float64)
        for mask in (None, candidate.holes(2, candidate.length)):
            expected = attention.attention_map(query, key, mask) @ value
            errors.append(relative_error(attention(*inputs, mask), expected))
    return worst(errors)


def _pairs_of_lengths(candidate: Candidate) -> list[tuple[int, int]]:
    square = [(4, 4), (candidate.length, candidate.length)]
    return [*square, *CROSS_LENGTHS] if candidate.kind.cross else square


def _masks(candidate: Candidate, length: int, num_keys: int) -> list[Tensor]:
    masks = [candidate.holes(2, num_keys), candidate.prefix([num_keys, (num_keys + 1) // 2], num_keys)]
    return [*masks, candidate.pairs(length, num_keys)] if candidate.kind.accepts_pair_mask else masks


def _formula_error(
    candidate: Candidate,
    lengths: tuple[int, int],
    *,
    causal: bool = False,
    mask: Tensor | None = None,
    backward: bool = False,
) -> float:
    """Return the error of the output, or of the gradients, against the formula in float64."""
    attention = candidate.build(causal=causal, dtype=torch.float64)
    inputs = candidate.tensors(*lengths, value_width=ODD_WIDTH, dtype=torch.float64)
    output, expected = attention(*inputs, mask), candidate.oracle(attention, inputs, mask)
    if not backward:
        return relative_error(output, expected)
    return joint_error(gradients(output, inputs, attention), gradients(expected, inputs, attention))


def output_error(candidate: Candidate) -> float:
    """Match the output of the float64 oracle in float32, with and without a mask."""
    return worst(error for error, _ in _errors(candidate))


def gradient_error(candidate: Candidate) -> float:
    """Match the gradients of the float64 oracle in float32, including those of parameters."""
    return worst(error for _, error in _errors(candidate))


def _errors(candidate: Candidate) -> Iterator[tuple[float, float]]:
    """Yield the errors of output and gradients of each form, without and with a mask."""
    for attention in candidate.each_form():
        exact = exact_copy(attention)
        inputs = candidate.tensors(candidate.length)
        for mask in (None, candidate.holes(2, candidate.length)):
            output = attention(*inputs, mask)
            same = exact_inputs(inputs)
            expected = candidate.oracle(exact, same, mask)
            gradient = joint_error(gradients(output, inputs, attention), gradients(expected, same, exact))
            yield relative_error(output, expected), gradient


def single_elements(candidate: Candidate) -> float:
    """Keep the axes of a single batch row, head and position."""
    errors = []
    for attention in candidate.each_form(num_heads=1, dtype=torch.float64):
        for length in (1, 4):
            inputs = candidate.tensors(length, batch=1, num_heads=1, dtype=torch.float64)
            errors.append(_error(candidate, attention, inputs))
    return worst(errors)


def odd_sizes(candidate: Candidate) -> float:
    """Accept lengths that no block divides, and values of another width than the keys."""
    errors = []
    for attention in candidate.each_form(dtype=torch.float64):
        for length in ODD_LENGTHS:
            inputs = candidate.tensors(length, value_width=ODD_WIDTH, dtype=torch.float64)
            errors.append(_error(candidate, attention, inputs))
    return worst(errors)


def non_contiguous(candidate: Candidate) -> float:
    """Accept non-contiguous inputs."""
    errors = []
    for attention in candidate.each_form(dtype=torch.float64):
        inputs = [x.detach() for x in candidate.tensors(40, dtype=torch.float64)]
        query, key = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs[:2])
        value = torch.stack([inputs[2], -inputs[2]], dim=-1)[..., 0]
        errors.append(relative_error(attention(query, key, value), attention(*inputs)))
    return worst(errors)


def cross_lengths(candidate: Candidate) -> float | None:
    """Accept queries and keys of different lengths; a prefix mask equals cutting the keys."""
    if not candidate.kind.cross:
        return None
    attention = candidate.build(dtype=torch.float64)
    errors = []
    for length, key_length in CROSS_LENGTHS:
        query, key, value = inputs = candidate.tensors(length, key_length, dtype=torch.float64)
        errors.append(_error(candidate, attention, inputs))
        half = (key_length + 1) // 2
        masked = attention(query, key, value, candidate.prefix([half, half], key_length))
        cut = attention(query, key[:, :, :half].contiguous(), value[:, :, :half].contiguous())
        errors.append(relative_error(masked, cut))
    return worst(errors)


def _error(candidate: Candidate, attention: Attention, inputs: tuple[Tensor, ...]) -> float:
    return relative_error(attention(*inputs), candidate.oracle(attention, inputs))


LENGTH = 90
SUMS_TO_ONE = 1e-3  # rows that sum to 1 within this error are weighted means


def far_keys(candidate: Candidate) -> float:
    """Stay accurate with keys of -140, of 100, and of -140, 0 and 100 together, in float32."""
    mixed = torch.tensor([-140.0, 0.0, 100.0]).repeat(LENGTH // 3)[:, None]
    cases = [(1.0, torch.tensor(-140.0)), (-100.0, torch.tensor(100.0)), (0.25, mixed)]
    return worst(_extreme_error(candidate, _filled(query), _filled(key), torch.float32) for query, key in cases)


def small_features(candidate: Candidate) -> float | None:
    """Stay a weighted mean with queries and keys of -20, whose features are near 0, in float32."""
    if candidate.weights_may_vanish:
        return None
    return _extreme_error(candidate, _filled(-20.0), _filled(-20.0), torch.float32)


def opposite_keys(candidate: Candidate) -> float:
    """Stay accurate with keys opposite to the query, where weights 1 + q′·k′ sum to 0, in float32."""
    direction = torch.randn(HEAD_DIM, generator=torch.Generator().manual_seed(4))
    query = _filled(direction)
    return _extreme_error(candidate, query, -query, torch.float32)


def large_in_bfloat16(candidate: Candidate) -> float:
    """Stay accurate with queries and keys of 100 in bfloat16, where exponentials overflow."""
    return _extreme_error(candidate, _filled(100.0), _filled(100.0), torch.bfloat16)


def _filled(values: float | Tensor) -> Tensor:
    return torch.as_tensor(values).expand(2, NUM_HEADS, LENGTH, HEAD_DIM).clone()


def _extreme_error(candidate: Candidate, query: Tensor, key: Tensor, dtype: torch.dtype) -> float:
    """Return the error against the oracle; infinity if a gradient is not finite."""
    errors = []
    for attention in candidate.each_form():
        value = candidate.tensors(LENGTH)[2]
        inputs = [x.detach().to(candidate.device, dtype).requires_grad_() for x in (query, key, value)]
        half = dtype != torch.float32
        with torch.autocast(candidate.device.type, dtype=dtype) if half else nullcontext():
            output = attention(*inputs)
        exact, same = exact_copy(attention), exact_inputs(inputs)
        errors.append(relative_error(output, candidate.oracle(exact, same)))
        errors.append(0.0 if all_finite(gradients(output, inputs, attention)) else torch.inf)
        if candidate.weights_may_vanish:
            continue
        if _row_sums_error(exact, *candidate.tensors(LENGTH, dtype=torch.float64)[:2]) <= SUMS_TO_ONE:
            errors.append(_row_sums_error(exact, *same[:2]))  # it must remain a weighted mean
    return worst(errors)


def _row_sums_error(exact: Attention, query: Tensor, key: Tensor) -> float:
    sums = exact.attention_map(query, key).detach().sum(dim=-1)
    return float((sums - 1).abs().max())


LONG = 2_400  # with a mean of 30 the sum is 72,000, above 65,504, the largest float16


def error_in_bfloat16(candidate: Candidate) -> float:
    """Match the oracle of the rounded inputs in bfloat16."""
    return _half_error(candidate, torch.bfloat16)


def error_in_float16(candidate: Candidate) -> float:
    """Match the oracle of the rounded inputs in float16."""
    return _half_error(candidate, torch.float16)


def _half_error(candidate: Candidate, dtype: torch.dtype) -> float:
    size = candidate.length
    errors = []
    for attention in candidate.each_form():
        inputs = candidate.tensors(size, dtype=dtype)
        mask = candidate.prefix([size, size // 2], size)
        with torch.autocast(candidate.device.type, dtype=dtype):
            output = attention(*inputs, mask)
        expected = candidate.oracle(exact_copy(attention), exact_inputs(inputs), mask)
        errors.append(relative_error(output, expected))
    return worst(errors)


def long_sums(candidate: Candidate) -> float:
    """Sum over 2,400 positions in more than half precision, for bfloat16 and float16.

    With equal keys and alternating values 20 and 40, a float16 sum overflows and a bfloat16 sum stops growing. The
    oracle is the mechanism in float64, since the map would need too much memory.
    """
    errors = []
    for dtype in (torch.bfloat16, torch.float16):
        for attention in candidate.each_form(key_length=LONG):
            query = torch.ones(1, NUM_HEADS, LONG, attention.head_dim, dtype=dtype, device=candidate.device)
            value = torch.full_like(query, 20)
            value[:, :, ::2] = 40
            with torch.no_grad(), torch.autocast(candidate.device.type, dtype=dtype):
                output = attention(query, query, value)
            with torch.no_grad():
                expected = exact_copy(attention)(query.double(), query.double(), value.double())
            errors.append(relative_error(output, expected))
    return worst(errors)
