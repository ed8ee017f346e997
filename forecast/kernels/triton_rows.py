"""What the kernels in Triton share: rows by their strides, products at three precisions, and the split of a length.

Row blocks are read by plain loads, 16 bytes per thread where the last stride is 1. Triton pipelines them through shared
memory. The tensor memory accelerator needs fixed strides of 16 bytes, so it is not used.
"""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

import torch
import triton
import triton.language as tl
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")

# Triton's interpreter multiplies the bits of bfloat16 as integers: there, rounded factors are float32.
INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))

# Each float32 factor as the sum of two of the matrix units, 21 bits. The exact "ieee" runs on the other units, and
# keeps whole rows in registers: 16 KiB per thread of `_query_gradients` are spilled for heads of 64.
FLOAT32_PRODUCTS = tl.constexpr("tf32x3")

PROGRAMS_PER_PROCESSOR = 2
"""Programs per multiprocessor: few heads are split over the length until there are so many programs."""

PROGRAMS_INTERPRETED = 8
"""Programs in the interpreter, so that short sequences have several splits."""

REDUCED_ELEMENTS = 8192
"""Elements that one program of a reduction reads at once: splits times the width of a value."""


class Tiles(NamedTuple):
    """Sizes of a program: rows at a time, padded widths of a key and of one tile of a value, number of tiles, warps."""

    rows: int
    width: int
    value_width: int
    number: int
    warps: int


class Split(NamedTuple):
    """Number of programs that share the length of one head, and rows of each, a multiple of the block."""

    parts: int
    rows: int


def tiles_of(width: int, value_width: int, dtype: torch.dtype) -> Tiles:
    """Return the sizes for heads of `width` and values of `value_width`.

    The sums, width × value width in float32, stay in the registers of one program: at most 128 × 128 or 256 × 64.
    """
    padded, padded_value = power_of_two(width), power_of_two(value_width)
    tile = min(padded_value, 128 if padded <= 128 else 64)
    widest = max(padded, tile)
    is_small = widest <= 64 and dtype != torch.float32
    rows = 64 if widest <= 128 and dtype != torch.float32 else 32
    return Tiles(rows, padded, tile, -(-value_width // tile), 4 if is_small or widest <= 32 else 8)


def power_of_two(size: int) -> int:
    """Return the least power of two that is at least `size` and 16, the least side of a product."""
    return max(16, 1 << (size - 1).bit_length())


def split_of(length: int, matrices: int, block: int, device: torch.device, most: int = 128) -> Split:
    """Return how `length` rows of each of `matrices` heads are split over programs, at most `most` for each head."""
    blocks = -(-length // block)
    wanted = max(1, min(_programs(device) // max(matrices, 1), most, blocks))
    rows = -(-blocks // wanted) * block
    return Split(-(-length // rows), rows)


@cache
def _programs(device: torch.device) -> int:
    if device.type != "cuda":
        return PROGRAMS_INTERPRETED
    processors: int = torch.cuda.get_device_properties(device).multi_processor_count
    return PROGRAMS_PER_PROCESSOR * processors


def precision_of(tensor: Tensor, is_split: bool = False) -> str:
    """Return how products of this input are computed; see `product`."""
    if tensor.dtype == torch.float32:
        return "float32"
    return "split" if is_split else "bfloat16"


def on_its_device(operation: Callable[P, R]) -> Callable[P, R]:
    """Launch the kernels of an operation on the device of its first tensor, which may not be the current one."""

    @wraps(operation)
    def launched(*arguments: P.args, **of: P.kwargs) -> R:
        with torch.cuda.device_of(arguments[0]):
            return operation(*arguments, **of)

    return launched


def mask_or(mask: Tensor | None, unused: Tensor) -> tuple[Tensor, int]:
    """Return a mask (B, N) whose rows are contiguous, and the stride of its batch; without a mask any pointer."""
    if mask is None:
        return unused, 0
    mask = mask if mask.stride(1) == 1 else mask.contiguous()
    return mask, mask.stride(0)


def heads_first(batch: int, heads: int, length: int, width: int, like: Tensor) -> Tensor:
    """Return an empty tensor (B, H, L, V) whose heads are adjacent in memory: merging them copies nothing."""
    return like.new_empty((batch, length, heads, width)).transpose(1, 2)


def _mend_interpreter() -> None:
    """Convert an array of one element to the end of a loop, which numpy 2.4 refuses; Triton 3.5 relies on it."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patch_and_mend(tensor: Any, *more: Any) -> None:  # Triton 3.6 gives a scope too
        patch(tensor, *more)
        tensor.__index__ = lambda self: self.handle.data.item()

    interpreter._patch_lang_tensor = patch_and_mend


if INTERPRETED:
    _mend_interpreter()


@triton.jit
def program_rows(splits, rows_per_split, length):
    """Return head, split, first row and the row after the last of this program."""
    index = tl.program_id(0)
    split = index % splits
    first = split * rows_per_split
    return (index // splits).to(tl.int64), split, first, tl.minimum(first + rows_per_split, length)


@triton.jit
def head_of(pointer, strides, matrix, heads):
    """Return the pointer to one head of a tensor (B, H, ·, ·)."""
    return pointer + (matrix // heads) * strides[0] + (matrix % heads) * strides[1]


@triton.jit
def rows_from(row, BLOCK: tl.constexpr):
    """Return the numbers of a block of rows; 64 bits, so that no offset overflows."""
    return row + tl.arange(0, BLOCK).to(tl.int64)


@triton.jit
def load_rows(pointer, rows, is_row, strides, columns, width):
    """Return rows of a head in float32; zero where `is_row` is False and from column `width` on."""
    offsets = rows[:, None] * strides[2] + columns[None, :] * strides[3]
    return tl.load(pointer + offsets, mask=is_row[:, None] & (columns < width)[None, :], other=0.0).to(tl.float32)


@triton.jit
def store_rows(pointer, values, rows, is_row, strides, columns, width):
    """Write rows of a head in the dtype of the pointer."""
    offsets = rows[:, None] * strides[2] + columns[None, :] * strides[3]
    is_inside = is_row[:, None] & (columns < width)[None, :]
    tl.store(pointer + offsets, values.to(pointer.dtype.element_ty), mask=is_inside)


@triton.jit
def rounded(values, PRECISION: tl.constexpr):
    """Return float32 values rounded as the factors of `product` are, so that sums of weights match the products."""
    return values.to(tl.bfloat16).to(tl.float32) if PRECISION == "bfloat16" else values


@triton.jit
def half(values):
    """Return the factor of a product in bfloat16."""
    return values.to(tl.bfloat16).to(tl.float32) if INTERPRETED else values.to(tl.bfloat16)


@triton.jit
def product(left, right, added, PRECISION: tl.constexpr):
    """Return `added` + left @ right with float32 sums.

    "float32": exact factors. "bfloat16": each factor rounded once. "split": each factor as the sum of two in bfloat16,
    16 bits, which takes three products on the matrix units.
    """
    if PRECISION == "float32":
        added = tl.dot(left, right, added, input_precision=FLOAT32_PRODUCTS)
    else:
        left_high, right_high = half(left), half(right)
        if PRECISION == "split":
            added = tl.dot(left_high, half(right - right_high.to(tl.float32)), added)
            added = tl.dot(half(left - left_high.to(tl.float32)), right_high, added)
        added = tl.dot(left_high, right_high, added)
    return added
