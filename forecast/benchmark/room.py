"""Whether a case can be run at all: memory that is free, and memory and time that it will want."""

from collections.abc import Collection
from dataclasses import dataclass

from forecast.benchmark.costs import growth_of, memory_growth_of
from forecast.common.text import three_digits

SHARE = 0.8
"""Of the free memory that a case may want: the prediction is no promise, and others run too."""


@dataclass(frozen=True)
class Earlier:
    """What the same mechanism took at a shorter length."""

    length: int
    seconds: float
    peak_bytes: int

    def seconds_at(self, length: int, declared: str, words: Collection[str]) -> float:
        """Return the seconds of a pass to expect at `length`; quadratic growth where none is declared."""
        growth = growth_of(declared, words)
        ratio = (length / self.length) ** 2 if growth is None else growth.between(self.length, length)
        return self.seconds * ratio

    def bytes_at(self, length: int, declared: str, words: Collection[str]) -> float:
        """Return the peak to expect at `length`; quadratic growth where none is declared."""
        growth = memory_growth_of(declared, words)
        ratio = (length / self.length) ** 2 if growth is None else growth.between(self.length, length)
        return self.peak_bytes * ratio


def too_large(wanted: float, free: int | None) -> str:
    """Return why a case of `wanted` bytes is left out, nothing where it fits or nobody knows what is free."""
    if free is None or wanted <= SHARE * free:
        return ""
    return f"memory: would need about {wanted / 2**30:,.1f} GiB, {free / 2**30:,.1f} GiB are free"


def too_long(wanted: float, limit: float) -> str:
    """Return why a case of `wanted` seconds is left out, nothing where it is within the limit."""
    return (
        ""
        if wanted <= limit
        else f"time: would take about {three_digits(wanted)} s, the limit is {three_digits(limit)} s"
    )
