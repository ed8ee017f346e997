"""A plan from the command line to its tables: candidates, measurements, and where asked for the trainings beside."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from signal import SIGINT
from typing import Any

import torch
from rich.console import Console

from forecast.benchmark.limits import REFUSED, SHARE, memory_bytes
from forecast.benchmark.machine import facts_of
from forecast.common.errors import InputError, Interrupted
from forecast.common.files import write_json
from forecast.common.progress import progress
from forecast.common.tables import WIDTH, show
from forecast.data.sources import Source, load_source
from forecast.plan.candidates import Candidate, candidates_of
from forecast.plan.estimates import Put, estimate, measure, try_sizes
from forecast.plan.messages import RUN, Answer, Ask, ask_child
from forecast.plan.pairs import PEAK, TIME, Pair, compare, rank
from forecast.plan.tables import check_table, plan_table


def run(options: Namespace, arguments: Sequence[str]) -> None:
    """Measure, print and write as the options say."""
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

        measured = _measure(candidates, put, lambda: advance(1), options, memory)
        rows = [estimate(candidate, measured[candidate.label][0], room) for candidate in candidates]
        if options.confirm:
            for candidate, row in zip(candidates, rows, strict=True):
                row["trials"] = try_sizes(candidate, row, put, memory)
    planned = [answer for answers, _ in measured.values() for answer in answers if answer.length is not None]
    if not planned:
        raise InputError(rows[0]["why"].removeprefix(f"{REFUSED}: "))
    facts = {
        "data": settings.data.name, "context_length": settings.context_length, "horizon": settings.horizon,
        "batch": settings.training.batch_size, "rounds": options.rounds,
        "memory_gib": memory / 2**30, "room_gib": room / 2**30,
        **vars(planned[0].length), **facts_of(device, settings.training.precision, arguments, "forecast.plan"),
    }  # fmt: skip
    check = _check({label: pairs for label, (_, pairs) in measured.items() if pairs}, options.check)
    tables = [plan_table(rows, facts), *([] if check is None else [check_table(check)])]
    show(Console(width=max(Console().width, WIDTH)), tables)
    if options.output is not None:
        write_json(options.output, {**facts, "mechanisms": rows, "check": check})
        print(f"{options.output}: the plan, as JSON")


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


Measured = dict[str, tuple[list[Answer], list[Pair]]]


def _measure(
    candidates: Sequence[Candidate], put: Put, done: Callable[[], None], options: Namespace, memory: int
) -> Measured:
    """Measure the mechanisms in rounds of alternating order; with `check`, each with a training beside.

    What failed once is not measured again.
    """
    measured: Measured = {candidate.label: ([], []) for candidate in candidates}
    for number in range(options.rounds):
        for candidate in candidates if number % 2 == 0 else reversed(candidates):
            answers, pairs = measured[candidate.label]
            if not answers or not answers[-1].why:
                before = _train(candidate, put, options) if options.check and number % 2 else None
                answer = measure(candidate, put, options.seconds, memory, answers[0] if answers else None)
                answers.append(answer)
                if options.check and not answer.why:
                    pairs.append(Pair.of(answer, before or _train(candidate, put, options)))
            done()
    return measured


def _train(candidate: Candidate, put: Put, options: Namespace) -> Answer:
    assert candidate.config is not None
    training = dict(candidate.config["training"])
    if options.check_steps is not None:
        training["max_steps"] = options.check_steps
    return put(Ask(RUN, {**candidate.config, "training": training}, 0.0, 0), candidate.label)


def _check(pairs: Mapping[str, Sequence[Pair]], rounds: int) -> dict[str, Any] | None:
    if not rounds or not pairs:
        return None
    compared = {label: {what: compare(made, what) for what in (TIME, PEAK)} for label, made in pairs.items()}
    ranking = {what: rank({label: each[what] for label, each in compared.items()}) for what in (TIME, PEAK)}
    return {"pairs": rounds, "mechanisms": compared, "ranking": ranking}
