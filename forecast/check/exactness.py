"""Exactness: against a float64 oracle, at extreme values, at lower precision."""

from collections.abc import Iterator
from contextlib import nullcontext

import torch
from torch import Tensor

from forecast.attention.base import Attention
from forecast.check.candidate import HEAD_DIM, NUM_HEADS, Candidate
from forecast.check.numbers import (
    all_finite,
    distance,
    distances,
    exact_copy,
    exact_inputs,
    gradients,
    map_times_values,
    worst,
)

ODD_LENGTHS = (3, 7, 65, 97, 127)  # 65, 97, 127: pieces of 64, 32 or 16 that end in the middle
ODD_WIDTH = 5
OBLONG = ((1, 6), (6, 1), (48, 14), (14, 48))


def output_error(candidate: Candidate) -> float:
    """Return the output of the oracle in float32, with and without holes in the mask."""
    return worst(error for error, _ in _errors(candidate))


def gradient_error(candidate: Candidate) -> float:
    """Return the gradients of the oracle in float32, those of parameters too."""
    return worst(error for _, error in _errors(candidate))


def _errors(candidate: Candidate) -> Iterator[tuple[float, float]]:
    """Yield the errors of output and gradients in each form."""
    for causal in candidate.forms:
        attention = candidate.build(causal=causal)
        exact = exact_copy(attention)
        inputs = candidate.tensors(candidate.length)
        for mask in (None, candidate.holes(2, candidate.length)):
            output = attention(*inputs, mask)
            same = exact_inputs(inputs)
            expected = map_times_values(exact, same, mask)
            slopes = distances(gradients(output, inputs, attention), gradients(expected, same, exact))
            yield distance(output, expected), slopes


def one_of_each(candidate: Candidate) -> float:
    """Keep the axes of one batch row, one head and one position."""
    errors = []
    for causal in candidate.forms:
        attention = candidate.build(causal=causal, num_heads=1, dtype=torch.float64)
        for length in (1, 4):
            inputs = candidate.tensors(length, batch=1, num_heads=1, dtype=torch.float64)
            errors.append(_error(attention, inputs))
    return worst(errors)


def odd_sizes(candidate: Candidate) -> float:
    """Take lengths that no piece divides, and values of another width than the keys."""
    errors = []
    for causal in candidate.forms:
        attention = candidate.build(causal=causal, dtype=torch.float64)
        for length in ODD_LENGTHS:
            errors.append(_error(attention, candidate.tensors(length, value_width=ODD_WIDTH, dtype=torch.float64)))
    return worst(errors)


def other_layout(candidate: Candidate) -> float:
    """Take views, whose numbers lie apart in memory, as what they stand for."""
    errors = []
    for causal in candidate.forms:
        attention = candidate.build(causal=causal, dtype=torch.float64)
        inputs = [x.detach() for x in candidate.tensors(40, dtype=torch.float64)]
        query, key = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs[:2])
        value = torch.stack([inputs[2], -inputs[2]], dim=-1)[..., 0]
        errors.append(distance(attention(query, key, value), attention(*inputs)))
    return worst(errors)


def cross_lengths(candidate: Candidate) -> float | None:
    """Take queries and keys of different lengths, a prefix mask being the same as cutting the keys."""
    if not candidate.kind.cross:
        return None
    attention = candidate.build(dtype=torch.float64)
    errors = []
    for length, key_length in OBLONG:
        query, key, value = inputs = candidate.tensors(length, key_length, dtype=torch.float64)
        errors.append(_error(attention, inputs))
        kept = (key_length + 1) // 2
        masked = attention(query, key, value, candidate.prefix([kept, kept], key_length))
        cut = attention(query, key[:, :, :kept].contiguous(), value[:, :, :kept].contiguous())
        errors.append(distance(masked, cut))
    return worst(errors)


def _error(attention: Attention, inputs: tuple[torch.Tensor, ...]) -> float:
    return distance(attention(*inputs), map_times_values(attention, inputs))


LENGTH = 90
SUMS_TO_ONE = 1e-3  # a map whose rows sum to 1 this closely is meant to give weighted means


def far_keys(candidate: Candidate) -> float:
    """Stay right with keys of -140, of 100, and of both beside 0, in float32."""
    mixed = torch.tensor([-140.0, 0.0, 100.0]).repeat(LENGTH // 3)[:, None]
    cases = [(1.0, torch.tensor(-140.0)), (-100.0, torch.tensor(100.0)), (0.25, mixed)]
    return worst(_strain(candidate, _filled(query), _filled(key), torch.float32) for query, key in cases)


def small_features(candidate: Candidate) -> float:
    """Stay a weighted mean with queries and keys of -20, whose features are near 0, in float32."""
    return _strain(candidate, _filled(-20.0), _filled(-20.0), torch.float32)


def opposite_keys(candidate: Candidate) -> float:
    """Stay right with keys opposite to the query, where weights 1 + q′·k′ sum to 0, in float32."""
    direction = torch.randn(HEAD_DIM, generator=torch.Generator().manual_seed(4))
    query = _filled(direction)
    return _strain(candidate, query, -query, torch.float32)


def large_in_bfloat16(candidate: Candidate) -> float:
    """Stay right with queries and keys of 100 in bfloat16, where an exponential, used or not, overflows."""
    return _strain(candidate, _filled(100.0), _filled(100.0), torch.bfloat16)


def _filled(number: float | Tensor) -> Tensor:
    return torch.as_tensor(number).expand(2, NUM_HEADS, LENGTH, HEAD_DIM).clone()


def _strain(candidate: Candidate, query: Tensor, key: Tensor, dtype: torch.dtype) -> float:
    """Return the error against the oracle, infinite where a gradient is not finite."""
    errors = []
    for causal in candidate.forms:
        attention = candidate.build(causal=causal)
        value = candidate.tensors(LENGTH)[2]
        inputs = [x.detach().to(candidate.device, dtype).requires_grad_() for x in (query, key, value)]
        half = dtype != torch.float32
        with torch.autocast(candidate.device.type, dtype=dtype) if half else nullcontext():
            output = attention(*inputs)
        exact, same = exact_copy(attention), exact_inputs(inputs)
        errors.append(distance(output, map_times_values(exact, same)))
        errors.append(0.0 if all_finite(gradients(output, inputs, attention)) else torch.inf)
        if _row_sums_error(exact, *candidate.tensors(LENGTH, dtype=torch.float64)[:2]) <= SUMS_TO_ONE:
            errors.append(_row_sums_error(exact, *same[:2]))  # a weighted mean has to remain one
    return worst(errors)


def _row_sums_error(exact: Attention, query: Tensor, key: Tensor) -> float:
    sums = exact.attention_map(query, key).detach().sum(dim=-1)
    return float((sums - 1).abs().max())


LONG = 2_400  # times a mean of 30 makes 72,000, above 65,504, the largest float16


def error_in_bfloat16(candidate: Candidate) -> float:
    """Stay near the oracle of the same rounded inputs in bfloat16."""
    return _half_error(candidate, torch.bfloat16)


def error_in_float16(candidate: Candidate) -> float:
    """Stay near the oracle of the same rounded inputs in float16."""
    return _half_error(candidate, torch.float16)


def _half_error(candidate: Candidate, dtype: torch.dtype) -> float:
    size = candidate.length
    errors = []
    for causal in candidate.forms:
        attention = candidate.build(causal=causal)
        inputs = candidate.tensors(size, dtype=dtype)
        mask = candidate.prefix([size, size // 2], size)
        with torch.autocast(candidate.device.type, dtype=dtype):
            output = attention(*inputs, mask)
        expected = map_times_values(exact_copy(attention), exact_inputs(inputs), mask)
        errors.append(distance(output, expected))
    return worst(errors)


def long_sums(candidate: Candidate) -> float:
    """Carry sums over 2,400 positions in more than half precision, in bfloat16 and in float16.

    With equal keys and values 20 and 40 in turn, a float16 sum overflows and a bfloat16 sum stops growing.
    The oracle is the mechanism itself in float64, whose map would fill memory here.
    """
    errors = []
    for dtype in (torch.bfloat16, torch.float16):
        for causal in candidate.forms:
            attention = candidate.build(causal=causal, key_length=LONG)
            query = torch.zeros(1, NUM_HEADS, LONG, attention.head_dim, dtype=dtype, device=candidate.device)
            value = torch.full_like(query, 20)
            value[:, :, ::2] = 40
            with torch.no_grad(), torch.autocast(candidate.device.type, dtype=dtype):
                output = attention(query, query, value)
            with torch.no_grad():
                expected = exact_copy(attention)(query.double(), query.double(), value.double())
            errors.append(distance(output, expected))
    return worst(errors)
