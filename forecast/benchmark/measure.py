"""Measure the cases of a plan within time and memory."""

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Literal

import torch
from torch import Tensor

from forecast.attention._costs import Cost
from forecast.benchmark.case import Case, Shape, prepare
from forecast.benchmark.request import Plan
from forecast.common.cli import ran_out_of_memory
from forecast.common.errors import InputError
from forecast.common.memory import free_bytes, peak_bytes
from forecast.common.text import three_digits
from forecast.common.timing import UNKNOWN, Load, Spread, interleave, load_since, read_load, seconds_of

SHARE = 0.8
"""Of the free memory that a case may want: the prediction is no promise, and others run too."""


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


def too_large(wanted: float, free: int | None) -> str:
    """Return why a case of `wanted` bytes is left out, nothing where it fits or nobody knows what is free."""
    if free is None or wanted <= SHARE * free:
        return ""
    return f"memory: would need about {wanted / 2**30:,.1f} GiB, {free / 2**30:,.1f} GiB are free"


def too_long(wanted: float, limit: float) -> str:
    """Return why a case of `wanted` seconds is left out, nothing where it is within the limit."""
    return (
        ""
        if wanted <= limit
        else f"time: would take about {three_digits(wanted)} s, the limit is {three_digits(limit)} s"
    )


WARM_UP = {"cpu": 1, "cuda": 3}
"""Passes before anything is measured: kernels are chosen and loaded in them."""

_PROBE = 8


@dataclass(frozen=True)
class Attempt:
    """A case that is ready, with its peak memory, or `run` None and why it was left out.

    `seconds` is what all of its passes take, by its warm-up.
    """

    run: Callable[[], object] | None = None
    peak_bytes: int | None = None
    skipped: str = ""
    seconds: float = field(default=0.0, compare=False)


def attempt(
    case: Case,
    drawn: tuple[list[Tensor], Tensor | None],
    earlier: Earlier | None,
    *,
    repetitions: int = 0,
    limit: float = float("inf"),
) -> Attempt:
    """Prepare a case on the inputs that `Shape.draw` gave.

    Parameters
    ----------
    case : Case
        What is to be measured.
    drawn : tuple
        Its inputs and the output's gradient.
    earlier : Earlier or None
        A shorter length of the same mechanism, from which time and memory are foretold; without one the
        warm-up shows the time.
    repetitions, limit : int, float
        The passes that will be timed, and the seconds that all passes together may take.
    """
    inputs, gradient = drawn
    device, dtype = inputs[0].device, inputs[0].dtype
    try:
        module = case.build()
        if earlier is not None and (reason := _too_much(case, earlier, device, repetitions, limit)):
            return Attempt(skipped=reason)
        run = prepare(module.to(device, dtype), inputs, gradient)
        warm_up = [seconds_of(run, device) for _ in range(WARM_UP[device.type])]
        wanted = (1 + repetitions) * warm_up[-1]
        if reason := too_long(wanted, limit):
            return Attempt(skipped=reason, seconds=sum(warm_up))
        return Attempt(run, peak_bytes(run, device), seconds=sum(warm_up) + wanted)
    except InputError as refused:
        return Attempt(skipped=f"refused: {refused}")
    except RuntimeError as error:
        if not ran_out_of_memory(error):
            raise
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return Attempt(skipped="memory: the device has not enough")


def probe(case: Case, device: torch.device, dtype: torch.dtype) -> Earlier | None:
    """Return the memory that the case takes at an eighth of its length, None where it is refused.

    The time there says nothing, most of it is spent on calls and not on work: it is given as 0.
    """
    shape = replace(case.shape, length=max(1, case.shape.length // _PROBE))
    ready = attempt(Case(case.variant, shape), shape.draw(device, dtype), None)
    if ready.run is None or ready.peak_bytes is None:
        return None
    return Earlier(shape.length, 0.0, ready.peak_bytes)


def _too_much(case: Case, earlier: Earlier, device: torch.device, repetitions: int, limit: float) -> str:
    variant, length, causal = case.variant, case.shape.length, case.shape.causal
    passes = WARM_UP[device.type] + 1 + repetitions
    peak = earlier.bytes_at(length, variant.memory_cost(causal))
    seconds = earlier.seconds_at(length, variant.time_cost(causal))
    return too_large(peak, free_bytes(device)) or too_long(passes * seconds, limit)


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


def memory_bytes(wanted_gib: float | None, device: torch.device) -> int:
    """Return the bytes that were asked for, or those of the device: what a GPU has free, of a CPU four fifths of it.

    Raises
    ------
    InputError
        If the device has less than was asked for, or does not say what it has and nothing was asked for.
    """
    there = free_bytes(device)
    own = there if there is None or device.type == "cuda" else int(SHARE * there)
    if wanted_gib is None:
        if own is None:
            raise InputError("the system does not say how much memory is free: give --memory-gib")
        return own
    wanted = int(wanted_gib * 2**30)
    if there is not None and wanted > there:
        raise InputError(f"--memory-gib {wanted_gib:g}: {there / 2**30:.1f} GiB are there: ask for less")
    return wanted
