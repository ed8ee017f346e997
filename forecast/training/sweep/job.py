"""One job of a sweep: a run in a folder of its own, whose failure is told at once and stops no other job."""

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
    """What a job has to know of its sweep; plain values, since a launcher may send it to another process.

    Parameters
    ----------
    folder
        Holds a folder for each job.
    objective
        The dotted path into `result.json` of the number that a job gives.
    constants
        The overrides that all jobs share.
    script
        What was started, for the command in a job's result.
    token
        Of this command alone, which tells its failures from those of an earlier one.
    isolate
        Whether each job has a process of its own.
    until
        The time, in seconds as `time.time` gives it, from which no further job begins; None: there is none.
    search
        Whether a choice is to be made among the jobs: what is shown of them then is of validation alone.
    repeat_timing
        Seconds in which each setting is timed in turn with the others after the jobs; 0 for none.
    files
        Data files that the command line names.
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
    """Shows how the jobs of a sweep go; they are known by the names of their folders."""

    def starts(self, name: str, number: int, *, again: bool) -> None:
        """Show that a job starts, or goes on where it was."""

    def finished(self, name: str, result: Mapping[str, Any], *, before: bool) -> None:
        """Show what a job came to, now or before this command."""

    def failed(self, name: str, line: str) -> None:
        """Show that a job failed; the line itself has been printed."""

    def left(self, name: str) -> None:
        """Show that a job does not begin any more."""


def run_job(sweep: Sweep, config: DictConfig, teller: Teller) -> float:
    """Train one job, or take its result where it is finished, and give its objective.

    A job that failed gives NaN, which a search takes for a failed trial; an exception would have Hydra end
    the multirun, without its table and, in an exit, without the other jobs. One that does not begin gives it too.
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
    """Return the result of a job, None where it is too late to begin it."""
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
    """Have the result name the command that gives this job alone, in whatever process it runs."""
    before = sys.argv
    sys.argv = argv
    try:
        yield
    finally:
        sys.argv = before


def failures(sweep: Sweep) -> list[str]:
    """Return the names of the jobs that failed under this very command."""
    return marked(sweep.folder, FAILED, sweep.token)


def left(sweep: Sweep) -> list[str]:
    """Return the names of the jobs that this very command did not begin since its time was over."""
    return marked(sweep.folder, LEFT, sweep.token)
