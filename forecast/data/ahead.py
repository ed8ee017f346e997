"""The next item made while the caller is at work on this one."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")

_END = object()


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Give `items` in their order, each made by one thread in the background while the one before is in use.

    At most one is made ahead. What making one raises is raised where that one is asked for.
    """
    iterator = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="next-batch") as worker:
        coming = worker.submit(next, iterator, _END)
        while (item := coming.result()) is not _END:
            coming = worker.submit(next, iterator, _END)
            yield item  # type: ignore[misc]  # it is not the end
