"""Tables as people have them: files written from seeds, each with its right reading."""

from collections.abc import Callable, Iterator
from functools import cache

from tests.support.written import grids, layout, times
from tests.support.written.base import Written
from tests.support.written.hostile import hostile

__all__ = ["GROUPS", "Written", "corpus", "files_of", "hostile"]

GROUPS = (*layout.GROUPS, *times.GROUPS, *grids.GROUPS)
"""Functions that yield files about one subject."""


@cache
def files_of(group: Callable[[], Iterator[Written]]) -> tuple[Written, ...]:
    """Return the files of a group."""
    return tuple(group())


def corpus() -> tuple[Written, ...]:
    """Return all files."""
    return tuple(item for group in GROUPS for item in files_of(group))
