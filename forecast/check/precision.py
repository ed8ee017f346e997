"""Half precision, under autocast as a training uses it, costs no more than the rounding of what is kept."""

import torch

from forecast.check.candidate import NUM_HEADS, Candidate
from forecast.check.numbers import distance, exact_copy, exact_inputs, map_times_values, worst

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

    Keys are all equal and values 20 and 40 in turn: a sum in float16 overflows, one carried in bfloat16
    stops growing. The oracle is the mechanism itself in float64, whose map would fill memory here.
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
