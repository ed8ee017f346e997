"""Types of command-line options for argparse, which raise ValueError for a number outside of their range."""

from collections.abc import Callable
from typing import TypeVar

Number = TypeVar("Number", int, float)


def _reader(kind: Callable[[str], Number], name: str, holds: Callable[[Number], bool]) -> Callable[[str], Number]:
    """Return a function that reads a number; `name` is its name in the messages of argparse."""

    def read(text: str) -> Number:
        if not holds(value := kind(text)):
            raise ValueError
        return value

    read.__name__ = name
    return read


positive = _reader(int, "integer of at least 1", lambda value: value >= 1)
seconds = _reader(float, "number of seconds", lambda value: value >= 0)
minutes = _reader(float, "number of minutes above 0", lambda value: 0 < value < float("inf"))
gibibytes = _reader(float, "number of GiB above 0", lambda value: 0 < value < float("inf"))
