"""Measures a mechanism, in a process of its own since peak memory covers everything a process has done."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from forecast.benchmark.limits import FAILURES, MEMORY, limit_cuda, limit_process, why_not
from forecast.common.memory import peak_memory_mib, reset_peak_memory
from forecast.plan.clock import FIRST_VALIDATION, MOST, StepClock
from forecast.plan.footprint import Footprint, calibrated
from forecast.plan.memory import measure_levels, peer_of
from forecast.plan.messages import AGAIN, MEASURE, SMALL, STEP, Answer, Ask
from forecast.plan.pace import Length
from forecast.runs.settings import Settings
from forecast.training.fit import fit
from forecast.training.prepare import Preparation, prepare
from forecast.training.steps import precision_of, training_step
from forecast.training.tensorboard.logger import check_logger, log_start, make_logger

EVALUATION_BATCHES, EVALUATION_WINDOWS = (4, 8), 64
"""Of each validation of the short training: its batches, of which all but the first are timed, and the windows that
decide how many. A batch alone may take a tenth more or less than the next."""

SHRINK = 8
"""By which batches are divided for the memory of a training that does not fit as it is."""

USUAL_FACTOR = 1.5
"""Bytes in use for each that torch allocates, where no training has shown it."""

RESERVED = 2**30
"""Bytes that threads and libraries reserve and do not touch: the system's limit counts them, the peak does not."""

QUIET = {"progress": False, "profile": False}
"""Of `training`: what is shown or recorded beside it, and is no part of its time."""


def answer_request(**request: Any) -> dict[str, Any]:
    """Return the answer to an `Ask`, both as plain values."""
    return asdict(answer(Ask(**request)))


def answer(ask: Ask) -> Answer:
    """Do what is asked; what the configuration, the memory or the numbers forbid is an answer too."""
    doing: dict[str, Callable[[Ask], Answer]] = {
        MEASURE: measure, AGAIN: lambda ask: _paced(ask)[1], SMALL: measure_small, STEP: make_step,
    }  # fmt: skip
    try:
        return doing[ask.what](ask)
    except FAILURES as error:
        return Answer(why_not(error))


def measure(ask: Ask) -> Answer:
    """Train for a few steps as a run does, then measure what passes of other batches and look-backs allocate."""
    made, paced = _paced(ask)
    assert paced.peak_mib is not None
    peak = paced.peak_mib
    reset_peak_memory(made.device)
    idle = peak_memory_mib(made.device)
    levels = measure_levels(made)
    look_back = made.data.parts["train"].context_length
    (own,) = (level for level in levels if level.context_length == look_back)
    validated = min(made.data.evaluation_batch_size, len(made.data.parts["validation"]))
    transient = own.transient(made.settings.training.batch_size, validated)
    factor = 1.0 if made.device.type == "cuda" else calibrated(peak * 2**20, idle * 2**20, transient)
    footprint = Footprint(look_back, peak * 2**20 - factor * transient, factor, levels)
    return replace(paced, footprint=footprint, longest=_longest(made))


def measure_small(ask: Ask) -> Answer:
    """Measure the memory alone, at batches far below those of the configuration."""
    made = _prepared(ask)
    reset_peak_memory(made.device)
    base = peak_memory_mib(made.device) * 2**20
    factor = 1.0 if made.device.type == "cuda" else USUAL_FACTOR
    footprint = Footprint(made.data.parts["train"].context_length, base, factor, measure_levels(made, SHRINK))
    return Answer(length=_length(made), footprint=footprint, longest=_longest(made))


def make_step(ask: Ask) -> Answer:
    """Make one step of the configuration and say what it took."""
    made = _prepared(ask)
    reset_peak_memory(made.device)
    training_step(peer_of(made, made.data.parts["train"], made.settings.training.batch_size), precision_of(made))()
    peak = peak_memory_mib(made.device)
    fits = peak * 2**20 <= ask.memory_bytes
    return Answer("" if fits else f"{MEMORY}: took {peak / 2**10:,.2f} GiB", peak_mib=peak)


def _paced(ask: Ask) -> tuple[Preparation, Answer]:
    """Train for a few steps as a run does."""
    began = perf_counter()
    made = _prepared(ask)
    prepared = perf_counter() - began
    length = _length(made)
    clock = StepClock(ask.seconds)
    with TemporaryDirectory() as folder:
        speed = _train_shortly(made, clock, Path(folder))
    pace = clock.pace(prepared + speed.get("compile_seconds", 0.0))
    return made, Answer(
        length=length, pace=pace, peak_mib=speed["peak_memory_mib"], steps=clock.steps, disturbed=clock.load.disturbed
    )


def _prepared(ask: Ask) -> Preparation:
    check_logger(ask.config["logger"])
    made = prepare(Settings.parse(_quiet(ask.config)))
    if made.device.type == "cuda":
        limit_cuda(ask.memory_bytes, made.device)
    else:
        limit_process(ask.memory_bytes + RESERVED)
    return made


def _quiet(config: dict[str, Any]) -> dict[str, Any]:
    return {**config, "training": {**config["training"], **QUIET}}


def _train_shortly(made: Preparation, clock: StepClock, folder: Path) -> Mapping[str, Any]:
    """Train on the data as they are, validate on a few batches, and return the figures of speed."""
    validation = made.data.parts["validation"]
    size = made.data.evaluation_batch_size
    least, most = EVALUATION_BATCHES
    batches = min(most, max(least, -(-EVALUATION_WINDOWS // size)))
    made.data.parts["validation"] = replace(validation, starts=validation.starts[: batches * size])
    made.task.total_steps = MOST
    often = made.data.parts["train"].starts.numel() / made.settings.training.batch_size / FIRST_VALIDATION
    logger = make_logger(made.settings.logger, str(folder))
    log_start(logger, made.settings.plain)
    training = replace(made.settings.training, validations_per_epoch=often, max_time=None)
    timed = replace(made, settings=replace(made.settings, training=training), callbacks=[*made.callbacks, clock])
    outcome = fit(timed, folder / "checkpoints", logger)
    logger.finalize("success")
    return outcome.speed


def _length(made: Preparation) -> Length:
    parts, settings = made.data.parts, made.settings.training
    return Length(
        train=len(parts["train"]),
        validation=len(parts["validation"]),
        test=len(parts["test"]),
        batch=settings.batch_size,
        steps=made.task.total_steps,
        interval=settings.validation_interval(len(parts["train"])),
        max_seconds=None if settings.duration is None else settings.duration.total_seconds(),
        scores_start=made.linear_maps.start is not None,
    )


def _longest(made: Preparation) -> int:
    """Return the longest look-back that leaves the training part a window, that of `first_origin` if it is set."""
    longest = len(made.data.split.train) - made.data.parts["train"].horizon
    first = made.settings.training.first_origin
    return longest if first is None else min(longest, first)
