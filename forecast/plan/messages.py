"""Requests to the process that measures a candidate, and its answers."""

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from forecast.benchmark.trial import MEMORY, STARTING, TIME, died_of_memory, run_module
from forecast.plan.footprint import Footprint, Level, Line
from forecast.plan.pace import Length, Pace

MEASURE, AGAIN, SMALL, STEP = "measure", "again", "small", "step"
"""What a process does: a short training and then the memory of other sizes; the short training alone; the memory at
small sizes alone; one step."""


@dataclass(frozen=True)
class Ask:
    """What is to be done.

    Attributes
    ----------
    what
        MEASURE, AGAIN, SMALL or STEP.
    config
        Plain values, as a training is given them.
    seconds
        Of steps that a MEASURE or AGAIN times.
    memory_bytes
        That it may take.
    """

    what: str
    config: dict[str, Any]
    seconds: float
    memory_bytes: int

    def to_json(self) -> str:
        """Return it as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Ask":
        """Return what `to_json` was made of."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Answer:
    """What came of it; what was not asked for, or not reached, is None.

    Attributes
    ----------
    why
        Why it failed, beginning with `refused`, `memory` or `time`; else empty.
    steps
        That were timed.
    peak_mib
        The peak of memory, as `speed.peak_memory_mib` of a result counts it.
    longest
        The longest look-back for which the data have windows.
    disturbed
        Whether other processes took processors from the steps that were timed.
    """

    why: str = ""
    length: Length | None = None
    pace: Pace | None = None
    footprint: Footprint | None = None
    longest: int | None = None
    peak_mib: float | None = None
    steps: int | None = None
    disturbed: bool | None = None

    def to_json(self) -> str:
        """Return it as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Answer":
        """Return what `to_json` was made of."""
        plain: Mapping[str, Any] = json.loads(text)
        parts: dict[str, Callable[..., Any]] = {"length": Length, "pace": Pace, "footprint": _footprint}
        made = {key: make(**plain[key]) for key, make in parts.items() if plain[key] is not None}
        return cls(**{**plain, **made})


def _footprint(levels: list[dict[str, Any]], **plain: Any) -> Footprint:
    lines = ("step", "evaluation")
    return Footprint(
        **plain, levels=[Level(**{**level, **{name: Line(**level[name]) for name in lines}}) for level in levels]
    )


def ask_child(ask: Ask, label: str, limit: float) -> Answer:
    """Have a new process do what is asked.

    Parameters
    ----------
    label : str
        The mechanism's, for a message.
    limit : float
        Seconds that it may take beside those of its start.
    """
    try:
        ended = run_module("forecast.plan.worker", ask.to_json(), limit + STARTING)
    except subprocess.TimeoutExpired:
        return Answer(f"{TIME}: took more than {limit:,.0f} s: raise --limit")
    if ended.returncode == 0:
        return Answer.from_json(ended.stdout.splitlines()[-1])
    if died_of_memory(ended):
        return Answer(f"{MEMORY}: the process had no more")
    raise RuntimeError(f"{label} ended with {ended.returncode}: {ended.stderr}")
