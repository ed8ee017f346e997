"""Measure a mechanism, in a separate process because peak memory covers everything a process has done."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from forecast.benchmark.limits import FAILURES, MEMORY, SHARE, limit_cuda, limit_process, why_not
from forecast.common.memory import peak_memory_mib, reset_peak_memory
from forecast.common.timing import seconds_of
from forecast.data.sources import load_source
from forecast.evaluation.holdout import blocks
from forecast.evaluation.scoring import score
from forecast.plan.clock import FIRST_VALIDATION, LEAST, MOST, WARM_UP, StepClock
from forecast.plan.footprint import Footprint, calibrated
from forecast.plan.memory import measure_levels, peer_of
from forecast.plan.messages import AGAIN, MEASURE, SMALL, STEP, Answer, Request
from forecast.plan.pace import Length
from forecast.runs.settings import Settings
from forecast.training.fit import fit
from forecast.training.prepare import Preparation, prepare
from forecast.training.steps import evaluation_batch, precision_of, training_step
from forecast.training.tensorboard.logger import check_logger, log_start, make_loggers

EVALUATION_BATCHES, EVALUATION_WINDOWS = (4, 8), 64
"""Minimum and maximum batches of each validation in the short training, and the windows that decide their number. All
batches but the first are timed; the times of single batches differ by 10 %."""

SCORED_BATCHES = 2
"""Batches of each split that are scored to time the end of a run."""

SHRINK = 8
"""Divisor of the batches to measure the memory of a training that does not fit."""

USUAL_FACTOR = 1.5
"""Bytes in use per byte that torch allocates, if no training has measured it."""

WORTH = 1.1
"""Least growth of windows per second for which a batch is doubled."""

RESERVED = 2**30
"""Bytes that threads and libraries reserve without using them: the system's limit counts them, the peak does not."""

QUIET = {"progress": False, "profile": False}
"""Options of `training` that turn off displays and records, which do not count as training time."""


def answer_request(**request: Any) -> dict[str, Any]:
    """Return the answer to a `Request`, both as plain values.

    Refusals, out-of-memory and non-finite losses are returned, not raised.
    """
    asked = Request(**request)
    handlers: dict[str, Callable[[Request], Answer]] = {
        MEASURE: measure, AGAIN: lambda request: _scored(*_paced(request)), SMALL: measure_small, STEP: make_step,
    }  # fmt: skip
    try:
        return asdict(handlers[asked.what](asked))
    except FAILURES as error:
        return asdict(Answer(why_not(error)))


def measure(request: Request) -> Answer:
    """Train for a few steps as a run does, then measure the memory at other batches and look-backs."""
    made, paced = _paced(request)
    assert paced.peak_mib is not None
    peak = paced.peak_mib
    reset_peak_memory(made.device)
    idle = peak_memory_mib(made.device)
    levels = measure_levels(made)
    look_back = made.data.parts["train"].context_length
    (configured,) = (level for level in levels if level.context_length == look_back)
    validated = min(made.data.evaluation_batch_size, len(made.data.parts["validation"]))
    transient = configured.transient(made.settings.training.batch_size, validated)
    factor = 1.0 if made.device.type == "cuda" else calibrated(peak * 2**20, idle * 2**20, transient)
    footprint = Footprint(look_back, peak * 2**20 - factor * transient, factor, levels)
    suggested = None
    if made.device.type == "cuda":  # a CPU has no launches to wait for
        most = footprint.largest_batch(
            evaluation_batch(made), SHARE * request.memory_bytes, len(made.data.parts["train"])
        )
        suggested = smallest_fast_batch(partial(windows_per_second, made), made.settings.training.batch_size, most)
    return _scored(made, replace(paced, footprint=footprint, longest=_longest(made), suggested_batch=suggested))


def smallest_fast_batch(rate: Callable[[int], float], batch: int, most: int) -> int:
    """Return the batch, doubled as long as that raises the `rate` by `WORTH` and stays within `most`."""
    reached = rate(batch)
    while 2 * batch <= most and (doubled := rate(2 * batch)) >= WORTH * reached:
        batch, reached = 2 * batch, doubled
    return batch


def windows_per_second(made: Preparation, batch: int) -> float:
    """Return the rate of training steps that are not compiled, with their data at hand."""
    step = training_step(peer_of(made, made.data.parts["train"], batch), precision_of(made))
    seconds = [seconds_of(step, made.device) for _ in range(WARM_UP + LEAST)]
    return batch / median(seconds[WARM_UP:])


def measure_small(request: Request) -> Answer:
    """Measure only the memory, at batches much smaller than the configured ones."""
    made = _prepared(request)
    reset_peak_memory(made.device)
    base = peak_memory_mib(made.device) * 2**20
    factor = 1.0 if made.device.type == "cuda" else USUAL_FACTOR
    footprint = Footprint(made.data.parts["train"].context_length, base, factor, measure_levels(made, SHRINK))
    return Answer(length=_length(made), footprint=footprint, longest=_longest(made))


def make_step(request: Request) -> Answer:
    """Run one step of the configuration and return its peak memory."""
    made = _prepared(request)
    reset_peak_memory(made.device)
    training_step(peer_of(made, made.data.parts["train"], made.settings.training.batch_size), precision_of(made))()
    peak = peak_memory_mib(made.device)
    fits = peak * 2**20 <= request.memory_bytes
    return Answer("" if fits else f"{MEMORY}: took {peak / 2**10:,.2f} GiB", peak_mib=peak)


def _paced(request: Request) -> tuple[Preparation, Answer]:
    """Train for a few steps as a run does."""
    began = perf_counter()
    made = _prepared(request)
    prepared = perf_counter() - began
    length = _length(made)
    clock = StepClock(request.seconds)
    with TemporaryDirectory(dir=request.folder or None) as folder:
        speed = _train_shortly(made, clock, Path(folder))
    return made, Answer(
        length=length,
        pace=clock.pace(prepared + speed.get("compile_seconds", 0.0)),
        peak_mib=speed["peak_memory_mib"],
        steps=clock.steps,
        disturbed=clock.load.disturbed,
        parameters=sum(parameter.numel() for parameter in made.network.parameters()),
    )


def _prepared(request: Request) -> Preparation:
    check_logger(request.config["logger"])
    config = request.config
    settings = Settings.parse({**config, "training": {**config["training"], **QUIET}})
    made = prepare(settings, load_source(settings.data))
    if made.device.type == "cuda":
        limit_cuda(request.memory_bytes, made.device)
    else:
        limit_process(request.memory_bytes + RESERVED)
    return made


def _train_shortly(made: Preparation, clock: StepClock, folder: Path) -> Mapping[str, Any]:
    """Train for a short time, validate on a few batches, and return the speed figures."""
    validation = made.data.parts["validation"]
    size = made.data.evaluation_batch_size
    least, most = EVALUATION_BATCHES
    batches = min(most, max(least, -(-EVALUATION_WINDOWS // size)))
    made.data.parts["validation"] = replace(validation, starts=validation.starts[: batches * size])
    made.task.total_steps = MOST
    often = made.data.parts["train"].starts.numel() / made.settings.training.batch_size / FIRST_VALIDATION
    loggers = make_loggers(made.settings.logger, str(folder))
    log_start(loggers, made.settings.plain)
    training = replace(made.settings.training, validations_per_epoch=often, max_time=None)
    timed = replace(made, settings=replace(made.settings, training=training), callbacks=[*made.callbacks, clock])
    outcome = fit(timed, folder / "checkpoints", loggers)
    for logger in loggers:
        logger.finalize("success")
    return outcome.speed


def _scored(made: Preparation, paced: Answer) -> Answer:
    """Return the answer with the time of scoring, from the first windows of both splits.

    The memory is measured before, since scoring holds residuals.
    """
    assert paced.pace is not None
    parts, count = made.data.parts, SCORED_BATCHES * made.data.evaluation_batch_size
    for name in ("validation", "test"):
        parts[name] = replace(parts[name], starts=parts[name].starts[:count])
    network = made.network.to(made.device).eval()
    began = perf_counter()
    score(network, made.data, made.linear_maps.baseline)
    per_window = (perf_counter() - began) / sum(len(parts[name]) for name in ("validation", "test"))
    return replace(paced, pace=replace(paced.pace, scoring=per_window))


def _length(made: Preparation) -> Length:
    parts, settings = made.data.parts, made.settings.training
    holds_out = blocks(parts["validation"]) is not None
    return Length(
        train=len(parts["train"]),
        validation=len(parts["validation"]),
        test=len(parts["test"]) if made.data.split.test or not holds_out else 0,  # its scores are those of validation
        batch=settings.batch_size,
        steps=made.task.total_steps,
        interval=settings.validation_interval(len(parts["train"])),
        max_seconds=None if settings.duration is None else settings.duration.total_seconds(),
        scores_start=made.linear_maps.start is not None or made.start is not None,
        holds_out=holds_out,
    )


def _longest(made: Preparation) -> int:
    """Return the longest look-back with at least one training window, at most `first_origin` and that of a start."""
    longest = len(made.data.split.train) - made.data.parts["train"].horizon
    bounds = made.settings.training.first_origin, None if made.start is None else made.start.longest
    return min([longest, *(bound for bound in bounds if bound is not None)])
