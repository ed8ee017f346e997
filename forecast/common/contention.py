"""The load of the machine while something is timed: processor time, the wait for a processor, other processes."""

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

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
