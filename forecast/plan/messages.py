"""Requests to the process that measures a candidate, and its answers."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from forecast.benchmark.limits import measure_in_child
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

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Answer":
        """Return the answer whose `asdict` has become `plain` on its way through JSON."""
        parts: dict[str, Callable[..., Any]] = {"length": Length, "pace": Pace, "footprint": _footprint}
        made = {key: make(**plain[key]) for key, make in parts.items() if plain.get(key) is not None}
        return cls(**{**plain, **made})


def _footprint(levels: list[dict[str, Any]], **plain: Any) -> Footprint:
    lines = ("step", "evaluation")
    return Footprint(
        **plain, levels=[Level(**{**level, **{name: Line(**level[name]) for name in lines}}) for level in levels]
    )


def ask_child(ask: Ask, label: str, limit: float) -> Answer:
    """Have a new process do what is asked of the mechanism `label`, within `limit` seconds."""
    late = f"took more than {limit:,.0f} s: raise --limit"
    return Answer.of(
        measure_in_child("forecast.plan.worker:answer_request", asdict(ask), limit, label=label, late=late)
    )
