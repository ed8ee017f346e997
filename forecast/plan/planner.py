"""A plan from the command line to its table: candidates, measurements, estimates."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT
from typing import Any

import torch
from rich.console import Console

from forecast.benchmark.limits import REFUSED, SHARE, memory_bytes
from forecast.benchmark.machine import facts_of
from forecast.common.errors import InputError, Interrupted
from forecast.common.files import check_place, write_json
from forecast.common.progress import progress
from forecast.common.tables import WIDTH, Table, show
from forecast.data.sources import Source, load_source
from forecast.plan.candidates import Candidate, candidates_of
from forecast.plan.estimates import Put, Row, estimate, measure, try_sizes
from forecast.plan.messages import Answer, Ask, ask_child
from forecast.plan.tables import plan_table

Measure = Callable[[Candidate, Put, float, int, Answer | None], Answer]
"""Measures a mechanism once, as `estimates.measure` does."""


def run(options: Namespace, arguments: Sequence[str]) -> None:
    """Measure, print and write as the options say."""
    rows, facts = plan(options, arguments)
    publish([plan_table(rows, facts)], {**facts, "mechanisms": rows}, options.output)


def publish(tables: Sequence[Table], content: Mapping[str, Any], output: Path | None) -> None:
    """Print the tables, and write the content where a file is named."""
    show(Console(width=max(Console().width, WIDTH)), tables)
    if output is not None:
        write_json(output, content)
        print(f"{output}: the plan, as JSON")


def plan(
    options: Namespace, arguments: Sequence[str], *, measure: Measure = measure, module: str = "forecast.plan"
) -> tuple[list[Row], dict[str, Any]]:
    """Return the rows of the mechanisms and what they share, of the command `python -m module arguments`."""
    if options.output is not None:
        check_place(options.output)
    if options.threads:
        torch.set_num_threads(options.threads)
    candidates = candidates_of(options.overrides, options.mechanisms)
    settings = next(candidate.settings for candidate in candidates if candidate.settings is not None)
    # what is wrong with the data is said before any process is started
    source = load_source(settings.data)
    device = settings.trainer.device()
    memory = memory_bytes(options.memory_gib, device)
    # of a GPU, what the driver takes and the allocator reserves is in no estimate
    room = int(SHARE * memory) if device.type == "cuda" else memory

    opening, total = _opening(source, candidates, options), len(candidates) * options.rounds
    with _whole(), progress(total, quiet=options.quiet, opening=opening, elsewhere=True) as (say, advance):

        def put(ask: Ask, label: str) -> Answer:
            say(f"{label}: {ask.what}")
            return ask_child(ask, label, options.limit)

        measured: dict[str, list[Answer]] = {candidate.label: [] for candidate in candidates}
        for number in range(options.rounds):
            for candidate in candidates if number % 2 == 0 else reversed(candidates):
                answers = measured[candidate.label]
                if not answers or not answers[-1].why:  # what failed once is not measured again
                    answers.append(measure(candidate, put, options.seconds, memory, answers[0] if answers else None))
                advance(1)
        rows = [estimate(candidate, measured[candidate.label], room) for candidate in candidates]
        if options.confirm:
            for candidate, row in zip(candidates, rows, strict=True):
                row["trials"] = try_sizes(candidate, row, put, memory)
    planned = [answer for answers in measured.values() for answer in answers if answer.length is not None]
    if not planned:
        raise InputError(rows[0]["why"].removeprefix(f"{REFUSED}: "))
    return rows, {
        "data": settings.data.name, "context_length": settings.context_length, "horizon": settings.horizon,
        "batch": settings.training.batch_size, "rounds": options.rounds,
        "memory_gib": memory / 2**30, "room_gib": room / 2**30,
        **vars(planned[0].length), **facts_of(device, settings.training.precision, arguments, module),
    }  # fmt: skip


@contextmanager
def _whole() -> Iterator[None]:
    """Say of an interrupt that a plan is not kept in parts, and how it is quicker."""
    try:
        yield
    except KeyboardInterrupt:
        cure = "--rounds 1 and --mechanisms full mean make it shorter, data.targets=[one,two] makes each part quicker"
        raise Interrupted(f"interrupted: a plan is all or nothing, and nothing was written: {cure}", SIGINT) from None


def _opening(source: Source, candidates: Sequence[Candidate], options: Namespace) -> str:
    return (
        f"planning {len(candidates)} mechanism{'s' * (len(candidates) > 1)} in {options.rounds} rounds for "
        f"{len(source.series.frame):,} rows of {len(source.targets)} targets: in each, a process reads the data, fits "
        f"the linear maps and makes {options.seconds:g} s of steps; nothing is trained to its end"
    )
