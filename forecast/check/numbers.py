"""Copies in float64, and errors relative to an expected tensor."""

from collections.abc import Iterable, Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from forecast.attention.base import Attention


def exact_copy(attention: Attention) -> Attention:
    """Return a copy of the mechanism in float64."""
    return deepcopy(attention).double()


def exact_inputs(inputs: Iterable[Tensor]) -> list[Tensor]:
    """Return the same values in float64, as new leaves."""
    return [x.detach().double().requires_grad_() for x in inputs]


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """Return the largest difference relative to the largest expected value; infinity if shapes differ."""
    if actual.shape != expected.shape:
        return torch.inf
    actual, expected = actual.detach().double(), expected.detach().double()
    largest = expected.abs().max()
    return float((actual - expected).abs().max() / largest.where(largest > 0, 1))


def joint_error(actual: Iterable[Tensor], expected: Iterable[Tensor]) -> float:
    """Return `relative_error` of several tensors, concatenated."""
    pairs = list(zip(actual, expected, strict=True))
    return relative_error(torch.cat([a.flatten() for a, _ in pairs]), torch.cat([b.flatten() for _, b in pairs]))


def worst(values: Iterable[float]) -> float:
    """Return the largest value; NaN if any is NaN, which `max` may drop."""
    return float(torch.tensor(list(values), dtype=torch.float64).max())


def gradients(output: Tensor, inputs: Sequence[Tensor], module: nn.Module | None = None) -> tuple[Tensor, ...]:
    """Return gradients of a weighted sum of the output with respect to inputs and parameters; zeros if independent."""
    leaves = [*inputs, *(() if module is None else module.parameters())]
    if not output.requires_grad:
        return tuple(torch.zeros_like(leaf) for leaf in leaves)
    weights = torch.linspace(-1, 1, output.numel(), dtype=torch.float64, device=output.device).reshape(output.shape)
    return torch.autograd.grad((output * weights.to(output.dtype)).sum(), leaves, materialize_grads=True)


def all_finite(tensors: Iterable[Tensor]) -> bool:
    """Return whether no value is NaN or infinite."""
    return all(bool(tensor.isfinite().all()) for tensor in tensors)
