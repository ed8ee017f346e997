"""Time: stopwatches, repeated measurements, and the load of the machine."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Spread:
    """Seconds of repeated passes: number, mean, median, quartiles and minimum."""

    repetitions: int
    mean: float
    median: float
    lower: float
    upper: float
    shortest: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Spread":
        """Return the statistics of at least one measured time."""
        import numpy as np  # imported here: the command line does not need numpy

        lower, median, upper = (float(value) for value in np.percentile(seconds, [25, 50, 75]))
        return cls(len(seconds), float(np.mean(seconds)), median, lower, upper, min(seconds))


def seconds_of(run: Callable[[], object], device: "torch.device") -> float:
    """Return the seconds of one pass, without the time to free its result."""
    if device.type == "cuda":
        import torch  # imported here for the same reason

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
    """Time passes in rounds of alternating order, so that drift affects all equally; return the seconds by name.

    `passes` maps a name to a function that runs one pass and returns its seconds. A pass is repeated until its own sum
    reaches `seconds`, between `least` and `most` times. `after_round` gets the number of finished rounds.
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


class Stopwatch:
    """A sum of the wall-clock `seconds` of `with` blocks; nested blocks count once."""

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
    """Format a duration in at most two units, such as "3 min 20 s"; without seconds from 10 minutes on."""
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


_STAT, _TASKS = Path("/proc/stat"), Path("/proc/self/task")

NAN = float("nan")

OTHERS = 0.1
"""Average number of processors used by others from which a machine counts as shared; a quiet desktop has less."""

WAITED = 0.05
"""Waiting time of the threads, in seconds per second, from which a shared machine counts as slowed.

This is half of the smallest difference that a report mentions. The sum over the threads counts, since all threads wait
for the slowest at the end of an operation. Measured with one thread on two processors and a second process, a step of
12.1 ms took 12.3 ms at a waiting time of 0.01 s/s, 12.7 ms at 0.09 s/s and 23.9 ms at 0.5 s/s.
"""

NOT_COUNTED = ["0", "0", "0"]
"""The kernel's entry for a thread without statistics."""

FULL = 0.9
"""Share of processors in use from which no processor counts as free, if waiting times are unknown."""


@dataclass(frozen=True)
class Load:
    """Seconds of a measured period, and of other work on the machine during it; NaN if unknown.

    The fields are wall-clock time, processor time of this process, time its threads waited for a processor, and
    processor time of other processes, the system and other guests of the host. The middle two are sums over threads.
    """

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    waited_seconds: float = 0.0
    other_cpu_seconds: float = 0.0

    def __add__(self, other: "Load") -> "Load":
        ours, theirs = asdict(self), asdict(other)
        return Load(**{name: value + theirs[name] for name, value in ours.items()})

    @property
    def others(self) -> float:
        """Average number of processors that others used."""
        return self.other_cpu_seconds / self.wall_seconds if self.wall_seconds > 0 else NAN

    @property
    def waiting(self) -> float:
        """Seconds that the threads waited for a processor, per second."""
        return self.waited_seconds / self.wall_seconds if self.wall_seconds > 0 else NAN

    @property
    def disturbed(self) -> bool | None:
        """Whether others took processors that this process needed; None if unknown.

        Both must hold: others used processors and the threads waited. Surplus threads also wait for one another on a
        quiet machine, and a process on a free processor slows nothing.
        """
        if self.others != self.others:
            return None
        if self.waiting == self.waiting:
            return self.others >= OTHERS and self.waiting >= WAITED
        used = self.others + self.cpu_seconds / self.wall_seconds
        return self.others >= OTHERS and used >= FULL * (os.cpu_count() or 1)

    @classmethod
    def of(cls, figures: Mapping[str, float | None], stretch: str) -> "Load":
        """Return the load from `figures`; NaN where a number is null or absent."""
        values = (figures.get(f"{stretch}_{field.name}") for field in fields(cls))
        return cls(*(NAN if value is None else value for value in values))

    @staticmethod
    def is_disturbed(figures: object, stretch: str) -> bool:
        """Return whether `figures` say that others took processors that a stretch needed; unknown is no."""
        return isinstance(figures, Mapping) and figures.get(f"{stretch}_disturbed") is True

    def figures(self, stretch: str) -> dict[str, float]:
        """Return the numbers by name with the prefix `stretch`, and `<stretch>_disturbed`: true, false or NaN."""
        disturbed = self.disturbed
        values = {**asdict(self), "disturbed": NAN if disturbed is None else disturbed}
        return {f"{stretch}_{name}": value if self.wall_seconds > 0 else NAN for name, value in values.items()}


UNKNOWN = Load(NAN, NAN, NAN, NAN)
"""The load of a period that was not fully measured."""


@dataclass(frozen=True)
class Reading:
    """The clocks at one moment; `waited` is by thread; None if unknown."""

    wall: float
    cpu: float
    waited: Mapping[str, float] | None
    busy: float | None
    queue: float | None

    def until(self, later: "Reading") -> Load:
        """Return the load from this reading to a later one of the same process."""
        wall, cpu = later.wall - self.wall, later.cpu - self.cpu
        waited, others = NAN, NAN
        if self.waited is not None and later.waited is not None:  # the count of an ended thread is lost
            waited = sum(max(0.0, value - self.waited.get(name, 0.0)) for name, value in later.waited.items())
        if self.busy is not None and later.busy is not None:
            others = max(0.0, later.busy - self.busy - cpu)
        elif self.queue is not None and later.queue is not None:
            others = max(0.0, (self.queue + later.queue) / 2 * wall - cpu)
        return Load(wall, cpu, waited, others)


def read_load() -> Reading:
    """Read the clocks, in a few tenths of a millisecond."""
    busy = _busy_seconds()
    queue = os.getloadavg()[0] if busy is None and hasattr(os, "getloadavg") else None
    return Reading(time.perf_counter(), time.process_time(), _waited_seconds(), busy, queue)


def load_since(earlier: Reading) -> Load:
    """Return the load from a reading until now."""
    return earlier.until(read_load())


def _busy_seconds() -> float | None:
    """Return the processor time of the whole machine since its start, including time taken by its host."""
    try:
        with _STAT.open(encoding="ascii") as file:
            name, *ticks = file.readline().split()
    except OSError:
        return None
    if name != "cpu" or len(ticks) < 8:
        return None
    user, nice, system, _, _, irq, softirq, steal = map(int, ticks[:8])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _waited_seconds() -> dict[str, float] | None:
    """Return the seconds each thread of this process has waited for a processor, None if the kernel does not count."""
    waited: dict[str, float] = {}
    try:
        threads = os.listdir(_TASKS)
    except OSError:
        return None
    for thread in threads:
        try:
            counts = (_TASKS / thread / "schedstat").read_text(encoding="ascii").split()
        except OSError:  # the thread has ended, or the kernel has no such file
            continue
        if len(counts) == 3 and counts != NOT_COUNTED:
            waited[thread] = int(counts[1]) / 1e9
    return waited or None


LEAST_ROUNDS = 3
"""Default and least number of rounds to compare two mechanisms; equal ones differ by chance in 1 of 10 cases."""


def always_less(ones: Sequence[float], others: Sequence[float]) -> bool:
    """Return whether every round of `ones` is below every round of `others`, with at least `LEAST_ROUNDS` of each."""
    return min(len(ones), len(others)) >= LEAST_ROUNDS and max(ones) < min(others)
