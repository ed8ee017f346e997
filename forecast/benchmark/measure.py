"""Time every mechanism at every length, within time and memory limits."""

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
"""Passes before the measurement, which select and load kernels."""

MOST_REPETITIONS = 200
"""Maximum repetitions of a case in a sweep."""

OVER = f"{TIME}: the time limit --minutes is reached"
"""Reason of a case that is skipped without a trial."""

_PROBE = 8


@dataclass(frozen=True)
class Plan:
    """All settings of a benchmark run; times are in seconds."""

    device: torch.device
    dtype: torch.dtype
    variants: tuple[Variant, ...]
    layers: list[Shape]  # with projections
    sweeps: list[list[Shape]]  # each by increasing length
    layer_repetitions: int  # minimum passes of a layer
    seconds: float  # minimum time of a sweep's case
    repetitions: int  # minimum passes of a sweep's case
    limit: float  # maximum total time of a sweep's case; slower cases are skipped
    fit_from: int  # shortest length for fitting exponents
    budget: float | None = None  # total time, shared evenly between the remaining groups; the rest is skipped

    @property
    def num_groups(self) -> int:
        """Number of groups of cases; a group is measured together."""
        return len(self.layers) + sum(map(len, self.sweeps))

    @property
    def num_cases(self) -> int:
        """Number of cases, including those that will be skipped."""
        return sum(
            len(self.cases(shape)) for shape in [*self.layers, *(each for sweep in self.sweeps for each in sweep)]
        )

    def cases(self, shape: Shape) -> list[Case]:
        """Return the cases of a group: all mechanisms, then in a layer of several heads the loop over heads.

        The loop is measured for the fused softmax, the first of the variants.
        """
        cases = [Case(variant, shape) for variant in self.variants]
        loops = shape.d_model is not None and shape.num_heads > 1
        return [*cases, Case(self.variants[0], shape, loop=True)] if loops else cases


@dataclass(frozen=True)
class Measured:
    """The result of a case: its times, peak memory and the machine's load, or the reason in `skipped`.

    A case that is ready to be timed has `run`, a function for one pass, and `seconds`, the estimate for all passes.
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
        """The table of this case."""
        return "lengths" if self.case.shape.d_model is None else "layer"


@dataclass(frozen=True)
class Earlier:
    """Cost of the same mechanism at a shorter length."""

    length: int
    seconds: float
    peak_bytes: int

    def seconds_at(self, length: int, cost: Cost | None) -> float:
        """Return the expected seconds of a pass at `length`; growth is quadratic if no cost is declared."""
        return self.seconds * (cost or Cost(length=2)).between(self.length, length)

    def bytes_at(self, length: int, cost: Cost | None) -> float:
        """Return the expected peak bytes at `length`; growth is quadratic if no cost is declared."""
        return self.peak_bytes * (cost or Cost(length=2)).with_output().between(self.length, length)


def measure(
    plan: Plan, say: Callable[[str], None] = lambda _: None, add: Callable[[list[Measured]], None] = lambda _: None
) -> list[Measured]:
    """Measure the layers, then each sweep by increasing length; return every case in this order.

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
                    earlier[done.case.label] = Earlier(shape.length, done.spread.median, done.peak_bytes)
            add(group)
            measured += group
    return measured


class Budget:
    """The time limit of a run; the remaining time is shared evenly between the remaining groups."""

    def __init__(self, seconds: float | None, groups: int) -> None:
        self._end = None if seconds is None else monotonic() + seconds
        self._groups = groups

    @property
    def over(self) -> bool:
        """Whether no time is left."""
        return self._end is not None and monotonic() >= self._end

    def next(self) -> float:
        """Return the seconds for the next group, infinite without a time limit."""
        left = float("inf") if self._end is None else max(0.0, self._end - monotonic())
        self._groups -= 1
        return left / (self._groups + 1)


def _probe(shape: Shape, plan: Plan, say: Callable[[str], None]) -> dict[str, Earlier | None]:
    """Measure every case at fewer tokens, so that the first one can be predicted too."""
    earlier: dict[str, Earlier | None] = {}
    for case in plan.cases(shape):
        say(f"{shape.layout}: {case.label} at fewer tokens")
        earlier[case.label] = probe(case, plan.device, plan.dtype)
    return earlier


def _group(
    shape: Shape, plan: Plan, say: Callable[[str], None], earlier: Mapping[str, Earlier | None], share: float
) -> list[Measured]:
    """Measure every mechanism at one shape, on the same inputs, in `share` seconds."""
    gc.collect()
    ready: list[Measured] = []
    is_sweep = shape.d_model is None
    text = f"{'lengths' if is_sweep else 'layer'}, {shape.layout}, {shape.length:,} tokens, "
    text += f"{'causal ' * shape.causal}{shape.passes}"
    inputs = shape.draw(plan.device, plan.dtype)
    least = plan.repetitions if is_sweep else plan.layer_repetitions
    limit = plan.limit if is_sweep else float("inf")
    cases = plan.cases(shape)
    reserved = share / 2 / len(cases)  # for each later case, so that the first does not use all
    for later, case in zip(reversed(range(len(cases))), cases, strict=True):
        say(f"{text}: {case.label}")
        available = max(0.0, share - reserved * later) if share < float("inf") else share
        if available > 0:
            shorter = earlier.get(case.label)
            ready.append(attempt(case, inputs, shorter, repetitions=least, limit=min(limit, available)))
        else:  # not even a warm-up fits
            ready.append(Measured(case, skipped=OVER))
        share -= ready[-1].seconds
    before = read_load()
    times = interleave(
        {done.case.label: partial(seconds_of, done.run, plan.device) for done in ready if done.run is not None},
        least=least,
        most=max(least, MOST_REPETITIONS) if is_sweep else least,
        seconds=plan.seconds,
        after_round=lambda count: say(f"{text}: round {count}"),
    )
    load = load_since(before)
    spreads = {label: Spread.of(seconds) for label, seconds in times.items()}
    return [replace(done, spread=spreads.get(done.case.label), load=load, run=None) for done in ready]


def attempt(
    case: Case,
    drawn: tuple[list[Tensor], Tensor | None],
    earlier: Earlier | None,
    *,
    repetitions: int = 0,
    limit: float = float("inf"),
) -> Measured:
    """Prepare a case for timing, on inputs from `Shape.draw`, or return the reason to skip it.

    Time and memory are predicted from `earlier`, a shorter length of the same mechanism, or from the warm-up without
    it. All `repetitions` together may take `limit` seconds.
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
    """Return the case's memory at 1/8 of its length, None if it fails there.

    The time at that length is mostly overhead and is set to 0.
    """
    shape = replace(case.shape, length=max(1, case.shape.length // _PROBE))
    ready = attempt(replace(case, shape=shape), shape.draw(device, dtype), None)
    return None if ready.peak_bytes is None else Earlier(shape.length, 0.0, ready.peak_bytes)


def _too_much(case: Case, earlier: Earlier, device: torch.device, repetitions: int, limit: float) -> str:
    variant, length, causal = case.variant, case.shape.length, case.shape.causal
    passes = WARM_UP[device.type] + 1 + repetitions
    peak = earlier.bytes_at(length, variant.memory_cost(causal))
    seconds = earlier.seconds_at(length, variant.time_cost(causal))
    return too_large(peak, free_bytes(device)) or too_long(passes * seconds, limit)
