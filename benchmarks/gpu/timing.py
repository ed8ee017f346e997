"""Time on a device: medians of rounds in turn, after a warm-up, with an empty cache."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from statistics import median

import torch

from forecast.common.timing import interleave, seconds_of

FLUSHED = 2**29
"""Bytes written before each pass on a GPU: several times its cache, and time enough to launch small kernels."""

KERNELS = "forecast.kernels.fused"
"""Module of the kernels' switch, `use`."""


def has_kernels() -> bool:
    """Return whether this version of the program has kernels for attention."""
    return find_spec(KERNELS) is not None


def form(kernels: bool) -> AbstractContextManager[object]:
    """Return a context in which mechanisms run in kernels where these apply, or in their plain forms."""
    if not has_kernels():
        return nullcontext()
    context: AbstractContextManager[object] = import_module(KERNELS).use(kernels)
    return context


def in_form(run: Callable[[], object], kernels: bool) -> Callable[[], object]:
    """Return `run` in the given form."""

    def chosen() -> object:
        with form(kernels):
            return run()

    return chosen


class Clock:
    """Times passes on `device`: by events without the launch before them on a GPU, else by the clock."""

    def __init__(self, device: torch.device, rounds: int) -> None:
        self.device = device
        self.rounds = rounds
        self._flushed = torch.empty(FLUSHED, dtype=torch.int8, device=device) if device.type == "cuda" else None

    def rounds_of(self, runs: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
        """Return the seconds of each pass in each round."""
        for run in runs.values():
            for _ in range(3):  # select, compile and load kernels
                run()
        passes = {name: partial(self._seconds, run) for name, run in runs.items()}
        return interleave(passes, least=self.rounds, most=self.rounds, seconds=0)

    def medians(self, runs: Mapping[str, Callable[[], object]]) -> dict[str, float]:
        """Return the median seconds of each pass."""
        return {name: median(seconds) for name, seconds in self.rounds_of(runs).items()}

    def ratio(self, slow: Callable[[], object], fast: Callable[[], object]) -> float:
        """Return how many times as long `slow` takes: the median of the pairs."""
        seconds = self.rounds_of({"slow": slow, "fast": fast})
        return median(one / other for one, other in zip(seconds["slow"], seconds["fast"], strict=True))

    def _seconds(self, run: Callable[[], object]) -> float:
        if self._flushed is None:
            return seconds_of(run, self.device)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self._flushed.zero_()  # the host launches the pass meanwhile
        start.record()
        result = run()
        end.record()
        end.synchronize()
        del result
        return float(start.elapsed_time(end)) / 1e3
