"""One look-back tried, and the search for the longest that fits."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from forecast.attention._parsing import Variant
from forecast.benchmark.measure import Earlier, too_long
from forecast.benchmark.models import Preset, Task, build_ours, our_peer
from forecast.common.cli import ran_out_of_memory
from forecast.common.errors import InputError
from forecast.common.memory import peak_memory_mib, reset_peak_memory
from forecast.common.processes import child_environment
from forecast.common.tables import Row, Sheet
from forecast.common.text import NONE, mebibytes, three_digits
from forecast.common.timing import seconds_of
from forecast.training.steps import prepare_optimizer, training_step

MEMORY, TIME, REFUSED = "memory", "time", "refused"
"""Why a trial failed, as its words begin."""


@dataclass(frozen=True)
class Trial:
    """A look-back that was tried: whether a training step fits, what it took, or why it does not.

    Attributes
    ----------
    peak_bytes, seconds
        Of the step; None where it did not come to its end.
    why
        Empty where it fits, else words that begin with `memory`, `time` or `refused`.
    """

    look_back: int
    peak_bytes: int | None = None
    seconds: float | None = None
    why: str = ""

    @property
    def fits(self) -> bool:
        """Whether it does."""
        return not self.why


def search(attempt: Callable[[int], Trial], *, shortest: int, longest: int, within: float) -> list[Trial]:
    """Try look-backs until the largest that fits is known; give all trials in the order in which they were made.

    Parameters
    ----------
    attempt : callable
        Tries a look-back.
    shortest, longest : int
        Where doubling begins, and what it does not pass.
    within : float
        The search ends once the shortest that does not fit is at most this share above the longest that does.
        Memory alone is searched for: a trial that fails for any other reason ends it.
    """
    trials = [attempt(shortest)]
    while trials[-1].fits and trials[-1].look_back < longest:
        trials.append(attempt(min(2 * trials[-1].look_back, longest)))
    while (middle := _middle(trials, within)) is not None:
        trials.append(attempt(middle))
    return trials


def largest(trials: Sequence[Trial]) -> Trial | None:
    """Return the trial of the largest look-back that fits, None where none does."""
    return max((trial for trial in trials if trial.fits), key=lambda trial: trial.look_back, default=None)


def smallest_failed(trials: Sequence[Trial]) -> Trial | None:
    """Return the trial of the smallest look-back that does not fit, None where all do."""
    return min((trial for trial in trials if not trial.fits), key=lambda trial: trial.look_back, default=None)


def _middle(trials: Sequence[Trial], within: float) -> int | None:
    """Return the look-back in the middle of the gap, None where the search is over."""
    found, failed = largest(trials), smallest_failed(trials)
    if found is None or failed is None:
        return None
    if any(not trial.why.startswith(MEMORY) for trial in trials if not trial.fits):
        return None
    gap = failed.look_back - found.look_back
    return None if gap <= max(1, within * found.look_back) else found.look_back + gap // 2


@dataclass(frozen=True)
class Ask:
    """What a trial needs, as plain values; `memory_bytes` may not be passed by the process or on the device."""

    preset: Preset
    variant: Variant
    task: Task
    precision: str
    device: str
    memory_bytes: int

    def to_json(self) -> str:
        """Return it as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Ask":
        """Return what `to_json` was made of."""
        plain: Mapping[str, Any] = json.loads(text)
        parts = {"preset": Preset(**plain["preset"]), "variant": Variant(**plain["variant"])}
        return cls(**{**plain, **parts, "task": Task(**plain["task"])})


def try_here(ask: Ask) -> Trial:
    """Make a step in this process; a device that has not enough memory is a trial that failed.

    The optimizer's state is there before the step, as it is in every step but a run's first.
    """
    device, look_back = torch.device(ask.device), ask.task.context_length
    reset_peak_memory(device)
    try:
        peak, seconds = _step(ask, device)
    except InputError as refused:
        return Trial(look_back, why=f"{REFUSED}: {refused}")
    except MemoryError:
        return Trial(look_back, why=f"{MEMORY}: the process had no more")
    except RuntimeError as error:
        if not ran_out_of_memory(error):
            raise
        return Trial(look_back, why=f"{MEMORY}: the device has not enough")
    if peak > ask.memory_bytes:
        return Trial(look_back, peak, seconds, why=f"{MEMORY}: took {peak / 2**30:,.2f} GiB")
    return Trial(look_back, peak, seconds)


def limit_cuda(memory_bytes: int, device: torch.device) -> None:
    """Let torch's allocator have no more of the GPU than so many bytes."""
    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, memory_bytes / total), device)


def confine(memory_bytes: int) -> None:
    """Let this process allocate no more than so many bytes from here on, its threads and libraries at work already."""
    side = torch.ones(256, 256)
    side @ side  # threads and libraries come with the first product, which cannot fail for want of memory
    limit_process(memory_bytes)


def limit_process(memory_bytes: int) -> None:
    """Let this process allocate no more than so many bytes, where the system can see to it.

    What is allocated and not yet used counts too; files that are mapped, such as libraries, do not.
    """
    if sys.platform == "linux":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, most))


def _step(ask: Ask, device: torch.device) -> tuple[int, float]:
    """Return the peak in bytes and the seconds of the step."""
    peer = our_peer(build_ours(ask.preset, ask.variant, ask.task), ask.task.draw(device))
    prepare_optimizer(peer)
    seconds = seconds_of(training_step(peer, ask.precision), device)
    return int(peak_memory_mib(device) * 2**20), seconds


def main(argument: str) -> None:
    """Make the trial in this process, within the memory that it may take, and print it."""
    ask = Ask.from_json(argument)
    confine(ask.memory_bytes)
    print(json.dumps(asdict(try_here(ask))))


STARTING = 120.0
"""Seconds that a process may take before its step begins: imports and building the model."""

_OUT_OF_MEMORY = (
    "bad_alloc",
    "MemoryError",
    "Cannot allocate memory",
    "can't allocate memory",
    "Thread creation failed",
)
"""What a process says that died of the limit in a library that knows no better."""


def try_in_child(ask: Ask, limit: float) -> Trial:
    """Make a step in a new process.

    Parameters
    ----------
    ask : Ask
        What is tried.
    limit : float
        Seconds that the step may take.

    Raises
    ------
    RuntimeError
        If the process failed for anything but memory or time, with what it said.
    """
    look_back = ask.task.context_length
    try:
        ended = run_module("forecast.benchmark.trial", ask.to_json(), limit + STARTING)
    except subprocess.TimeoutExpired:
        return Trial(look_back, why=f"{TIME}: the step took more than {limit:,.0f} s")
    if ended.returncode == 0:
        return Trial(**json.loads(ended.stdout.splitlines()[-1]))
    if died_of_memory(ended):
        return Trial(look_back, why=f"{MEMORY}: the process had no more")
    raise RuntimeError(f"look-back {look_back:,} of {ask.variant.label} ended with {ended.returncode}: {ended.stderr}")


def run_module(module: str, argument: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run `python -m module argument`, of this very package and with as many threads as this process computes with.

    Raises
    ------
    subprocess.TimeoutExpired
        If it took longer than `seconds`; it is stopped then.
    """
    command = [sys.executable, "-m", module, argument]
    environment = child_environment(torch.get_num_threads())
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=seconds)


def died_of_memory(ended: subprocess.CompletedProcess[str]) -> bool:
    """Return whether a process ended because it ran out of memory."""
    return ended.returncode == -signal.SIGKILL or any(words in ended.stderr for words in _OUT_OF_MEMORY)


@dataclass(frozen=True)
class Watch:
    """Who is told: `say` before each trial, `add` after it."""

    say: Callable[[str], None] = lambda _: None
    add: Callable[[Variant, Trial], None] = lambda _, __: None


def attempt_of(ask: Ask, limit: float, watch: Watch) -> Callable[[int], Trial]:
    """Return what tries a look-back in place of that of `ask`.

    Parameters
    ----------
    ask : Ask
        The mechanism and all that stays the same.
    limit : float
        Seconds: a step that the last one that fits foretells to take longer is not made.
    watch : Watch
        Who is told.
    """
    variant = ask.variant
    fitted: list[Earlier] = []

    def attempt(look_back: int) -> Trial:
        watch.say(f"{variant.label}: {look_back:,}")
        trial = Trial(look_back, why=foretold(look_back))
        if trial.fits:
            asked = replace(ask, task=replace(ask.task, context_length=look_back))
            trial = try_here(asked) if ask.device.startswith("cuda") else try_in_child(asked, limit)
        if trial.fits and trial.peak_bytes is not None and trial.seconds is not None:
            fitted.append(Earlier(look_back, trial.seconds, trial.peak_bytes))
        watch.add(variant, trial)
        return trial

    def foretold(look_back: int) -> str:
        if not fitted:
            return ""
        return too_long(fitted[-1].seconds_at(look_back, variant.time_cost(causal=False)), limit)

    return attempt


HEADINGS = ("mechanism", "look-back that fits", "that does not", "peak MiB", "seconds", "trials")


def trial_row(variant: Variant, trial: Trial, facts: Mapping[str, Any]) -> Row:
    """Return a trial's row."""
    return {
        "mechanism": variant.label,
        "look_back": trial.look_back,
        "fits": trial.fits,
        "peak_bytes": trial.peak_bytes,
        "seconds": trial.seconds,
        "why": trial.why,
        **facts,
    }


def summary_row(variant: Variant, trials: Sequence[Trial], facts: Mapping[str, Any]) -> Row:
    """Return a mechanism's row: the largest look-back that fits, with what its step took, and what came after it."""
    found, failed = largest(trials), smallest_failed(trials)
    return {
        "mechanism": variant.label,
        "look_back": None if found is None else found.look_back,
        "does_not_fit": None if failed is None else failed.look_back,
        "why": "" if failed is None else failed.why,
        "peak_bytes": None if found is None else found.peak_bytes,
        "seconds": None if found is None else found.seconds,
        "trials": len(trials),
        **facts,
    }


def context_sheet(rows: Sequence[Row], *, within: float, on_gpu: bool) -> Sheet:
    """Return the table of the mechanisms' rows."""
    first = rows[0]
    where = (
        "allocated by torch on the GPU, whose own context comes on top"
        if on_gpu
        else "of a process of its own, libraries included"
    )
    notes = (
        f"one training step in {first['dtype']}: forward, loss, backward, AdamW with its state; "
        f"batch {first['batch']}, {first['channels']} series, horizon {first['horizon']}; "
        f"{first['model']}",
        f"found by doubling, then by halving the gap to {100 * within:g} %; memory {where}; seconds: of that step, "
        "which is the first",
        *(f"{row['mechanism']}: {_ending(row)}" for row in rows),
    )
    title = f"The largest look-back within {first['memory_gib']:.2f} GiB"
    return Sheet(title, HEADINGS, [_cells(row) for row in rows], notes)


def _cells(row: Row) -> list[str]:
    return [
        row["mechanism"],
        _length(row["look_back"]),
        _length(row["does_not_fit"]),
        mebibytes(row["peak_bytes"]),
        three_digits(row["seconds"]),
        str(row["trials"]),
    ]


def _ending(row: Row) -> str:
    """Say what ended a mechanism's search."""
    if row["does_not_fit"] is None:
        return "fits as far as was asked"
    return f"{row['does_not_fit']:,}: {row['why']}"


def _length(value: int | None) -> str:
    return NONE if value is None else f"{value:,}"


if __name__ == "__main__":
    main(sys.argv[1])
