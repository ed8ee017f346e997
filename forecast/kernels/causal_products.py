"""Hand-written derivatives for the backward pass of a recomputed chunk; the plain form stands beside each.

They are used inside `recomputing()` only: there, no gradient is differentiated again, and torch.func is not active.
Without them, forward and backward pass of a layer take longer on a CPU (8 heads of 64, 512 to 8,192 positions):
`with_slope` saves 11 to 35 % for `linear`, and `unit` 5 to 18 % for `taylor`. The causal products save 5 to 9 % for
causal `linear` and `taylor`, and 2 to 5 % for causal `efficient`.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from forecast.common.devices import has_tensor_cores

_LOCAL = threading.local()  # backward passes may run in several threads


@contextmanager
def recomputing() -> Iterator[None]:
    """Use the hand-written derivatives inside the context."""
    before, _LOCAL.active = is_recomputing(), True
    try:
        yield
    finally:
        _LOCAL.active = before


def is_recomputing() -> bool:
    """Return whether `recomputing` is active in this thread."""
    return getattr(_LOCAL, "active", False)


def product(left: Tensor, right: Tensor) -> Tensor:
    """Return `left` @ `right`; in float32 if an operand is bfloat16.

    Products of bfloat16 have float32 sums, each rounded once to bfloat16.
    """
    if torch.bfloat16 in (left.dtype, right.dtype):
        return (left.to(torch.bfloat16) @ right.to(torch.bfloat16)).to(torch.float32)
    return left @ right


def for_products(features: Tensor, source: Tensor) -> Tensor:
    """Return the features in bfloat16 if their source is and a GPU multiplies them.

    A CPU keeps float32. Even with matrix units, it loses more by rounding the features than its products gain: a
    forward pass of `linear` took 35 ms with bfloat16 features and 22 ms in float32, of `efficient` 40 and 14 ms (8,192
    tokens, 8 heads of 64, two cores with AMX).
    """
    half = source.dtype == torch.bfloat16 and has_tensor_cores(source.device)
    return features.to(torch.bfloat16) if half else features


def precise_product(left: Tensor, right: Tensor) -> Tensor:
    """Return `left` @ `right` in the dtype of `right`, for divisors."""
    return left.to(right.dtype) @ right


def causal_products(queries: Tensor, keys: Tensor, values: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Return outputs (B, H, blocks, n, V), and the state after the last block.

    `queries` and `keys` are features in blocks (B, H, blocks, n, E), `values` (B, H, blocks, n, V); `state` (B, H, E,
    V) is the sum of keys times values before the first block.
    """
    if is_recomputing():
        output, after, *_ = _CausalProducts.apply(queries, keys, values, state, None)  # type: ignore[no-untyped-call]
        return output, after
    states, after = _before(state, product(keys.mT, values))
    return product(product(queries, keys.mT).tril_(), values) + product(queries, states), after


def weighted_causal_products(
    queries: Tensor, keys: Tensor, values: Tensor, state: Tensor, total: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return as `causal_products`, then the sums of the weights, (B, H, blocks, n, 1), and the sum of the keys.

    `total` (B, H, E, 1) is the sum of the keys before the first block.
    """
    if is_recomputing():
        results: tuple[Tensor, Tensor, Tensor, Tensor] = _CausalProducts.apply(queries, keys, values, state, total)  # type: ignore[no-untyped-call]
        return results
    products = product(queries, keys.mT).tril_()  # (B, H, blocks, n, n)
    states, state = _before(state, product(keys.mT, values))
    totals, total = _before(total, _sum_of(keys))
    weights = products.sum(dim=-1, keepdim=True) + precise_product(queries, totals)
    return product(products, values) + product(queries, states), state, weights, total


def _sum_of(keys: Tensor) -> Tensor:
    """Return the sum of each block of keys, (B, H, blocks, E, 1), in at least float32."""
    return keys.sum(dim=3, dtype=torch.promote_types(keys.dtype, torch.float32)).unsqueeze(-1)


def _before(carried: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum before each block, axis 2 of `added`, and the sum after the last."""
    after = added.cumsum(dim=2) + carried.unsqueeze(2)
    return torch.cat([carried.unsqueeze(2), after[:, :, :-1]], dim=2), after[:, :, -1]


class _CausalProducts(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, queries: Tensor, keys: Tensor, values: Tensor, state: Tensor, total: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        products = product(queries, keys.mT).tril_()
        states, state = _before(state, product(keys.mT, values))
        weights = totals = None
        if total is not None:
            totals, total = _before(total, _sum_of(keys))
            weights, total = products.sum(dim=-1, keepdim=True) + precise_product(queries, totals), total.clone()
        context.save_for_backward(queries, keys, values, products, states, totals)
        return _add_product(product(products, values), queries, states), state.clone(), weights, total

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, values, products, states, totals = context.saved_tensors
        output, state, weight, total = gradients
        by_product = product(output, values.mT)
        if totals is not None:
            by_product.add_(weight)
        by_product.tril_()
        half = queries.dtype == torch.bfloat16
        above = output.to(torch.bfloat16) if half else output
        grad_queries = _add_product(product(by_product, keys), above, states.mT)
        grad_keys = product(by_product.mT, queries)
        added, grad_state = _after(state, product(queries.mT, above))
        grad_values = _add_product(product(products.mT, above), keys, added)
        _add_product(grad_keys, values, added.mT)
        if totals is None:
            return grad_queries, grad_keys, grad_values, grad_state, None
        added_totals, grad_total = _after(total, precise_product(queries.mT, weight))
        grad_keys.add_(added_totals.mT)
        return _add_product(grad_queries, weight, totals.mT), grad_keys, grad_values, grad_state, grad_total


def _after(carried: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum after each block, axis 2 of `added`, and the sum of all, both with `carried` after the last.

    A difference of sums would lose digits where the terms of later blocks are much smaller.
    """
    sums = torch.empty_like(added)
    for block in reversed(range(added.shape[2])):
        sums[:, :, block] = carried
        carried = carried + added[:, :, block]
    return sums, carried


def _add_product(tensor: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Add `product(left, right)` to `tensor` (B, H, blocks, ·, ·) in place."""
    if torch.bfloat16 in (left.dtype, right.dtype):
        return tensor.add_(product(left, right))
    tensor.flatten(0, 2).baddbmm_(left.flatten(0, 2), right.flatten(0, 2))
    return tensor


def divide(output: Tensor, total: Tensor) -> Tensor:
    """Divide (.., V) by the sums of the weights (.., 1); return zeros where a sum is zero."""
    return output / total.where(total >= torch.finfo(total.dtype).tiny, 1)


def with_slope(features: Tensor, slope: Tensor, vectors: Tensor) -> Tensor:
    """Return `features` as an elementwise function of `vectors` whose derivative is `slope`."""
    result: Tensor = _WithSlope.apply(features, slope, vectors)  # type: ignore[no-untyped-call]
    return result


class _WithSlope(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, features: Tensor, slope: Tensor, _: Tensor) -> Tensor:
        context.save_for_backward(slope)
        return features.view_as(features)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[None, None, Tensor]:
        return None, None, gradients[0] * context.saved_tensors[0]


def unit(vectors: Tensor, shortest: float) -> Tensor:
    """Return vectors (.., E) scaled to length 1; those shorter than `shortest` become zero."""
    if is_recomputing():
        result: Tensor = _Unit.apply(vectors, shortest)  # type: ignore[no-untyped-call]
        return result
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    units: Tensor = vectors / length.where(length > shortest, torch.inf)
    return units


class _Unit(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, vectors: Tensor, shortest: float) -> Tensor:
        length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
        inverse = 1 / length.where(length > shortest, torch.inf)
        units: Tensor = vectors * inverse
        context.save_for_backward(units, inverse)
        return units

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        units, inverse = context.saved_tensors
        along = (units * gradients[0]).sum(dim=-1, keepdim=True)
        return torch.addcmul(gradients[0], units, along, value=-1).mul_(inverse), None
