"""Seconds spent in marked stretches of a program, and how seconds are said."""

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


def clock(seconds: float) -> str:
    """Return a duration in at most two units, such as "3 min 20 s", without seconds from 10 minutes on."""
    if seconds < 9.95:
        return f"{seconds:.1f} s" if seconds >= 0.095 else f"{1000 * seconds:.0f} ms"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60} s"
    if (minutes := round(seconds / 60)) < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{round(seconds / 3600) // 24} d {round(seconds / 3600) % 24} h"
