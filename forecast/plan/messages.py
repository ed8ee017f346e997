"""Requests to the process that measures a candidate, and its answers."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from forecast.benchmark.limits import measure_in_child
from forecast.common.files import temporary_folder
from forecast.plan.footprint import Footprint, Level, Line
from forecast.plan.pace import Length, Pace

MEASURE, AGAIN, SMALL, STEP = "measure", "again", "small", "step"
"""Kinds of request: a short training and the memory of other sizes; only the short training; only the memory at small
sizes; one step."""


@dataclass(frozen=True)
class Request:
    """A request to measure a configuration, made of plain values."""

    what: str  # MEASURE, AGAIN, SMALL or STEP
    config: dict[str, Any]
    seconds: float  # of steps that a MEASURE or AGAIN times
    memory_bytes: int  # memory limit
    folder: str = ""  # for the files of a short training


@dataclass(frozen=True)
class Answer:
    """The answer to a `Request`; None if not requested or not reached."""

    why: str = ""  # reason of a failure, beginning with `refused`, `memory`, `disk` or `time`
    length: Length | None = None
    pace: Pace | None = None
    footprint: Footprint | None = None
    longest: int | None = None  # longest look-back for which the data have windows
    suggested_batch: int | None = None  # from which a larger one is hardly faster; on a GPU only
    peak_mib: float | None = None  # as `speed.peak_memory_mib` of a result
    steps: int | None = None  # number of timed steps
    disturbed: bool | None = None  # whether other processes slowed the timed steps
    parameters: int | None = None  # of the network

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Answer":
        """Return the answer from its `asdict` after a round trip through JSON."""
        parts: dict[str, Callable[..., Any]] = {"length": Length, "pace": Pace, "footprint": _footprint}
        made = {key: make(**plain[key]) for key, make in parts.items() if plain.get(key) is not None}
        return cls(**{**plain, **made})


def _footprint(levels: list[dict[str, Any]], **plain: Any) -> Footprint:
    lines = ("step", "evaluation")
    return Footprint(
        **plain, levels=[Level(**{**level, **{name: Line(**level[name]) for name in lines}}) for level in levels]
    )


def request_child(request: Request, label: str, limit: float) -> Answer:
    """Send the request for the mechanism `label` to a new process, within `limit` seconds, and return its answer."""
    late = f"took more than {limit:,.0f} s: raise --limit"
    with temporary_folder() as folder:  # of this process: the other one may be killed
        asked = asdict(replace(request, folder=folder))
        return Answer.of(measure_in_child("forecast.plan.worker:answer_request", asked, limit, label=label, late=late))
