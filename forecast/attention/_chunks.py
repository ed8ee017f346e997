"""Long sequences in chunks: their size, and sums, maps and scans over them."""

# No function here defines another one: torch.compile (2.13) cannot trace `tuple[…]` in an inner function's annotations.

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from forecast.attention._recompute import Scan, Sequences, State, Step, length_of, results_of
from forecast.attention.base import is_half_on_cpu, is_transformed

# Least and largest number of positions per block of a causal form.
BLOCK_LENGTH = 64
LONGEST_BLOCK = 512

# Blocks per chunk in training, at least: the state before each chunk is stored for the backward pass.
LEAST_BLOCKS = 2

# Elements of one tensor in a chunk of several blocks. On a CPU a chunk should fit the cache: allocating memory costs
# more than the arithmetic. A GPU needs few launches.
CHUNK_ELEMENTS_CPU = 2**17
CHUNK_ELEMENTS_CPU_HALF = 2**18  # each chunk is converted: twice as large, the passes of `linear` take 9 % less
CHUNK_ELEMENTS = 2**23


def block_length(width: int) -> int:
    """Return the positions per block of a causal form: the width E of a head, rounded up to a power of two, 64 to 512.

    The products within blocks, L × block, then take about as much memory as the states, L/block × E².
    """
    return min(LONGEST_BLOCK, max(BLOCK_LENGTH, 1 << (width - 1).bit_length()))


def chunk_length(sequences: Sequences, recorded: bool) -> int:
    """Return the positions per chunk, a multiple of the block length; see `CHUNK_ELEMENTS_CPU`."""
    tensors = [x for x in sequences if x is not None and x.is_floating_point()]
    elements = CHUNK_ELEMENTS_CPU if tensors[0].device.type == "cpu" else CHUNK_ELEMENTS
    if is_half_on_cpu(tensors[0]):
        elements = CHUNK_ELEMENTS_CPU_HALF
    batch, heads = tensors[0].shape[:2]
    width = max(x.shape[3] for x in tensors)
    block = block_length(width)
    return block * max(LEAST_BLOCKS if recorded else 1, elements // max(1, batch * heads * width * block))


def map_chunks(
    function: Callable[..., Tensor], constants: State, query: Tensor, dtype: torch.dtype, *, recompute: bool = True
) -> Tensor:
    """Return `function(queries, *constants)` for queries (B, H, L, E) in chunks, shape (B, H, L, V), in `dtype`.

    Without `recompute`, the backward pass stores all that `function` needs.
    """
    return scan_chunks(partial(_mapped, function), constants, query, dtype=dtype, recompute=recompute)


def _mapped(function: Callable[..., Tensor], constants: State, queries: Tensor) -> tuple[State, Tensor]:
    return constants, function(queries, *constants)


def sum_chunks(function: Callable[..., State], *sequences: Tensor | None, recompute: bool = True) -> State:
    """Return the sums over all chunks of the tensors that `function` returns for a chunk of each sequence.

    Without `recompute`, the backward pass stores all that `function` needs.
    """
    return _run(partial(_added, function), (), sequences, recompute)


def _added(function: Callable[..., State], state: State, *chunk: Tensor | None) -> tuple[State, None]:
    added = function(*chunk)
    return tuple(x + y for x, y in zip(state, added, strict=True)) if state else added, None


def scan_chunks(
    step: Step, state: State, *sequences: Tensor | None, dtype: torch.dtype, recompute: bool = True
) -> Tensor:
    """Return the outputs of all steps in `dtype`, joined along axis 2, shape (B, H, N, V)."""
    (output,) = _run(step, state, sequences, recompute, dtype)
    return output.contiguous().to(dtype)  # a single causal chunk may be a slice of padded blocks


def _run(
    step: Step, state: State, sequences: Sequences, recompute: bool = True, dtype: torch.dtype | None = None
) -> tuple[Tensor, ...]:
    recorded = _is_recorded(*state, *sequences)
    if torch.compiler.is_compiling() or (recorded and not recompute):
        return results_of(*step(state, *sequences))  # one chunk: a compiled graph does not depend on the length
    scan = Scan(step, chunk_length(sequences, recorded), len(state), dtype)
    if not recorded or scan.size >= length_of(sequences) or is_transformed():
        return scan.run(state, sequences)
    return scan.run_recomputed(state, sequences)


def _is_recorded(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)


def in_blocks(tensor: Tensor, size: int, fill: float = 0.0) -> Tensor:
    """Reshape (B, H, N, C) to (B, H, blocks, size, C), padded at the end with `fill`."""
    return split_axis(tensor, 2, size, fill)


def split_axis(tensor: Tensor, axis: int, size: int, fill: float = 0.0) -> Tensor:
    """Split an axis, counted from the first, into (parts, size), padded at the end with `fill`."""
    length = tensor.shape[axis]
    parts = (length + size - 1) // size  # torch.compile simplifies the padding to one symbol in this form
    if torch.compiler.is_compiling() or length % size:
        rest = (0, 0) * (tensor.ndim - 1 - axis)
        tensor = functional.pad(tensor, (*rest, 0, parts * size - length), value=fill)
    blocks: Tensor = tensor.unflatten(axis, (parts, size))
    return blocks


def out_of_blocks(blocks: Tensor, length: int) -> Tensor:
    """Reshape (B, H, blocks, size, C) to (B, H, length, C), without the padding."""
    return blocks.flatten(2, 3)[:, :, :length]
