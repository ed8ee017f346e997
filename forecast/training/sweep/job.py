"""One job of a sweep: the folder of its configuration, and a run there whose failure stops no other job."""

import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from forecast.common.cli import unread
from forecast.common.configuration import check_trial, plain_values
from forecast.common.errors import InputError, Interrupted
from forecast.common.files import folder_lock, look_up, read_json, write_sealed
from forecast.common.memory import reset_peak_memory
from forecast.runs.resume import differences, read_config
from forecast.runs.run import (
    CONFIG,
    FAILED,
    JOB,
    LEFT,
    TRACEBACK,
    Run,
    damage_of_finished,
    finished_result,
    is_finished,
)
from forecast.runs.settings import Settings, check_one_process
from forecast.training.sweep.isolated import Failure, JobFailed, marked, record, train_apart
from forecast.training.sweep.overrides import canonical, in_order, is_seed, job_name, parse, swept_words
from forecast.training.train import train


def job_folder(named: Path, settings: Settings, token: str = "") -> Path:
    """Return the folder of the job with these settings among those beside `named`, or else `named`.

    Another job of this command, known by its `token`, may be at work elsewhere without a run yet, and is left alone.
    """
    there = (named / CONFIG).is_file()
    differing = differences(settings.plain, stored_config(named), budget=True) if there else []
    if there and not differing:
        return named
    wanted = settings.settled().plain
    folders = {path.parent for name in (CONFIG, JOB) for path in named.parent.glob(f"*/{name}")}
    for folder in sorted(folders):
        if folder != named and _holds(folder, wanted, token):
            return folder
    if there:
        told = "; ".join(differing[:3])
        raise InputError(f"{named}: holds another run: {told}: choose another sweep.name, or remove the folder")
    return named


def stored_config(folder: Path) -> dict[str, Any]:
    """Return the configuration of a job's run, from the result of a finished one if its own file is damaged."""
    try:
        return read_config(folder)
    except InputError:
        result = finished_result(folder)
        if not isinstance(result, Mapping) or not isinstance(result.get("config"), Mapping):
            raise
        return dict(result["config"])


def clear_damaged(folder: Path, damage: str) -> None:
    """Remove the files of a damaged run, so that its job is trained again, and say so."""
    with folder_lock(folder):
        print(f"{folder.name}: trained again: {damage}", file=sys.stderr, flush=True)
        Run(folder).clear()
        (folder / CONFIG).unlink(missing_ok=True)


def describe(folder: Path, words: Sequence[str], config: Mapping[str, Any], token: str) -> None:
    """Write what distinguishes this job from the rest of its sweep, which the table's rows are made from.

    Overrides from earlier commands are kept, and new ones in `words` added. Until the job has a run, its configuration
    is stored here, so that other words for it find the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    before = read_json(folder / JOB)
    known = parse(before["overrides"]) if before else []
    keys = {override.get_key_element() for override in known}
    new = [override for override in parse(words) if override.get_key_element() not in keys]
    if before is None or new or not (folder / CONFIG).is_file():
        every = in_order([*known, *new])
        configuration = [canonical(override) for override in every if not is_seed(override)]
        facts = {"overrides": [*map(canonical, every)], "configuration": configuration}
        write_sealed(folder / JOB, {**facts, "config": config, "sweep": token})


def _holds(folder: Path, config: Mapping[str, Any], token: str) -> bool:
    try:
        if (folder / CONFIG).is_file():
            return not differences(config, read_config(folder), budget=True)
        asked = read_json(folder / JOB)
        if "config" not in asked or asked["sweep"] == token:
            return False
        return not differences(config, asked["config"], budget=True)
    except InputError:  # a damaged folder is nobody's but that job's
        return False


@dataclass(frozen=True)
class Sweep:
    """Facts of a sweep that a job needs; plain values, since a launcher may send them to another process.

    `folder` holds a folder for each job. `objective` is the dotted path into `result.json` of the number that a job
    returns. `constants` are the overrides that all jobs share. `script` is the started program, for the command in a
    job's result. `token` is of this command alone and separates its failures from earlier ones. With `isolate` each job
    has a process of its own. No job begins after the time `until`, in seconds of `time.time`; None: no limit.

    With `search` a choice is made among the jobs, which then show validation alone. `repeat_timing` is the time in
    seconds for timing each setting in turn after the jobs; 0 for none. `files` are the data files on the command line.
    """

    folder: Path
    objective: str
    constants: frozenset[str]
    script: str
    token: str
    isolate: bool = False
    until: float | None = None
    search: bool = False
    repeat_timing: float = 0.0
    files: frozenset[str] = frozenset()


class Teller(Protocol):
    """Shows the progress of a sweep's jobs, which are known by the names of their folders."""

    def starts(self, name: str, number: int, *, again: bool) -> None:
        """Show that a job starts or resumes."""

    def finished(self, name: str, result: Mapping[str, Any], *, before: bool) -> None:
        """Show the result of a job, from this command or one before it."""

    def failed(self, name: str, line: str) -> None:
        """Show that a job failed; the line itself has been printed."""

    def left(self, name: str) -> None:
        """Show that a job is not started any more."""


def run_job(sweep: Sweep, config: DictConfig, teller: Teller) -> float:
    """Train one job, or take the result of a finished one, and return its objective.

    A job that fails or does not begin returns NaN, which a search takes for a failed trial. An exception would have
    Hydra end the multirun, without its table and, in an exit, without the other jobs.
    """
    overrides = list(HydraConfig.get().overrides.task)
    words = swept_words(overrides, sweep.constants)
    folder = sweep.folder / job_name(words)
    try:
        plain = plain_values(config)
        check_trial(plain, overrides)
        settings = Settings.parse(plain)
        check_one_process(settings.plain["trainer"])
        folder = job_folder(folder, settings, sweep.token)
        result = _run(sweep, settings, overrides, words, folder, teller)
        return math.nan if result is None else _objective(sweep, folder, result)
    except Interrupted as end:
        print(f"{folder.name}: {end}", file=sys.stderr, flush=True)
        raise SystemExit(end.exit_code) from None  # passes through Hydra, so that no further job starts
    except BrokenPipeError:
        raise SystemExit(unread()) from None
    except Exception as error:  # the one boundary that takes everything: the other jobs have to go on
        failure = error.failure if isinstance(error, JobFailed) else Failure.of(error)
        teller.failed(folder.name, record(failure, folder, words, sweep.token))
        return math.nan


def _run(
    sweep: Sweep, settings: Settings, overrides: Sequence[str], words: Sequence[str], folder: Path, teller: Teller
) -> Mapping[str, Any] | None:
    """Return the result of a job, None if it is too late to begin it."""
    describe(folder, words, settings.settled().plain, sweep.token)
    damage = damage_of_finished(folder)
    before = damage is None and is_finished(folder)
    if not before and sweep.until is not None and time.time() >= sweep.until:
        write_sealed(folder / LEFT, {"sweep": sweep.token})
        teller.left(folder.name)
        return None
    for name in (FAILED, TRACEBACK, LEFT):
        (folder / name).unlink(missing_ok=True)
    if damage is not None:
        clear_damaged(folder, damage)
    if not before:
        teller.starts(folder.name, HydraConfig.get().job.num + 1, again=(folder / CONFIG).is_file())
    argv = [sweep.script, *(word for word in overrides if not word.startswith("sweep."))]
    if sweep.isolate and not before:
        result = train_apart(settings.plain, folder, argv)
    else:
        reset_peak_memory(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        with _typed(argv):
            _, result = train(settings, folder=folder)
    (folder / FAILED).unlink(missing_ok=True)  # of a second process that wanted this folder meanwhile
    teller.finished(folder.name, result, before=before)
    return result


def _objective(sweep: Sweep, folder: Path, result: Mapping[str, Any]) -> float:
    value = look_up(result, sweep.objective)
    number = math.nan if value is None else float(value)  # a result that was read has null for NaN
    if math.isnan(number):
        print(f"{folder.name}: sweep.objective={sweep.objective}: is no number here", file=sys.stderr, flush=True)
    return number


@contextmanager
def _typed(argv: list[str]) -> Iterator[None]:
    """Have the result name the command that runs this job alone, in whatever process it runs."""
    before = sys.argv
    sys.argv = argv
    try:
        yield
    finally:
        sys.argv = before


def failures(sweep: Sweep) -> list[str]:
    """Return the names of the jobs that failed under this command."""
    return marked(sweep.folder, FAILED, sweep.token)


def left(sweep: Sweep) -> list[str]:
    """Return the names of the jobs that this command did not begin before its time limit."""
    return marked(sweep.folder, LEFT, sweep.token)
