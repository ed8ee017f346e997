"""What a trial is, and what it comes to."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.chaos.command import Ended
from benchmarks.chaos.fixtures import Fixtures


@dataclass(frozen=True)
class Verdict:
    """What one trial came to.

    Attributes
    ----------
    held
        Whether the program kept its promise.
    what
        What was done to it.
    came
        What came of it, in a word or two: "refused", "equal"; where it did not hold, what is wrong.
    """

    held: bool
    what: str
    came: str
    commands: list[Ended] = field(default_factory=list)


@dataclass(frozen=True)
class Place:
    """What a trial is given: a folder of its own, its random numbers, the fixtures.

    Attributes
    ----------
    fresh
        Whether its commands are to be new Python processes, without the guard.
    patience
        Seconds that a command may take.
    """

    folder: Path
    random: random.Random
    fixtures: Fixtures
    fresh: bool = False
    patience: float = 20.0

    @property
    def logs(self) -> Path:
        """The folder of what its commands print."""
        return self.folder / "logs"


@dataclass(frozen=True)
class Kind:
    """A kind of trial: what makes its fixtures before the first, and the trial itself."""

    prepare: Callable[[Fixtures], None]
    trial: Callable[[Place], Verdict]


def complaint(ended: Ended) -> str | None:
    """Say what is wrong with the way in which a command ended, whatever it was given; None if nothing is."""
    if ended.late:
        return f"endless: stopped after {ended.seconds:.0f} s"
    if "Traceback (most recent call last)" in ended.text:
        return traceback_of(ended)
    if ended.code < 0:
        return f"killed by signal {-ended.code}"
    if ended.code not in (0, 2, 3, 4, 6):
        return f"exit code {ended.code}: {(ended.error.strip().splitlines() or ['?'])[-1][:200]}"
    if ended.code and not is_one_line(ended):
        return f"exit code {ended.code}, not in one line: {ended.error[:300]!r}"
    return None


def traceback_of(ended: Ended) -> str:
    """Return the last line of a traceback with the last three places that it came through."""
    places = re.findall(r'/([^/"]+/[^/"]+)", line (\d+), in (\S+)', ended.text)[-3:]
    through = " < ".join(f"{name}:{line} {function}" for name, line, function in reversed(places))
    return f"traceback: {(ended.error.strip().splitlines() or ['?'])[-1][:200]} ({through})"


def is_one_line(ended: Ended) -> bool:
    """Return whether the command said why it ended in exactly one line."""
    lines = [line for line in ended.error.splitlines() if line.strip()]
    return len(lines) > 0 and sum(line.startswith("error: ") for line in lines) == 1 and lines[-1].startswith("error: ")
