"""A trial and its verdict."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.chaos.command import Ended
from benchmarks.chaos.fixtures import Fixtures


@dataclass(frozen=True)
class Verdict:
    """The outcome of one trial.

    Attributes
    ----------
    held
        Whether the program kept its promise.
    what
        Description of the trial.
    came
        Short outcome, such as "refused" or "equal"; for a failed trial, what is wrong.
    """

    held: bool
    what: str
    came: str
    commands: list[Ended] = field(default_factory=list)


@dataclass(frozen=True)
class Place:
    """Input of a trial: its folder, its random numbers and the fixtures.

    Attributes
    ----------
    fresh
        Whether its commands run in new Python processes.
    patience
        Time limit of a command in seconds.
    """

    folder: Path
    random: random.Random
    fixtures: Fixtures
    fresh: bool = False
    patience: float = 20.0

    @property
    def logs(self) -> Path:
        """The folder for the output of its commands."""
        return self.folder / "logs"


@dataclass(frozen=True)
class Kind:
    """A kind of trial: the function that makes its fixtures, and the function that runs a trial."""

    prepare: Callable[[Fixtures], None]
    trial: Callable[[Place], Verdict]


def complaint(ended: Ended) -> str | None:
    """Return what is wrong with the end of a command for any input, None if nothing is."""
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
    """Return the last line of a traceback with its last three frames."""
    places = re.findall(r'/([^/"]+/[^/"]+)", line (\d+), in (\S+)', ended.text)[-3:]
    through = " < ".join(f"{name}:{line} {function}" for name, line, function in reversed(places))
    return f"traceback: {(ended.error.strip().splitlines() or ['?'])[-1][:200]} ({through})"


def is_one_line(ended: Ended) -> bool:
    """Return whether the command printed exactly one error line, at the end."""
    lines = [line for line in ended.error.splitlines() if line.strip()]
    return len(lines) > 0 and sum(line.startswith("error: ") for line in lines) == 1 and lines[-1].startswith("error: ")
