"""Seconds spent in marked stretches of a program."""

import time
from types import TracebackType


class Stopwatch:
    """Adds up the seconds spent in its `with` blocks; a block inside another one counts once.

    Attributes
    ----------
    seconds
        The sum so far, wall-clock; a block that is still open is not in it.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._entered = 0.0

    def __enter__(self) -> "Stopwatch":
        if self._depth == 0:
            self._entered = time.perf_counter()
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._entered
