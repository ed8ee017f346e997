"""One case made ready for timing: warmed up and its memory measured, or left out with a word why."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from forecast.benchmark.case import Case, prepare
from forecast.benchmark.room import Earlier, too_large, too_long
from forecast.common.errors import InputError
from forecast.common.free_memory import free_bytes
from forecast.common.out_of_memory import ran_out_of_memory
from forecast.common.peak import peak_bytes
from forecast.common.timing import seconds_of

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
    variant, length, words = case.variant, case.shape.length, case.variant.words(case.shape.causal)
    passes = WARM_UP[device.type] + 1 + repetitions
    peak = earlier.bytes_at(length, variant.memory_cost, words)
    seconds = earlier.seconds_at(length, variant.time_cost, words)
    return too_large(peak, free_bytes(device)) or too_long(passes * seconds, limit)
