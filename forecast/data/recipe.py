"""The arrays of a table, made a piece of rows at a time: nothing of the table's size is made on the way."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

PIECE_CELLS = 2**19
"""Numbers in a piece: 4 MiB where they are computed in float64."""


@dataclass(frozen=True)
class Recipe:
    """How one array (`rows`, `width`) comes about.

    Parameters
    ----------
    rows, width
        Its shape.
    dtype
        Of its numbers.
    make
        Gives the rows of a slice, shape (n, width), of any number type.
    """

    rows: int
    width: int
    dtype: type[np.generic]
    make: Callable[[slice], np.ndarray]

    @property
    def bytes(self) -> int:
        """What the array takes."""
        return self.rows * self.width * np.dtype(self.dtype).itemsize

    def pieces(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Give the rows in their order, a piece at a time with its place, contiguous and of type `dtype`."""
        step = max(1, PIECE_CELLS // max(1, self.width))
        for first in range(0, self.rows, step):
            piece = slice(first, min(first + step, self.rows))
            yield piece, np.ascontiguousarray(self.make(piece), dtype=self.dtype)

    def in_memory(self) -> Tensor:
        """Give the whole array."""
        whole = np.empty((self.rows, self.width), dtype=self.dtype)
        for piece, content in self.pieces():
            whole[piece] = content
        return torch.from_numpy(whole)
