"""The output is that of the oracle, the map in float64 times the values, at any size and in any layout."""

from collections.abc import Iterator

import torch

from forecast.attention.base import Attention
from forecast.check.candidate import Candidate
from forecast.check.numbers import distance, distances, exact_copy, exact_inputs, gradients, map_times_values, worst

ODD_LENGTHS = (3, 7, 65, 97, 127)  # 65, 97, 127: pieces of 64, 32 or 16 that end in the middle
ODD_WIDTH = 5
OBLONG = ((1, 6), (6, 1), (48, 14), (14, 48))


def output_error(candidate: Candidate) -> float:
    """Give the output of the oracle in float32, with and without holes in the mask."""
    return worst(error for error, _ in _errors(candidate))


def gradient_error(candidate: Candidate) -> float:
    """Give the gradients of the oracle in float32, those of parameters too."""
    return worst(error for _, error in _errors(candidate))


def _errors(candidate: Candidate) -> Iterator[tuple[float, float]]:
    """Give the errors of output and gradients in each form."""
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
