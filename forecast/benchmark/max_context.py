"""The max-context benchmark: the largest look-back of each mechanism for training in a given memory."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from forecast.attention._parsing import Variant, named
from forecast.benchmark.limits import (
    FAILURES,
    MEMORY,
    limit_cuda,
    limit_process,
    measure_in_child,
    memory_bytes,
    too_long,
    why_not,
)
from forecast.benchmark.machine import choose_device, facts_of
from forecast.benchmark.measure import Earlier
from forecast.benchmark.models import Preset, Task, build_ours, our_peer, parse_preset
from forecast.benchmark.options import check_order, open_folder
from forecast.benchmark.report import CASES, SUMMARY, heading_of, print_report, write_record, write_unfinished
from forecast.common.memory import peak_memory_mib, reset_peak_memory
from forecast.common.progress import progress
from forecast.common.tables import Row, Table
from forecast.common.text import NONE, mebibytes, three_digits
from forecast.common.timing import seconds_of
from forecast.training.steps import prepare_optimizer, training_step


def run(options: Namespace, arguments: Sequence[str]) -> None:
    """Measure, write and print; raise `InputError` before any measurement if the options conflict."""
    if options.threads:
        torch.set_num_threads(options.threads)
    device = choose_device(options.device, torch.float32)
    check_order(options.shortest, options.longest)
    preset, variants = parse_preset(options.model), named(options.mechanisms)
    memory = memory_bytes(options.memory_gib, device)
    task = Task(options.shortest, options.horizon, options.batch, options.channels)
    build_ours(preset, variants[0], task)
    settings = {
        "model": options.model, "batch": task.batch, "channels": task.channels, "horizon": task.horizon,
        "memory_gib": memory / 2**30,
    }  # fmt: skip
    facts = settings | facts_of(device, options.dtype, arguments)
    folder = open_folder(options.output)
    if device.type == "cuda":
        limit_cuda(memory, device)
    rows: list[Row] = []
    summaries: list[Row] = []
    with progress(len(variants), quiet=options.quiet) as (say, advance):
        for variant in variants:
            request = Request(preset, variant, task, options.dtype, str(device), memory)
            attempt, trials = attempt_of(request, options.limit, say), []
            for trial in search(attempt, shortest=options.shortest, longest=options.longest, within=options.within):
                trials.append(trial)
                rows.append(trial_row(variant, trial, facts))
                write_unfinished(folder, rows)
            summaries.append(summary_row(variant, trials, facts))
            advance(1)
    table = context_table(summaries, within=options.within, on_gpu=device.type == "cuda")
    head = heading_of("The largest look-back of each mechanism", facts)
    write_record(folder, head, [table], {CASES: rows, SUMMARY: summaries})
    print_report(folder, [table], quiet=options.quiet)


@dataclass(frozen=True)
class Trial:
    """The outcome of one look-back; bytes and seconds are None if the step did not finish.

    `why` is empty if the step fits, else it begins with `memory`, `time` or `refused`.
    """

    look_back: int
    peak_bytes: int | None = None
    seconds: float | None = None
    why: str = ""

    @property
    def fits(self) -> bool:
        """Whether the step fits."""
        return not self.why


def search(attempt: Callable[[int], Trial], *, shortest: int, longest: int, within: float) -> Iterator[Trial]:
    """Yield trials until the largest look-back that fits is known, by doubling up to `longest` and then bisecting.

    The search ends once the gap is at most the fraction `within` of that look-back, or if a trial fails for another
    reason than memory.
    """
    trials: list[Trial] = []
    look_back: int | None = shortest
    while look_back is not None:
        trials.append(attempt(look_back))
        yield trials[-1]
        look_back = _next(trials, longest, within)


def _next(trials: Sequence[Trial], longest: int, within: float) -> int | None:
    """Return the next look-back to try, twice the largest that fits or the middle of the gap; None at the end."""
    best, failed = largest(trials), smallest_failed(trials)
    if best is None:
        return None
    if failed is None:
        return min(2 * best.look_back, longest) if best.look_back < longest else None
    if any(not trial.why.startswith(MEMORY) for trial in trials if not trial.fits):
        return None
    gap = failed.look_back - best.look_back
    return None if gap <= max(1, within * best.look_back) else best.look_back + gap // 2


def largest(trials: Sequence[Trial]) -> Trial | None:
    """Return the trial of the largest look-back that fits, None if none fits."""
    return max((trial for trial in trials if trial.fits), key=lambda trial: trial.look_back, default=None)


def smallest_failed(trials: Sequence[Trial]) -> Trial | None:
    """Return the trial of the smallest look-back that does not fit, None if all fit."""
    return min((trial for trial in trials if not trial.fits), key=lambda trial: trial.look_back, default=None)


@dataclass(frozen=True)
class Request:
    """The configuration of a trial; `memory_bytes` is the limit of the process or the device."""

    preset: Preset
    variant: Variant
    task: Task
    precision: str
    device: str
    memory_bytes: int


def attempt_of(request: Request, limit: float, say: Callable[[str], None]) -> Callable[[int], Trial]:
    """Return a function that tries a look-back with the other settings of `request`, and calls `say` first.

    It skips a step if the last step that fits predicts more than `limit` seconds.
    """
    variant = request.variant
    fitting: list[Earlier] = []

    def attempt(look_back: int) -> Trial:
        say(f"{variant.label}: {look_back:,}")
        if why := predicted_too_long(look_back):
            return Trial(look_back, why=why)
        changed = replace(request, task=replace(request.task, context_length=look_back))
        trial = try_here(changed) if request.device.startswith("cuda") else try_in_child(changed, limit)
        if trial.fits and trial.peak_bytes is not None and trial.seconds is not None:
            fitting.append(Earlier(look_back, trial.seconds, trial.peak_bytes))
        return trial

    def predicted_too_long(look_back: int) -> str:
        if not fitting:
            return ""
        return too_long(fitting[-1].seconds_at(look_back, variant.time_cost(causal=False)), limit)

    return attempt


def try_here(request: Request) -> Trial:
    """Run a step in this process with an allocated optimizer state; running out of memory is a failed trial."""
    device, look_back = torch.device(request.device), request.task.context_length
    reset_peak_memory(device)
    try:
        peer = our_peer(build_ours(request.preset, request.variant, request.task), request.task.draw(device))
        prepare_optimizer(peer)
        seconds = seconds_of(training_step(peer, request.precision), device)
    except FAILURES as error:
        return Trial(look_back, why=why_not(error))
    peak = int(peak_memory_mib(device) * 2**20)
    why = f"{MEMORY}: took {peak / 2**30:,.2f} GiB" if peak > request.memory_bytes else ""
    return Trial(look_back, peak, seconds, why)


def try_in_child(request: Request, limit: float) -> Trial:
    """Run a step in a new process within `limit` seconds."""
    look_back = request.task.context_length
    reply = measure_in_child(
        "forecast.benchmark.max_context:try_confined",
        asdict(request),
        limit,
        label=f"look-back {look_back:,} of {request.variant.label}",
        late=f"the step took more than {limit:,.0f} s",
    )
    return Trial(**{"look_back": look_back, **reply})


def try_confined(preset: Any, variant: Any, task: Any, **rest: Any) -> dict[str, Any]:
    """Run the trial of a `Request` within its memory limit; a child process calls this."""
    request = Request(Preset(**preset), Variant(**variant), Task(**task), **rest)
    limit_process(request.memory_bytes)
    return asdict(try_here(request))


HEADINGS = ("mechanism", "largest that fits", "smallest that fails", "peak MiB", "step s", "trials")


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
    """Return a mechanism's row: the largest look-back that fits with its cost, and the smallest that fails."""
    best, failed = largest(trials), smallest_failed(trials)
    return {
        "mechanism": variant.label,
        "look_back": None if best is None else best.look_back,
        "does_not_fit": None if failed is None else failed.look_back,
        "why": "" if failed is None else failed.why,
        "peak_bytes": None if best is None else best.peak_bytes,
        "seconds": None if best is None else best.seconds,
        "trials": len(trials),
        **facts,
    }


def context_table(rows: Sequence[Row], *, within: float, on_gpu: bool) -> Table:
    """Return the table of the mechanisms' rows."""
    first = rows[0]
    where = (
        "torch's allocations on the GPU, without the CUDA context"
        if on_gpu
        else "of a separate process, including libraries"
    )
    notes = (
        f"one training step in {first['dtype']}: forward, loss, backward, AdamW with its state; "
        f"batch {first['batch']}, {first['channels']} series, horizon {first['horizon']}; "
        f"{first['model']}",
        f"search: doubling, then bisection to {100 * within:g} %; memory: {where}; step s: time of the largest step "
        "that fits, without warm-up",
        *(f"{row['mechanism']}: {_ending(row)}" for row in rows),
    )
    title = f"The largest look-back within {first['memory_gib']:.2f} GiB"
    return Table(title, HEADINGS, [_cells(row) for row in rows], notes)


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
    """Return the reason for the end of a mechanism's search."""
    if row["does_not_fit"] is None:
        return "fits up to --longest"
    return f"{row['does_not_fit']:,}: {row['why']}"


def _length(value: int | None) -> str:
    return NONE if value is None else f"{value:,}"
