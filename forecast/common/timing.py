"""How long a pass takes: the device waited for, mechanisms in turn, the spread beside the middle."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch


@dataclass(frozen=True)
class Spread:
    """Seconds of repeated passes: the mean, the median, the quartiles, and how many there were."""

    repetitions: int
    mean: float
    median: float
    lower: float
    upper: float
    shortest: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Spread":
        """Return the figures of measured seconds, at least one."""
        lower, median, upper = (float(value) for value in np.percentile(seconds, [25, 50, 75]))
        return cls(len(seconds), float(np.mean(seconds)), median, lower, upper, min(seconds))


def seconds_of(run: Callable[[], object], device: torch.device) -> float:
    """Return how long one pass takes until its result is there; freeing the result is not counted."""
    if device.type == "cuda":
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize(device)
        start.record()
        result = run()
        end.record()
        end.synchronize()
        taken = float(start.elapsed_time(end)) / 1e3
    else:
        before = perf_counter()
        result = run()
        taken = perf_counter() - before
    del result
    return taken


def interleave(
    passes: Mapping[str, Callable[[], float]],
    *,
    least: int,
    most: int,
    seconds: float,
    after_round: Callable[[int], None] = lambda _: None,
) -> dict[str, list[float]]:
    """Time passes in rounds, in an order that turns with each round, so that drift hits all alike.

    Parameters
    ----------
    passes : mapping
        By name, what runs one pass and returns its seconds.
    least, most : int
        Repetitions of each pass.
    seconds : float
        A pass is repeated until its own sum reaches this, between `least` and `most` times.
    after_round : callable
        Told how many rounds are done, between passes.

    Returns
    -------
    dict
        The measured seconds by name.
    """
    taken: dict[str, list[float]] = {name: [] for name in passes}
    rounds = 0
    while running := [name for name in passes if not _done(taken[name], least, most, seconds)]:
        for name in running if rounds % 2 == 0 else reversed(running):
            taken[name].append(passes[name]())
        rounds += 1
        after_round(rounds)
    return taken


def _done(taken: Sequence[float], least: int, most: int, seconds: float) -> bool:
    return len(taken) >= most or (len(taken) >= least and sum(taken) >= seconds)
