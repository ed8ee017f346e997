"""Steps over chunks of a sequence; the backward pass recomputes each chunk instead of storing it.

Between the passes only the inputs and the state before each chunk are stored (Chen et al., "Training Deep Nets with
Sublinear Memory Cost", 2016, arXiv:1604.06174). With `torch.utils.checkpoint` around each chunk, forward and backward
pass take 1.5 to 3.7 times as long on a CPU (8 heads of 64, 2,048 and 8,192 positions).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from forecast.attention.base import full_precision, is_transformed
from forecast.kernels.causal_products import recomputing

# What a step hands on to the next one.
State = tuple[Tensor, ...]

# Maps the state and a chunk of each sequence, (B, ·, n, ·) or None, to the next state and the output, (B, H, n, ·) or
# None. A step reads no other tensor that requires a gradient.
Step = Callable[..., tuple[State, Tensor | None]]

# A sequence (B, ·, N, ·), such as the keys; None for a mask that is not given.
Sequences = Sequence[Tensor | None]


@dataclass(frozen=True)
class Scan:
    """A step, the positions per chunk, the number of tensors in the first state, and the dtype of the joined output.

    Without a dtype, the output has that of the steps. Else each chunk is rounded as it is stored.
    """

    step: Step
    size: int
    count: int
    dtype: torch.dtype | None = None

    def run(self, state: State, sequences: Sequences) -> tuple[Tensor, ...]:
        """Return the outputs of all steps, joined along axis 2, or the last state if the steps have no output."""
        outputs = _Outputs(length_of(sequences), self.dtype)
        for start, chunk in self.chunks(sequences):
            state, output = self.step(state, *chunk)
            outputs.add(start, output)
        return results_of(state, outputs.joined())

    def run_recomputed(self, state: State, sequences: Sequences) -> tuple[Tensor, ...]:
        """Return the same; its backward pass stores no chunk. torch.func and forward mode are not supported."""
        results: tuple[Tensor, ...] = _Recomputed.apply(self, *state, *sequences)  # type: ignore[no-untyped-call]
        return results

    def chunks(self, sequences: Sequences) -> Iterator[tuple[int, list[Tensor | None]]]:
        """Yield the first position of each chunk, and the chunk of each sequence."""
        for start in range(0, length_of(sequences), self.size):
            yield start, [None if x is None else x[:, :, start : start + self.size] for x in sequences]


def compact(state: State) -> State:
    """Return the state with copies of parts of larger tensors, so that it does not keep those in memory."""
    return tuple(x if x.nbytes == x.untyped_storage().nbytes() else x.clone() for x in state)


def is_vectorized(gradients: Sequences) -> bool:
    """Return whether `torch.vmap`, or `is_grads_batched=True`, computes several backward passes at once."""
    return is_transformed() or any(x is not None and torch._C._functorch.is_legacy_batchedtensor(x) for x in gradients)


def length_of(sequences: Sequences) -> int:
    """Return the length N of the sequences."""
    return next(x for x in sequences if x is not None).shape[2]


def results_of(state: State, output: Tensor | None) -> tuple[Tensor, ...]:
    """Return the output, or the state if there is no output."""
    return state if output is None else (output,)


class _Outputs:
    """Outputs of the chunks. Without a gradient, only one chunk is in memory beside the whole."""

    def __init__(self, length: int, dtype: torch.dtype | None) -> None:
        self._length = length
        self._dtype = dtype
        self._parts: list[Tensor] = []
        self._whole: Tensor | None = None

    def add(self, start: int, part: Tensor | None) -> None:
        if part is None:
            return
        if part.requires_grad or part.shape[2] == self._length:
            self._parts.append(part)
            return
        if self._whole is None:
            size = (*part.shape[:2], self._length, part.shape[3])
            self._whole = part.new_empty(size, dtype=self._dtype or part.dtype)
        self._whole[:, :, start : start + part.shape[2]] = part

    def joined(self) -> Tensor | None:
        if not self._parts:
            return self._whole
        joined = self._parts[0] if len(self._parts) == 1 else torch.cat(self._parts, dim=2)
        return joined.to(self._dtype or joined.dtype)


class _Recomputed(torch.autograd.Function):
    """As `Scan.run`. `tensors` are the first state and the sequences."""

    @staticmethod
    def forward(context: Any, scan: Scan, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        state: Any = tensors[: scan.count]
        sequences = tensors[scan.count :]
        outputs, stored = _Outputs(length_of(sequences), scan.dtype), []
        for start, chunk in scan.chunks(sequences):
            stored.append(state)
            state, output = scan.step(state, *chunk)
            state = compact(state)
            outputs.add(start, output)
        joined = outputs.joined()
        context.scan, context.has_output, context.counts = scan, joined is not None, [*map(len, stored)]
        context.save_for_backward(*tensors, *(x for before in stored[1:] for x in before))
        context.set_materialize_grads(False)
        return results_of(state, joined)

    @staticmethod
    def backward(context: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        scan, needed = context.scan, context.needs_input_grad[1:]
        saved = context.saved_tensors  # read once: activation checkpointing allows no second time
        tensors, stored = saved[: len(needed)], iter(saved[len(needed) :])
        given = next((gradient for gradient in gradients if gradient is not None), None)
        if given is None:
            return None, *[None] * len(needed)
        with full_precision(given):
            if torch.is_grad_enabled() or is_vectorized(gradients):
                return None, *_differentiable_gradients(scan, tensors, needed, gradients)
            states = [tensors[: scan.count], *([next(stored) for _ in range(n)] for n in context.counts[1:])]
            after, above = (None, gradients[0]) if context.has_output else (gradients, None)
            return None, *_gradients(scan, states, tensors[scan.count :], needed, after, above)


def _differentiable_gradients(
    scan: Scan, tensors: Sequences, needed: Sequence[bool], gradients: Sequences
) -> list[Tensor | None]:
    """Return gradients that can be differentiated again. All chunks are stored."""
    with torch.enable_grad():
        # views, since two inputs may be the same tensor and need separate gradients
        inputs: list[Any] = [None if x is None else x.view_as(x) for x in tensors]
        results = scan.run(tuple(inputs[: scan.count]), inputs[scan.count :])
    leaves = [x for x, is_needed in zip(inputs, needed, strict=True) if is_needed]
    found = iter(_grad(results, leaves, gradients, create_graph=torch.is_grad_enabled()))
    return [next(found) if is_needed else None for is_needed in needed]


def _gradients(
    scan: Scan,
    states: Sequence[Sequence[Tensor]],
    sequences: Sequences,
    needed: Sequence[bool],
    after: Sequences | None,
    above: Tensor | None,
) -> list[Tensor | None]:
    """Return the gradients of first state and sequences, chunk by chunk from the last.

    `after` are the gradients of the last state, `above` that of the outputs.
    """
    whole = [
        torch.empty_like(x) if x is not None and is_needed else None
        for x, is_needed in zip(sequences, needed[scan.count :], strict=True)
    ]
    for (start, chunk), before in reversed(list(zip(scan.chunks(sequences), states, strict=True))):
        wanted = needed[: scan.count] if start == 0 else [x.is_floating_point() for x in before]
        with torch.enable_grad(), recomputing():
            state = [x.detach().requires_grad_(is_wanted) for x, is_wanted in zip(before, wanted, strict=True)]
            leaves = [
                None if x is None else x.detach().requires_grad_(y is not None)
                for x, y in zip(chunk, whole, strict=True)
            ]
            results, output = scan.step(tuple(state), *leaves)
        here = None
        if above is not None and output is not None:
            here = above[:, :, start : start + scan.size].to(output.dtype)
        inputs = [x for x in (*state, *leaves) if x is not None and x.requires_grad]
        found = iter(_grad((*results, output), inputs, (*(after or [None] * len(results)), here)))
        after = [next(found) if x.requires_grad else None for x in state]
        for y in whole:
            if y is not None:
                gradient = next(found)
                part = y[:, :, start : start + scan.size]
                part.zero_() if gradient is None else part.copy_(gradient)
    return [*(after or []), *whole]


def _grad(
    results: Sequences, inputs: Sequence[Tensor], gradients: Sequences, create_graph: bool = False
) -> Sequence[Tensor | None]:
    """Return the gradients of `inputs` for those of `results`; None where nothing depends on an input."""
    pairs = [(x, y) for x, y in zip(results, gradients, strict=True) if x is not None and y is not None]
    pairs = [(x, y) for x, y in pairs if x.requires_grad]
    if not pairs or not inputs:
        return [None] * len(inputs)
    tensors, given = zip(*pairs, strict=True)
    return torch.autograd.grad(tensors, inputs, given, allow_unused=True, create_graph=create_graph)
