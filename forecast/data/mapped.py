"""A table in a memory-mapped file that several processes share."""

import mmap
import os
import secrets
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

CHUNK_CELLS = 2**19
"""Cells in a chunk: 4 MiB in float64."""


@dataclass(frozen=True)
class Recipe:
    """A description of an array (`rows`, `width`) of `dtype`; `make` computes the rows of a slice, of any type."""

    rows: int
    width: int
    dtype: type[np.generic]
    make: Callable[[slice], np.ndarray]

    @property
    def bytes(self) -> int:
        """The size of the array in bytes."""
        return self.rows * self.width * np.dtype(self.dtype).itemsize

    def chunks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield the rows in order as slices and contiguous chunks of type `dtype`."""
        step = max(1, CHUNK_CELLS // max(1, self.width))
        for first in range(0, self.rows, step):
            rows = slice(first, min(first + step, self.rows))
            yield rows, np.ascontiguousarray(self.make(rows), dtype=self.dtype)

    def in_memory(self) -> Tensor:
        """Return the whole array."""
        whole = np.empty((self.rows, self.width), dtype=self.dtype)
        for rows, content in self.chunks():
            whole[rows] = content
        return torch.from_numpy(whole)


ALIGNMENT = 64
"""Alignment of every array in bytes; the first block of this size holds the token."""

TOKEN_BYTES = 16


@dataclass(frozen=True)
class Address:
    """The path of a file for another process of the machine, and the token at its start."""

    path: str
    token: bytes


class MappedFile:
    """Arrays in an unnamed file, which disappears with the last process that holds it, even a killed one.

    The object owns `handle`, the open file. It starts with `token`, followed by the arrays of `recipes`, in order.
    `tensors` are the arrays on the CPU; they share the memory of the file.
    """

    def __init__(self, handle: int, recipes: Sequence[Recipe], token: bytes) -> None:
        weakref.finalize(self, os.close, handle)
        offsets, size = _layout(recipes)
        # shared, since the system reserves memory for a private mapping, and memory is short
        memory = mmap.mmap(handle, size)
        arrays = (
            np.ndarray((recipe.rows, recipe.width), recipe.dtype, memory, offset)
            for offset, recipe in zip(offsets, recipes, strict=True)
        )
        self.tensors = [torch.from_numpy(array) for array in arrays]
        self.address = Address(f"/proc/{os.getpid()}/fd/{handle}", token)

    @classmethod
    def write(cls, recipes: Sequence[Recipe], folder: Path) -> "MappedFile":
        """Write the arrays to a new file on the disk of `folder`."""
        token, (offsets, size) = secrets.token_bytes(TOKEN_BYTES), _layout(recipes)
        try:
            with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
                handle = file.fileno()
                _write(handle, np.frombuffer(token, np.uint8), 0)
                for offset, recipe in zip(offsets, recipes, strict=True):
                    for rows, content in recipe.chunks():
                        _write(handle, content, offset + rows.start * content[:1].nbytes)
                os.ftruncate(handle, size)
                os.fsync(handle)  # a late error of disk or quota is raised here instead of reading zeros later
                return cls(os.dup(handle), recipes, token)
        except OSError as error:
            place = f"{folder} (the memory-mapped table takes {size / 2**30:.2f} GiB there)"
            raise OSError(error.errno, error.strerror, place) from error

    @classmethod
    def open(cls, address: Address, recipes: Sequence[Recipe]) -> "MappedFile | None":
        """Return the file that another process wrote, None if it cannot be read or has another token."""
        try:
            handle = os.open(address.path, os.O_RDWR)
        except OSError:
            return None
        if os.fstat(handle).st_size != _layout(recipes)[1] or os.pread(handle, TOKEN_BYTES, 0) != address.token:
            os.close(handle)
            return None
        return cls(handle, recipes, address.token)


def in_file(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return some rows (n, C) of float64 values (N, C), in a file without a name in the folder for temporary files."""
    recipe = Recipe(values.shape[1], len(rows), np.float64, lambda piece: values[:, piece][rows].T)
    return MappedFile.write([recipe], Path(tempfile.gettempdir())).tensors[0].numpy().T


def _layout(recipes: Sequence[Recipe]) -> tuple[list[int], int]:
    """Return the offset of each array and the size of the file, in bytes."""
    offsets, end = [], ALIGNMENT
    for recipe in recipes:
        offsets.append(end)
        end += -(-recipe.bytes // ALIGNMENT) * ALIGNMENT
    return offsets, end


def _write(handle: int, content: np.ndarray, offset: int) -> None:
    """Write all of `content`; one system call may write less."""
    left = content.reshape(-1).view(np.uint8).data
    while left:
        written = os.pwrite(handle, left, offset)
        left, offset = left[written:], offset + written
