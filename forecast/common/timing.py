"""Time: stopwatches, repeated measurements, and the load of the machine beside them."""

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
        import numpy as np  # here, since a command line asks for nothing but numbers of rounds

        lower, median, upper = (float(value) for value in np.percentile(seconds, [25, 50, 75]))
        return cls(len(seconds), float(np.mean(seconds)), median, lower, upper, min(seconds))


def seconds_of(run: Callable[[], object], device: "torch.device") -> float:
    """Return how long one pass takes until its result is there; freeing the result is not counted."""
    if device.type == "cuda":
        import torch  # here, for the same reason

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


_STAT, _TASKS = Path("/proc/stat"), Path("/proc/self/task")

NAN = float("nan")

OTHERS = 0.1
"""Processors that others keep busy on average, from which on a machine counts as shared. A quiet desktop takes less."""

WAITED = 0.05
"""Seconds a second that the threads wait for a processor, from which on a shared machine has slowed them.

Half of the least difference that a report calls one. The sum over the threads counts: those that meet at the end of an
operation all stop for the one that waits. Measured in one thread of a machine with two processors: a process on the
other one, waiting of 0.01, a step of 12.3 ms in place of 12.1 ms; waiting of 0.09, 12.7 ms; of 0.5, 23.9 ms.
"""

NOT_COUNTED = ["0", "0", "0"]
"""What the kernel says of a thread where it does not count."""

FULL = 0.9
"""Part of the processors in use, from which on nothing is known to have been left free.

It decides only where the system does not say how long threads wait.
"""


@dataclass(frozen=True)
class Load:
    """What a stretch of work took, and what else the machine did meanwhile; NaN where the system does not say.

    Parameters
    ----------
    wall_seconds
        By a clock on the wall.
    cpu_seconds
        Processor time of this process, all threads together.
    waited_seconds
        The time its threads were ready to run and had no processor, all threads together.
    other_cpu_seconds
        Processor time of everything else: other processes, the system, other guests of the same host.
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
        """Processors that others kept busy, on average."""
        return self.other_cpu_seconds / self.wall_seconds if self.wall_seconds > 0 else NAN

    @property
    def waiting(self) -> float:
        """Seconds that the threads waited for a processor, for each second of the stretch."""
        return self.waited_seconds / self.wall_seconds if self.wall_seconds > 0 else NAN

    @property
    def disturbed(self) -> bool | None:
        """Whether others took processors that this process needed; None where nobody can say.

        Both have to hold: others were at work, and the threads waited. Threads that are more than the processors
        wait for one another on a quiet machine too, and a process on a processor that was free takes nothing away.
        """
        if self.others != self.others:
            return None
        if self.waiting == self.waiting:
            return self.others >= OTHERS and self.waiting >= WAITED
        used = self.others + self.cpu_seconds / self.wall_seconds
        return self.others >= OTHERS and used >= FULL * (os.cpu_count() or 1)

    @property
    def words(self) -> str:
        """What the others did, as a line says it."""
        waited = f" and its threads waited {self.waiting:.2f} s a second" if self.waiting == self.waiting else ""
        return f"other processes used {self.others:.2f} processors{waited}"

    @classmethod
    def of(cls, figures: Mapping[str, float | None], stretch: str) -> "Load":
        """Return what `figures` was made of, NaN where it is null or absent."""
        values = (figures.get(f"{stretch}_{field.name}") for field in fields(cls))
        return cls(*(NAN if value is None else value for value in values))

    def figures(self, stretch: str) -> dict[str, float]:
        """Return the numbers by name, each beginning with `stretch`, and `<stretch>_disturbed`: true, false or NaN."""
        disturbed = self.disturbed
        told = {**asdict(self), "disturbed": NAN if disturbed is None else disturbed}
        return {f"{stretch}_{name}": value if self.wall_seconds > 0 else NAN for name, value in told.items()}


UNKNOWN = Load(NAN, NAN, NAN, NAN)
"""Of a stretch that nobody watched, or not all of it."""


@dataclass(frozen=True)
class Reading:
    """The clocks at one moment: `waited` by thread; None for what the system does not say."""

    wall: float
    cpu: float
    waited: Mapping[str, float] | None
    busy: float | None
    queue: float | None

    def until(self, later: "Reading") -> Load:
        """Return the load from this reading to a later one of the same process."""
        wall, cpu = later.wall - self.wall, later.cpu - self.cpu
        waited, others = NAN, NAN
        if self.waited is not None and later.waited is not None:  # a thread that has ended takes its count with it
            waited = sum(max(0.0, value - self.waited.get(name, 0.0)) for name, value in later.waited.items())
        if self.busy is not None and later.busy is not None:
            others = max(0.0, later.busy - self.busy - cpu)
        elif self.queue is not None and later.queue is not None:
            others = max(0.0, (self.queue + later.queue) / 2 * wall - cpu)
        return Load(wall, cpu, waited, others)


def read_load() -> Reading:
    """Return the clocks as they are now; this takes some tenths of a millisecond."""
    busy = _busy_seconds()
    queue = os.getloadavg()[0] if busy is None and hasattr(os, "getloadavg") else None
    return Reading(time.perf_counter(), time.process_time(), _waited_seconds(), busy, queue)


def load_since(earlier: Reading) -> Load:
    """Return the load from a reading until now."""
    return earlier.until(read_load())


def _busy_seconds() -> float | None:
    """Return the processor time of the whole machine since it started, that taken by its host included."""
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
    """Return how long each thread of this process has waited for a processor, None where the kernel does not count."""
    waited: dict[str, float] = {}
    try:
        threads = os.listdir(_TASKS)
    except OSError:
        return None
    for thread in threads:
        try:
            counts = (_TASKS / thread / "schedstat").read_text(encoding="ascii").split()
        except OSError:  # it has ended meanwhile, or the kernel has no such file
            continue
        if len(counts) == 3 and counts != NOT_COUNTED:
            waited[thread] = int(counts[1]) / 1e9
    return waited or None


LEAST_ROUNDS = 3
"""Rounds that tell two mechanisms apart: of two that are alike, in one case of ten. As many are made if not told."""


def always_less(ones: Sequence[float], others: Sequence[float]) -> bool:
    """Tell whether every round of the one lies below every round of the other; of too few rounds that says nothing."""
    return min(len(ones), len(others)) >= LEAST_ROUNDS and max(ones) < min(others)
