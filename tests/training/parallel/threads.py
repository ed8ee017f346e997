"""A process group of threads, which exchange data through a shared list."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import add
from typing import Any, TypeVar

from torch import Tensor

from forecast.common.group import Group
from forecast.common.place import Place

Result = TypeVar("Result")


class ThreadGroup(Group):
    """One thread's view of the others."""

    def __init__(self, rank: int, size: int, board: list[Any], barrier: threading.Barrier) -> None:
        super().__init__(Place(rank, size, rank, size))
        self.board, self.barrier = board, barrier

    def gather(self, content: Any) -> list[Any]:
        self.board[self.rank] = content
        self.barrier.wait()
        gathered = list(self.board)
        self.barrier.wait()
        return gathered

    def collect(self, content: Any) -> list[Any] | None:
        gathered = self.gather(content)
        return gathered if self.leads else None

    def total(self, tensor: Tensor) -> Tensor:
        return reduce(add, self.gather(tensor))


def together(size: int, work: Callable[[Group], Result]) -> list[Result]:
    """Return the results of `work` in each of `size` threads."""
    board: list[Any] = [None] * size
    barrier = threading.Barrier(size)
    groups = [ThreadGroup(rank, size, board, barrier) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, groups))
