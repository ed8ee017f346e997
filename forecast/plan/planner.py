"""Make a plan: candidates, measurements, estimates and a table."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT
from typing import Any

import torch
from rich.console import Console

from forecast.benchmark.limits import DISK, DISK_CODE, MEMORY, REFUSED, SHARE, memory_bytes
from forecast.benchmark.machine import facts_of
from forecast.common.cli import what_to_make_smaller
from forecast.common.errors import InputError, Interrupted, NotEnoughMemory, ProcessFailed
from forecast.common.files import check_place, write_json
from forecast.common.progress import progress
from forecast.common.tables import WIDTH, Table, show
from forecast.common.text import counted
from forecast.data.sources import Source, load_source
from forecast.plan.candidates import Candidate, candidates_of
from forecast.plan.estimates import Row, Send, estimate, measure, try_sizes
from forecast.plan.messages import Answer, Request, request_child
from forecast.plan.tables import plan_table
from forecast.runs.settings import Settings, follow_table
from forecast.training.start_from import beginning_of

Measure = Callable[[Candidate, Send, float, int, Answer | None], Answer]
"""Measures a mechanism once, as `estimates.measure` does."""


def run(options: Namespace, arguments: Sequence[str]) -> None:
    """Measure, then print the table and write the file."""
    rows, facts = plan(options, arguments)
    publish([plan_table(rows, facts)], {**facts, "mechanisms": rows}, options.output)


def publish(tables: Sequence[Table], content: Mapping[str, Any], output: Path | None) -> None:
    """Print the tables, and write the content to `output` if it is a file."""
    show(Console(width=max(Console().width, WIDTH)), tables)
    if output is not None:
        write_json(output, content)
        print(f"{output}: the plan, as JSON")


def plan(
    options: Namespace, arguments: Sequence[str], *, measure: Measure = measure, module: str = "forecast.plan"
) -> tuple[list[Row], dict[str, Any]]:
    """Return the rows of the mechanisms and their common facts for the command `python -m module arguments`."""
    if options.output is not None:
        check_place(options.output)
    if options.threads:
        torch.set_num_threads(options.threads)
    candidates = candidates_of(options.overrides, options.mechanisms)
    settings = next(candidate.settings for candidate in candidates if candidate.settings is not None)
    # load the data here, so that errors in them appear before any process starts
    source = load_source(settings.data)
    candidates = [candidate.at_table(source) for candidate in candidates]
    settings = follow_table(settings, source)[0]
    device = settings.trainer.device()
    memory = memory_bytes(options.memory_gib, device)
    # on a GPU the estimates leave out the memory of the driver and of the allocator's cache
    usable = int(SHARE * memory) if device.type == "cuda" else memory

    opening, total = _opening(source, candidates, options), len(candidates) * options.rounds
    with _explain_interrupt(), progress(total, quiet=options.quiet, opening=opening, elsewhere=True) as (say, advance):

        def send(request: Request, label: str) -> Answer:
            say(f"{label}: {request.what}")
            return request_child(request, label, options.limit)

        measured: dict[str, list[Answer]] = {candidate.label: [] for candidate in candidates}
        for number in range(options.rounds):
            for candidate in candidates if number % 2 == 0 else reversed(candidates):
                answers = measured[candidate.label]
                if not answers or not answers[-1].why:  # a failed mechanism is not measured again
                    answers.append(measure(candidate, send, options.seconds, memory, answers[0] if answers else None))
                advance(1)
        rows = [estimate(candidate, measured[candidate.label], usable) for candidate in candidates]
        if options.confirm:
            for candidate, row in zip(candidates, rows, strict=True):
                row["trials"] = try_sizes(candidate, row, send, memory)
    planned = [answer for answers in measured.values() for answer in answers if answer.length is not None]
    if not planned:
        raise _nothing_planned(rows[0]["why"], settings)
    return rows, {
        "data": settings.data.name, "context_length": settings.context_length, "horizon": settings.horizon,
        "batch": settings.training.batch_size, "rounds": options.rounds, **_start(settings),
        "memory_gib": memory / 2**30, "room_gib": usable / 2**30,
        **vars(planned[0].length), **facts_of(device, settings.training.precision, arguments, module),
    }  # fmt: skip


def _start(settings: Settings) -> dict[str, Any]:
    """Return which weights begin the training, and its learning rate."""
    start = beginning_of(settings.start_from)
    return {"start_from": None if start is None else start.facts, "learning_rate": settings.optimizer.get("lr")}


def _nothing_planned(why: str, settings: Settings) -> Exception:
    """Return the error for a plan without a mechanism, for the reason of the first one."""
    if why.startswith(MEMORY):
        return NotEnoughMemory(f"{why}: {what_to_make_smaller(settings.plain)}")
    if why.startswith(DISK):
        return ProcessFailed(why.removeprefix(f"{DISK}: "), DISK_CODE)
    return InputError(why.removeprefix(f"{REFUSED}: "))


@contextmanager
def _explain_interrupt() -> Iterator[None]:
    """Turn an interrupt into a message that nothing was written, with options for a shorter plan."""
    try:
        yield
    except KeyboardInterrupt:
        cure = "for a shorter plan use --rounds 1, --mechanisms full mean or data.targets=[one,two]"
        raise Interrupted(f"interrupted: nothing was written, since a plan cannot resume: {cure}", SIGINT) from None


def _opening(source: Source, candidates: Sequence[Candidate], options: Namespace) -> str:
    return (
        f"planning {counted(len(candidates), 'mechanism')} in {counted(options.rounds, 'round')} for "
        f"{len(source.series.frame):,} rows and {counted(len(source.targets), 'target')}: each round reads the data, "
        f"fits the linear maps and runs {options.seconds:g} s of training steps; no training is completed"
    )
