"""Costs: operations and live bytes of a forward pass, counted, and how they grow with the length."""

import math
import weakref
from collections.abc import Callable, Sequence
from statistics import linear_regression
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from forecast.attention._costs import Cost, Costs, cost_of
from forecast.check.candidate import Candidate
from forecast.common.operations import operations_of

LENGTHS = (512, 1024, 2048)


class Counter(TorchDispatchMode):
    """Count of operations, and of the bytes of all tensors made inside that are alive.

    Matrix products, convolutions and fused attention count as in `forecast.common.operations`. Any other operator
    counts one operation per element of its largest tensor, and a view none. Buffers inside a kernel are not seen.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping imports the compiler, which takes seconds

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0
        self.live = 0
        self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = _tensors((args, kwargs))
        result = function(*args, **kwargs)
        if not (function.is_view or function is torch.ops.aten._unsafe_view.default):
            counted = operations_of(function, args, kwargs, result)
            sizes = [tensor.numel() for tensor in (*given, *_tensors(result))]
            self.operations += max(sizes, default=0) if counted is None else counted
            self._add({tensor.untyped_storage() for tensor in _tensors(result)}, given)
        return result

    def _add(self, storages: set[Any], given: list[Tensor]) -> None:
        old = {tensor.untyped_storage()._cdata for tensor in given} | self._known
        for storage in storages:
            if storage._cdata not in old:
                self._known.add(storage._cdata)
                self.live += storage.nbytes()
                weakref.finalize(storage, self._remove, storage._cdata, storage.nbytes())
        self.peak = max(self.peak, self.live)

    def _remove(self, address: int, size: int) -> None:
        self._known.discard(address)
        self.live -= size


def _tensors(tree: object) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def operations_excess(candidate: Candidate) -> float | None:
    """Let the operations grow with L no faster than declared; the value is the excess of the exponent."""
    return max((growth.excess for growth in operations_growths(candidate)), default=None)


def memory_excess(candidate: Candidate) -> float | None:
    """Let live bytes, output included, grow with L no faster than declared; the value is the excess of the exponent."""
    return max((growth.excess for growth in memory_growths(candidate)), default=None)


class Growth(NamedTuple):
    """Growth of a count with the length L: the fitted exponent, and that of the declared cost."""

    exponent: float
    declared: Cost
    expected: float
    causal: bool

    @property
    def excess(self) -> float:
        """Difference of the fitted exponent and the declared one, at least 0."""
        return max(0.0, self.exponent - self.expected)

    def __str__(self) -> str:
        form = "causal " if self.causal else ""
        return f"{form}L^{self.exponent:.2f} at {LENGTHS[0]} to {LENGTHS[-1]} positions, declared {self.declared}"


def operations_growths(candidate: Candidate) -> list[Growth]:
    """Return the growth of operations for each form with a declared cost."""
    return _growths(candidate, candidate.kind.time_cost, lambda counter: counter.operations, lambda cost: cost)


def memory_growths(candidate: Candidate) -> list[Growth]:
    """Return the growth of the peak of live bytes for each form with a declared cost."""
    return _growths(candidate, candidate.kind.memory_cost, lambda counter: counter.peak, Cost.with_output)


def _growths(
    candidate: Candidate, declared: Costs, count: Callable[["Counter"], int], least: Callable[[Cost], Cost]
) -> list[Growth]:
    words = {value for value in candidate.arguments.values() if isinstance(value, str)} - {candidate.name}
    growths = []
    for causal in candidate.forms:
        if (cost := cost_of(declared, words | ({"causal"} if causal else set()))) is not None:
            counts = [count(_counted(candidate, length, causal)) for length in LENGTHS]
            expected = [least(cost).between(LENGTHS[0], length) for length in LENGTHS]
            growths.append(Growth(_exponent(counts), cost, _exponent(expected), causal))
    return growths


def _counted(candidate: Candidate, length: int, causal: bool) -> Counter:
    """Return the counts of one forward pass of one head."""
    attention = candidate.build(causal=causal, num_heads=1, key_length=length)
    inputs = candidate.tensors(length, batch=1, num_heads=1)
    counter = Counter()
    with torch.no_grad(), counter:
        output = attention(*inputs)
    del output
    if not counter.operations:
        raise ValueError("no operator of torch was called, so that nothing can be counted")
    return counter


def _exponent(counts: Sequence[float]) -> float:
    """Return the slope of the logarithms of counts against those of `LENGTHS`."""
    return linear_regression([math.log(length) for length in LENGTHS], [math.log(count) for count in counts]).slope
