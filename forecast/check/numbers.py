"""The oracle of a mechanism, and how far two results are apart."""

from collections.abc import Iterable, Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from forecast.attention.base import Attention


def exact_copy(attention: Attention) -> Attention:
    """Return the mechanism in float64, with parameters of its own."""
    return deepcopy(attention).double()


def exact_inputs(inputs: Iterable[Tensor]) -> list[Tensor]:
    """Return the very same numbers in float64, as new leaves."""
    return [x.detach().double().requires_grad_() for x in inputs]


def map_times_values(exact: Attention, inputs: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
    """Return the oracle: the attention map times the values, for inputs that are float64."""
    query, key, value = inputs
    return exact.attention_map(query, key, mask) @ value


def distance(found: Tensor, expected: Tensor) -> float:
    """Return the largest difference, as a share of the largest number expected; infinite if shapes differ."""
    if found.shape != expected.shape:
        return torch.inf
    found, expected = found.detach().double(), expected.detach().double()
    largest = expected.abs().max()
    return float((found - expected).abs().max() / largest.where(largest > 0, 1))


def distances(found: Iterable[Tensor], expected: Iterable[Tensor]) -> float:
    """Return `distance` for tensors taken together: the largest number expected in any of them counts."""
    pairs = list(zip(found, expected, strict=True))
    return distance(torch.cat([a.flatten() for a, _ in pairs]), torch.cat([b.flatten() for _, b in pairs]))


def worst(values: Iterable[float]) -> float:
    """Return the largest value; NaN if any is, which Python's max may lose."""
    return float(torch.tensor(list(values), dtype=torch.float64).max())


def gradients(output: Tensor, inputs: Sequence[Tensor], module: nn.Module | None = None) -> tuple[Tensor, ...]:
    """Return gradients of an unevenly weighted sum of the output for inputs and parameters, zeros where independent."""
    leaves = [*inputs, *(() if module is None else module.parameters())]
    if not output.requires_grad:
        return tuple(torch.zeros_like(leaf) for leaf in leaves)
    weights = torch.linspace(-1, 1, output.numel(), dtype=torch.float64, device=output.device).reshape(output.shape)
    return torch.autograd.grad((output * weights.to(output.dtype)).sum(), leaves, materialize_grads=True)


def all_finite(tensors: Iterable[Tensor]) -> bool:
    """Say whether no number is NaN or infinite."""
    return all(bool(tensor.isfinite().all()) for tensor in tensors)
