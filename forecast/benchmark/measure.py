"""Time every mechanism at every length, within time and memory."""

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Literal

import torch
from torch import Tensor

from forecast.attention._costs import Cost
from forecast.attention._parsing import Variant
from forecast.benchmark.case import Case, Shape, prepare
from forecast.benchmark.limits import FAILURES, TIME, too_large, too_long, why_not
from forecast.common.memory import free_bytes, peak_bytes
from forecast.common.timing import UNKNOWN, Load, Spread, interleave, load_since, read_load, seconds_of

WARM_UP = {"cpu": 1, "cuda": 3}
"""Passes before anything is measured: kernels are chosen and loaded in them."""

MOST_REPETITIONS = 200
"""Of a case of a sweep, however short its passes."""

OVER = f"{TIME}: of the run's minutes none is left for it"
"""Why a case is left out that is not even tried."""

_PROBE = 8


@dataclass(frozen=True)
class Plan:
    """Every choice of a run; times are in seconds."""

    device: torch.device
    dtype: torch.dtype
    variants: tuple[Variant, ...]
    layers: list[Shape]  # of the table with projections
    sweeps: list[list[Shape]]  # each by rising length
    layer_repetitions: int  # minimum passes of a layer
    seconds: float  # minimum time of a sweep's case
    repetitions: int  # minimum passes of a sweep's case
    limit: float  # a sweep's case whose passes take more together is left out
    fit_from: int  # the shortest length that exponents are fitted on
    budget: float | None = None  # of the run; a group gets an even part of the rest, cases beyond it are left out

    @property
    def num_groups(self) -> int:
        """How many groups of cases are measured together."""
        return len(self.layers) + sum(map(len, self.sweeps))

    @property
    def num_cases(self) -> int:
        """How many cases the run has, those included that will be left out."""
        return len(self.variants) * self.num_groups


@dataclass(frozen=True)
class Measured:
    """The result of a case: its times, peak memory and the load meanwhile, or why it was left out.

    A case that is ready to be timed has `run`, one pass, and `seconds`, the estimate for all its passes.
    """

    case: Case
    spread: Spread | None = None
    peak_bytes: int | None = None
    skipped: str = ""
    load: Load = UNKNOWN
    run: Callable[[], object] | None = field(default=None, compare=False)
    seconds: float = field(default=0.0, compare=False)

    @property
    def table(self) -> Literal["layer", "lengths"]:
        """The table that it belongs to."""
        return "lengths" if self.case.shape.d_model is None else "layer"


@dataclass(frozen=True)
class Earlier:
    """What the same mechanism took at a shorter length."""

    length: int
    seconds: float
    peak_bytes: int

    def seconds_at(self, length: int, cost: Cost | None) -> float:
        """Return the seconds of a pass to expect at `length`; quadratic growth where none is declared."""
        return self.seconds * (cost or Cost(length=2)).between(self.length, length)

    def bytes_at(self, length: int, cost: Cost | None) -> float:
        """Return the peak to expect at `length`; quadratic growth where none is declared."""
        return self.peak_bytes * (cost or Cost(length=2)).with_output().between(self.length, length)


def measure(
    plan: Plan, say: Callable[[str], None] = lambda _: None, add: Callable[[list[Measured]], None] = lambda _: None
) -> list[Measured]:
    """Measure the layers, then each sweep by rising length; return every case in this order.

    `say` is called before each long step, `add` with each finished group of cases.
    """
    measured = []
    budget = Budget(plan.budget, plan.num_groups)
    for sweep in [*([shape] for shape in plan.layers), *plan.sweeps]:
        earlier = {} if budget.over else _probe(sweep[0], plan, say)
        for shape in sweep:
            group = _group(shape, plan, say, earlier, budget.next())
            for done in group:
                if done.spread is not None and done.peak_bytes is not None:
                    earlier[done.case.variant.label] = Earlier(shape.length, done.spread.median, done.peak_bytes)
            add(group)
            measured += group
    return measured


class Budget:
    """The time of a run: each group gets an even part of what is left."""

    def __init__(self, seconds: float | None, groups: int) -> None:
        self._end = None if seconds is None else monotonic() + seconds
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


def _probe(shape: Shape, plan: Plan, say: Callable[[str], None]) -> dict[str, Earlier | None]:
    """Look at every mechanism at fewer tokens, so that the first case is predicted like the others."""
    found: dict[str, Earlier | None] = {}
    for variant in plan.variants:
        say(f"{shape.layout}: {variant.label} at fewer tokens")
        found[variant.label] = probe(Case(variant, shape), plan.device, plan.dtype)
    return found


def _group(
    shape: Shape, plan: Plan, say: Callable[[str], None], earlier: Mapping[str, Earlier | None], share: float
) -> list[Measured]:
    """Measure every mechanism at one shape, on the same inputs, in `share` seconds."""
    gc.collect()
    ready: list[Measured] = []
    sweeps = shape.d_model is None
    said = f"{'lengths' if sweeps else 'layer'}, {shape.layout}, {shape.length:,} tokens, "
    said += f"{'causal ' * shape.causal}{shape.passes}"
    drawn = shape.draw(plan.device, plan.dtype)
    least = plan.repetitions if sweeps else plan.layer_repetitions
    limit = plan.limit if sweeps else float("inf")
    kept = share / 2 / len(plan.variants)  # for each of those that come later, so that the first does not take all
    for later, variant in zip(reversed(range(len(plan.variants))), plan.variants, strict=True):
        case = Case(variant, shape)
        say(f"{said}: {variant.label}")
        own = max(0.0, share - kept * later) if share < float("inf") else share
        if own > 0:
            earlier_one = earlier.get(variant.label)
            ready.append(attempt(case, drawn, earlier_one, repetitions=least, limit=min(limit, own)))
        else:  # its warm-up alone would take what is not there
            ready.append(Measured(case, skipped=OVER))
        share -= ready[-1].seconds
    before = read_load()
    times = interleave(
        {each.case.variant.label: partial(seconds_of, each.run, plan.device) for each in ready if each.run is not None},
        least=least,
        most=max(least, MOST_REPETITIONS) if sweeps else least,
        seconds=plan.seconds,
        after_round=lambda count: say(f"{said}: round {count}"),
    )
    load = load_since(before)
    spreads = {label: Spread.of(seconds) for label, seconds in times.items()}
    return [replace(each, spread=spreads.get(each.case.variant.label), load=load, run=None) for each in ready]


def attempt(
    case: Case,
    drawn: tuple[list[Tensor], Tensor | None],
    earlier: Earlier | None,
    *,
    repetitions: int = 0,
    limit: float = float("inf"),
) -> Measured:
    """Make a case ready to be timed, on inputs from `Shape.draw`.

    Time and memory are predicted from `earlier`, a shorter length of the same mechanism; without it the warm-up
    shows the time. All `repetitions` together may take `limit` seconds.
    """
    inputs, gradient = drawn
    device, dtype = inputs[0].device, inputs[0].dtype
    try:
        module = case.build()
        if earlier is not None and (reason := _too_much(case, earlier, device, repetitions, limit)):
            return Measured(case, skipped=reason)
        run = prepare(module.to(device, dtype), inputs, gradient)
        warm_up = [seconds_of(run, device) for _ in range(WARM_UP[device.type])]
        wanted = (1 + repetitions) * warm_up[-1]
        if reason := too_long(wanted, limit):
            return Measured(case, skipped=reason, seconds=sum(warm_up))
        return Measured(case, peak_bytes=peak_bytes(run, device), run=run, seconds=sum(warm_up) + wanted)
    except FAILURES as error:
        skipped = why_not(error)
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return Measured(case, skipped=skipped)


def probe(case: Case, device: torch.device, dtype: torch.dtype) -> Earlier | None:
    """Return the case's memory at an eighth of its length, None where it is refused.

    The time there is mostly overhead and set to 0.
    """
    shape = replace(case.shape, length=max(1, case.shape.length // _PROBE))
    ready = attempt(Case(case.variant, shape), shape.draw(device, dtype), None)
    return None if ready.peak_bytes is None else Earlier(shape.length, 0.0, ready.peak_bytes)


def _too_much(case: Case, earlier: Earlier, device: torch.device, repetitions: int, limit: float) -> str:
    variant, length, causal = case.variant, case.shape.length, case.shape.causal
    passes = WARM_UP[device.type] + 1 + repetitions
    peak = earlier.bytes_at(length, variant.memory_cost(causal))
    seconds = earlier.seconds_at(length, variant.time_cost(causal))
    return too_large(peak, free_bytes(device)) or too_long(passes * seconds, limit)
