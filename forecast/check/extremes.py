"""The answer stays right, with finite gradients, where exponentials overflow and sums vanish."""

from contextlib import nullcontext

import torch
from torch import Tensor

from forecast.attention.base import Attention
from forecast.check.candidate import HEAD_DIM, NUM_HEADS, Candidate
from forecast.check.numbers import all_finite, distance, exact_copy, exact_inputs, gradients, map_times_values, worst

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
    """Give the error against the oracle, infinite where a gradient is not finite."""
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
