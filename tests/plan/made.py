"""Example answers with simple numbers."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from forecast.plan.footprint import Footprint, Level, Line
from forecast.plan.messages import Answer
from forecast.plan.pace import Length, Pace
from forecast.runs.settings import Settings

MIB = 2**20

LENGTH = Length(
    train=1000, validation=100, test=200, batch=10, steps=250, interval=50, max_seconds=None, scores_start=False
)
PACE = Pace(
    step=0.7,
    wait=0.1,
    between=0.2,
    first=4.0,
    window=0.01,
    validation=2.0,
    first_validation=1.0,
    prepare=5.0,
    scoring=0.05,
)


def level(length: int, *, square: float = 0.0) -> Level:
    """Return the level of a model that needs 1 MiB per window and step, plus `square` MiB per squared step."""
    window = MIB * (length + square * length**2)
    return Level(length, held=10 * MIB, step=Line(0.0, window), evaluation=Line(0.0, window / 10))


FOOTPRINT = Footprint(look_back=20, base=100 * MIB, factor=1.0, levels=[level(5), level(10), level(20)])


def measured(**changed: Any) -> Answer:
    """Return the answer of a mechanism with steps of one second."""
    whole = Answer(length=LENGTH, pace=PACE, footprint=FOOTPRINT, longest=60, peak_mib=300.0, steps=6)
    return replace(whole, **changed)


def settings_of(config: dict[str, Any]) -> Settings:
    """Return settings that have only the configuration as plain values."""
    return cast(Settings, SimpleNamespace(plain=config))
