"""A time for a whole training from Python, spent on steps first and on further seeds afterwards."""

import shutil
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd

from forecast.common.errors import InputError
from forecast.common.files import write_json
from forecast.common.text import counted, duration
from forecast.data.sources import Source, load_source
from forecast.runs.ensemble import write_ensemble
from forecast.runs.run import TIME_BUDGET, Run
from forecast.runs.settings import Settings, follow_table
from forecast.runs.summary import STEPS
from forecast.training.sweep.ensemble import score_members
from forecast.training.train import train

LEAST = 5.0
"""Fewest seconds of a budget: data, linear models and scores need some."""

MOST_SEEDS = 10
"""Most seeds of a budget: more hardly change the mean of their forecasts."""

FOR_STEPS = 0.75
"""Share of the budget for the steps of the first training, whose other parts take an unknown time."""

RESERVE = 1.2
"""A further training begins if this many times its expected seconds are left, since the mean is scored after it."""


def parse_budget(value: str | float | timedelta) -> float:
    """Return the seconds of a budget, such as "2min", 120 or a timedelta; raise InputError for another value."""
    try:
        seconds = float(value) if isinstance(value, int | float) else pd.Timedelta(value).total_seconds()
    except (ValueError, TypeError):
        raise InputError(f"time_budget={value!r}: must be a time, such as '2min', or seconds") from None
    if not seconds >= LEAST:
        raise InputError(f"time_budget={value!r}: must be at least {LEAST:g} seconds")
    return seconds


def check_budget(settings: Settings, members: int) -> None:
    """Refuse options that a budget decides."""
    if members > 1:
        raise InputError(f"ensemble={members}: time_budget chooses the number of seeds: leave one of them out")
    if settings.training.max_time is not None:
        raise InputError(f"training.max_time={settings.training.max_time}: time_budget sets it: leave one of them out")


def spend(seconds: float, began: float, settings: Settings, place: Path) -> None:
    """Train until `seconds` after the time `began`, and write the runs and an ensemble file into `place`.

    The first training has the length of the options. If it ends in time and its best weights are in its second half,
    one of twice the length follows, and so on while the validation MSE falls. Then further seeds are trained, unless
    the best weights are those before the first step, which are the same for all seeds.
    """
    settings, source = follow_table(settings)
    source = load_source(settings.data) if source is None else source
    budget = _Budget(began + seconds, source, place)
    kept = budget.train(settings, FOR_STEPS)
    while kept["wants_steps"] and budget.left >= RESERVE * 2 * kept["seconds"]:
        doubled = _twice_as_long(settings)
        longer = budget.train(doubled, 1 / RESERVE)
        if not longer["validation_mse"] < kept["validation_mse"]:
            budget.drop(longer)
            break
        budget.drop(kept)
        settings, kept = doubled, longer
    members = [kept]
    most = MOST_SEEDS if source.series.ids is None and kept["best_step"] else 1
    while len(members) < most and budget.left >= RESERVE * kept["seconds"]:
        settings = settings.at_seed(settings.seed + 1)
        members.append(budget.train(settings, 1 / RESERVE))
    _write(place, members, settings.at_seed(members[0]["seed"]), budget.facts(seconds, members))


def _write(place: Path, members: list[dict[str, Any]], settings: Settings, facts: dict[str, Any]) -> None:
    """Write the file of the ensemble, which a single run has too, and how the time was spent."""
    runs = [Run(place / member["folder"]) for member in members]
    if len(runs) > 1:
        score_members(place, runs, settings, time_budget=facts)
        return
    write_ensemble(place, [runs[0].path.name], {"time_budget": facts})
    write_json(runs[0].path / TIME_BUDGET, facts)


class _Budget:
    """The trainings of a budget, which ends at `until` on the monotonic clock."""

    def __init__(self, until: float, source: Source, place: Path) -> None:
        self.until, self.source, self.place = until, source, place
        self.trainings: list[dict[str, Any]] = []

    @property
    def left(self) -> float:
        return self.until - time.monotonic()

    def train(self, settings: Settings, share: float) -> dict[str, Any]:
        """Train one model in a `share` of the seconds left; return what it took and what it gave."""
        allowed = max(1, int(share * self.left))
        began, earlier = time.monotonic(), sum(each["seed"] == settings.seed for each in self.trainings)
        name = f"seed-{settings.seed}" + (f"-longer-{earlier}" if earlier else "")
        limited = settings.at_length(max_time=f"00:{allowed // 3600:02}:{allowed // 60 % 60:02}:{allowed % 60:02}")
        _, result = train(limited, folder=self.place / name, source=self.source)
        facts = {
            "folder": name,
            "seed": settings.seed,
            "max_epochs": settings.training.max_epochs,
            "max_steps": settings.training.max_steps,
            "steps": result["model"]["steps"],
            "best_step": result["model"]["best_step"],
            "status": result["status"],
            "seconds": round(time.monotonic() - began, 2),
            "validation_mse": result["validation"]["scaled"]["mse"],
        }
        self.trainings.append(facts)
        is_late = 2 * facts["best_step"] > facts["steps"]
        return {**facts, "wants_steps": result["status"] == STEPS and is_late}

    def drop(self, training: dict[str, Any]) -> None:
        """Remove the run of a training that another one replaces."""
        shutil.rmtree(self.place / training["folder"], ignore_errors=True)

    def facts(self, seconds: float, members: list[dict[str, Any]]) -> dict[str, Any]:
        """Return how the seconds were spent, for the result."""
        kept = [member["folder"] for member in members]
        steps, trainings = members[0]["steps"], counted(len(self.trainings), "training")
        return {
            "seconds": round(seconds, 2),
            "spent": round(seconds - self.left, 2),
            "trainings": [{**each, "kept": each["folder"] in kept} for each in self.trainings],
            "summary": f"{trainings} in {duration(seconds - self.left)} of {duration(seconds)}: "
            f"{counted(len(members), 'seed')} of {steps:,} steps kept",
        }


def _twice_as_long(settings: Settings) -> Settings:
    length = {name: getattr(settings.training, name) for name in ("max_epochs", "max_steps")}
    return settings.at_length(**{name: None if value is None else 2 * value for name, value in length.items()})
