"""The run itself: mechanisms that are to be compared are prepared one by one and timed in turn."""

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from forecast.benchmarking.attempt import attempt, probe
from forecast.benchmarking.case import Case, Shape
from forecast.benchmarking.plan import Plan
from forecast.benchmarking.room import Earlier
from forecast.benchmarking.timing import Spread, interleave, seconds_of

Table = Literal["layer", "lengths"]

MOST_REPETITIONS = 200
"""Of a case of the sweep, however short its passes."""


@dataclass(frozen=True)
class Measured:
    """What became of a case: its times and peak memory, or why it was left out."""

    table: Table
    case: Case
    spread: Spread | None = None
    peak_bytes: int | None = None
    skipped: str = ""


@dataclass(frozen=True)
class Watch:
    """Who is told: `say` before anything long, `add` with each group of cases that is finished."""

    say: Callable[[str], None] = lambda _: None
    add: Callable[[list[Measured]], None] = lambda _: None


def measure(plan: Plan, watch: Watch) -> list[Measured]:
    """Measure the layer, then each sweep by rising length; return every case in this order."""
    measured = []
    for shape in plan.layer_shapes():
        measured += _group("layer", shape, plan, watch, _probe(shape, plan, watch))
    for sweep in plan.sweeps():
        last = _probe(sweep[0], plan, watch)
        for shape in sweep:
            group = _group("lengths", shape, plan, watch, last)
            for done in group:
                if done.spread is not None and done.peak_bytes is not None:
                    last[done.case.variant.label] = Earlier(shape.length, done.spread.median, done.peak_bytes)
            measured += group
    return measured


def _probe(shape: Shape, plan: Plan, watch: Watch) -> dict[str, Earlier | None]:
    """Look at every mechanism at fewer tokens, so that the first case is foretold like the others."""
    found = {}
    for variant in plan.variants:
        watch.say(f"{shape.layout}: {variant.label} at fewer tokens")
        found[variant.label] = probe(Case(variant, shape), plan.device, plan.dtype)
    return found


def _group(
    table: Table, shape: Shape, plan: Plan, watch: Watch, earlier: Mapping[str, Earlier | None]
) -> list[Measured]:
    """Measure every mechanism at one shape, on the same inputs."""
    gc.collect()
    said = f"{table}, {shape.layout}, {shape.length:,} tokens, {'causal ' * shape.causal}{shape.passes}"
    drawn = shape.draw(plan.device, plan.dtype)
    least = plan.repetitions if table == "lengths" else plan.layer_repetitions
    limit = plan.limit if table == "lengths" else float("inf")
    cases = {variant.label: Case(variant, shape) for variant in plan.variants}
    ready = {}
    for label, case in cases.items():
        watch.say(f"{said}: {label}")
        ready[label] = attempt(case, drawn, earlier.get(label), repetitions=least, limit=limit)
    times = interleave(
        {label: _timed(done.run, plan) for label, done in ready.items() if done.run is not None},
        least=least,
        most=max(least, MOST_REPETITIONS) if table == "lengths" else least,
        seconds=plan.seconds,
        after_round=lambda count: watch.say(f"{said}: round {count}"),
    )
    group = []
    for label, case in cases.items():
        spread = Spread.of(times[label]) if label in times else None
        group.append(Measured(table, case, spread, ready[label].peak_bytes, ready[label].skipped))
    watch.add(group)
    return group


def _timed(run: Callable[[], object], plan: Plan) -> Callable[[], float]:
    return lambda: seconds_of(run, plan.device)
