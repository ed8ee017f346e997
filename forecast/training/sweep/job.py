"""One job of a sweep: a run in its own folder, whose failure is printed at once and stops no other job."""

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
from forecast.common.errors import Interrupted
from forecast.common.files import look_up, write_sealed
from forecast.common.memory import reset_peak_memory
from forecast.runs.run import CONFIG, FAILED, LEFT, TRACEBACK, damage_of_finished, is_finished
from forecast.runs.settings import Settings, check_one_process
from forecast.training.sweep.folder import clear_damaged, describe, job_folder
from forecast.training.sweep.isolated import Failure, JobFailed, marked, record, train_apart
from forecast.training.sweep.overrides import job_name, swept_words
from forecast.training.train import train


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
