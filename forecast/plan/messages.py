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
    """A request to measure a configuration, made of plain values."""

    what: str  # MEASURE, AGAIN, SMALL or STEP
    config: dict[str, Any]
    seconds: float  # of steps that a MEASURE or AGAIN times
    memory_bytes: int  # that it may take


@dataclass(frozen=True)
class Answer:
    """The answer to an `Ask`; None where not asked for or not reached."""

    why: str = ""  # why it failed, beginning with `refused`, `memory` or `time`
    length: Length | None = None
    pace: Pace | None = None
    footprint: Footprint | None = None
    longest: int | None = None  # the longest look-back for which the data have windows
    peak_mib: float | None = None  # as `speed.peak_memory_mib` of a result
    steps: int | None = None  # number of timed steps
    disturbed: bool | None = None  # whether other processes took processors from the timed steps

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
