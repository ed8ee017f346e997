"""The run itself: mechanisms that are to be compared are prepared one by one and timed in turn."""

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Literal

from forecast.benchmark.attempt import Attempt, attempt, probe
from forecast.benchmark.case import Case, Shape
from forecast.benchmark.plan import Plan
from forecast.benchmark.room import Earlier
from forecast.common.contention import UNKNOWN, Load, load_since, read_load
from forecast.common.timing import Spread, interleave, seconds_of

Table = Literal["layer", "lengths"]

MOST_REPETITIONS = 200
"""Of a case of the sweep, however short its passes."""


OVER = "time: of the run's minutes none is left for it"
"""Why a case is left out that is not even tried."""


@dataclass(frozen=True)
class Measured:
    """What became of a case: its times and peak memory, or why it was left out; the load while its group was timed."""

    table: Table
    case: Case
    spread: Spread | None = None
    peak_bytes: int | None = None
    skipped: str = ""
    load: Load = UNKNOWN


@dataclass(frozen=True)
class Watch:
    """Who is told: `say` before anything long, `add` with each group of cases that is finished."""

    say: Callable[[str], None] = lambda _: None
    add: Callable[[list[Measured]], None] = lambda _: None


def measure(plan: Plan, watch: Watch) -> list[Measured]:
    """Measure the layer, then each sweep by rising length; return every case in this order."""
    measured = []
    shares = Shares(plan.budget, plan.num_groups())
    for shape in plan.layer_shapes():
        measured += _group("layer", shape, plan, watch, _probe(shape, plan, watch, shares), shares.next())
    for sweep in plan.sweeps():
        last = _probe(sweep[0], plan, watch, shares)
        for shape in sweep:
            group = _group("lengths", shape, plan, watch, last, shares.next())
            for done in group:
                if done.spread is not None and done.peak_bytes is not None:
                    last[done.case.variant.label] = Earlier(shape.length, done.spread.median, done.peak_bytes)
            measured += group
    return measured


class Shares:
    """Hands out the time of a run: each group gets an even part of what is left."""

    def __init__(self, budget: float | None, groups: int) -> None:
        self._end = None if budget is None else monotonic() + budget
        self._groups = groups

    @property
    def over(self) -> bool:
        """Whether no time is left."""
        return self._end is not None and monotonic() >= self._end

    def next(self) -> float:
        """Return the seconds of the next group, endless without a budget."""
        left = float("inf") if self._end is None else max(0.0, self._end - monotonic())
        self._groups -= 1
        return left / (self._groups + 1)


def _probe(shape: Shape, plan: Plan, watch: Watch, shares: Shares) -> dict[str, Earlier | None]:
    """Look at every mechanism at fewer tokens, so that the first case is foretold like the others."""
    found: dict[str, Earlier | None] = {}
    if shares.over:
        return found
    for variant in plan.variants:
        watch.say(f"{shape.layout}: {variant.label} at fewer tokens")
        found[variant.label] = probe(Case(variant, shape), plan.device, plan.dtype)
    return found


def _group(
    table: Table, shape: Shape, plan: Plan, watch: Watch, earlier: Mapping[str, Earlier | None], share: float
) -> list[Measured]:
    """Measure every mechanism at one shape, on the same inputs."""
    gc.collect()
    said = f"{table}, {shape.layout}, {shape.length:,} tokens, {'causal ' * shape.causal}{shape.passes}"
    drawn = shape.draw(plan.device, plan.dtype)
    least = plan.repetitions if table == "lengths" else plan.layer_repetitions
    limit = plan.limit if table == "lengths" else float("inf")
    cases = {variant.label: Case(variant, shape) for variant in plan.variants}
    ready: dict[str, Attempt] = {}
    kept = share / 2 / len(cases)  # for each of those that come later, so that the first does not take all
    for place, (label, case) in enumerate(cases.items(), start=1):
        watch.say(f"{said}: {label}")
        own = max(0.0, share - kept * (len(cases) - place)) if share < float("inf") else share
        if own <= 0:  # its warm-up alone would take what is not there
            ready[label] = Attempt(skipped=OVER)
            continue
        ready[label] = attempt(case, drawn, earlier.get(label), repetitions=least, limit=min(limit, own))
        share -= ready[label].seconds
    before = read_load()
    times = interleave(
        {label: _timed(done.run, plan) for label, done in ready.items() if done.run is not None},
        least=least,
        most=max(least, MOST_REPETITIONS) if table == "lengths" else least,
        seconds=plan.seconds,
        after_round=lambda count: watch.say(f"{said}: round {count}"),
    )
    load = load_since(before)
    group = []
    for label, case in cases.items():
        spread = Spread.of(times[label]) if label in times else None
        group.append(Measured(table, case, spread, ready[label].peak_bytes, ready[label].skipped, load))
    watch.add(group)
    return group


def _timed(run: Callable[[], object], plan: Plan) -> Callable[[], float]:
    return lambda: seconds_of(run, plan.device)
