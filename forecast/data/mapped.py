"""A table in a file that the system pages in and out as it is read: what does not fit into memory."""

import mmap
import os
import secrets
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from forecast.data.recipe import Recipe

ALIGNMENT = 64
"""Every array begins at a multiple of it, in bytes; the first of them is kept for the token."""

TOKEN_BYTES = 16


@dataclass(frozen=True)
class Address:
    """Where another process of the machine finds a file, and the token that the file begins with."""

    path: str
    token: bytes


class MappedFile:
    """Arrays in a file without a name: it is gone with the last process that holds it, however that ends.

    Parameters
    ----------
    handle
        Of the open file, which is taken over.
    recipes
        Of the arrays that the file holds, in its order.
    token
        What the file begins with.

    Attributes
    ----------
    tensors
        The arrays, on the CPU; they are the file's own memory.
    """

    def __init__(self, handle: int, recipes: Sequence[Recipe], token: bytes) -> None:
        weakref.finalize(self, os.close, handle)
        offsets, size = _layout(recipes)
        # shared, since of a private mapping the system would set memory aside, which is what there is too little of
        memory = mmap.mmap(handle, size)
        self.tensors = [_array(memory, offset, recipe) for offset, recipe in zip(offsets, recipes, strict=True)]
        self.address = Address(f"/proc/{os.getpid()}/fd/{handle}", token)

    @classmethod
    def write(cls, recipes: Sequence[Recipe], folder: Path) -> "MappedFile":
        """Make the arrays in a new file on the disk of `folder`.

        Raises
        ------
        OSError
            If the disk has not the room, naming the folder.
        """
        token, (offsets, size) = secrets.token_bytes(TOKEN_BYTES), _layout(recipes)
        try:
            with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
                handle = file.fileno()
                _write(handle, np.frombuffer(token, np.uint8), 0)
                for offset, recipe in zip(offsets, recipes, strict=True):
                    for piece, content in recipe.pieces():
                        _write(handle, content, offset + piece.start * content[:1].nbytes)
                os.ftruncate(handle, size)
                os.fsync(handle)  # what a disk or a quota refuses late is refused here, not read back as zeros
                return cls(os.dup(handle), recipes, token)
        except OSError as error:
            place = f"{folder} (the memory-mapped table takes {size / 2**30:.2f} GiB there)"
            raise OSError(error.errno, error.strerror, place) from error

    @classmethod
    def open(cls, address: Address, recipes: Sequence[Recipe]) -> "MappedFile | None":
        """Give the file that another process wrote, None where this one cannot see it or it is another."""
        try:
            handle = os.open(address.path, os.O_RDWR)
        except OSError:
            return None
        if os.fstat(handle).st_size != _layout(recipes)[1] or os.pread(handle, TOKEN_BYTES, 0) != address.token:
            os.close(handle)
            return None
        return cls(handle, recipes, address.token)


def _layout(recipes: Sequence[Recipe]) -> tuple[list[int], int]:
    """Give where each array begins, in bytes, and the size of the file."""
    offsets, end = [], ALIGNMENT
    for recipe in recipes:
        offsets.append(end)
        end += -(-recipe.bytes // ALIGNMENT) * ALIGNMENT
    return offsets, end


def _array(memory: mmap.mmap, offset: int, recipe: Recipe) -> Tensor:
    return torch.from_numpy(np.ndarray((recipe.rows, recipe.width), recipe.dtype, memory, offset))


def _write(handle: int, content: np.ndarray, offset: int) -> None:
    """Write all of `content`; the system may take less at a time."""
    left = content.reshape(-1).view(np.uint8).data
    while left:
        written = os.pwrite(handle, left, offset)
        left, offset = left[written:], offset + written
