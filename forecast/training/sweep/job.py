"""One job of a sweep: its folder and its run. A failure does not stop the other jobs."""

import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from forecast.common.cli import unread
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
from forecast.runs.settings import Settings, check_one_process, follow_table
from forecast.training.start_from import composed
from forecast.training.sweep.isolated import Failure, JobFailed, marked, record, train_apart
from forecast.training.sweep.overrides import canonical, in_order, is_seed, job_name, parse, swept_words
from forecast.training.sweep.reporters import Reporter
from forecast.training.train import train


def job_folder(named: Path, settings: Settings, token: str = "") -> Path:
    """Return the folder beside `named` of the job with these settings, or `named` if no job has them.

    Another job of the same command (`token`) may have started without a run yet: its folder is skipped.
    """
    exists = (named / CONFIG).is_file()
    differing = differences(settings.plain, stored_config(named), budget=True) if exists else []
    if exists and not differing:
        return named
    wanted = settings.settled().plain
    folders = {path.parent for name in (CONFIG, JOB) for path in named.parent.glob(f"*/{name}")}
    for folder in sorted(folders):
        if folder != named and _holds(folder, wanted, token):
            return folder
    if exists:
        text = "; ".join(differing[:3])
        raise InputError(
            f"{named}: holds another run: {text}: choose another sweep.name, or remove the folder, or write the new "
            "value as 'key=choice(value)' to have it in the names of the folders"
        )
    return named


def stored_config(folder: Path) -> dict[str, Any]:
    """Return the configuration of a job's run; if its file is damaged, read it from the result of a finished run."""
    try:
        return read_config(folder)
    except InputError:
        result = finished_result(folder)
        if not isinstance(result, Mapping) or not isinstance(result.get("config"), Mapping):
            raise
        return dict(result["config"])


def clear_damaged(folder: Path, damage: str) -> None:
    """Remove the files of a damaged run so that its job is trained again, and print a line."""
    with folder_lock(folder):
        print(f"{folder.name}: trained again: {damage}", file=sys.stderr, flush=True)
        Run(folder).clear()
        (folder / CONFIG).unlink(missing_ok=True)


def describe(folder: Path, words: Sequence[str], config: Mapping[str, Any], token: str) -> None:
    """Write `job.json`: the overrides that distinguish this job from the other jobs of the sweep.

    Overrides from earlier commands stay; new ones in `words` are added. Until the job has a run, its configuration is
    stored here too, so that a command with other overrides finds the folder.
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
        job = read_json(folder / JOB)
        if "config" not in job or job["sweep"] == token:
            return False
        return not differences(config, job["config"], budget=True)
    except InputError:  # only the job of a damaged folder reports it
        return False


@dataclass(frozen=True)
class Sweep:
    """Facts of a sweep that a job needs, as plain values: a launcher may send them to another process.

    `folder` holds a folder for each job. `objective` is the dotted path in `result.json` of a job's return value.
    `constants` are the overrides that all jobs share, except values that replace a list of the experiment. `script` is
    the program, for the command in a job's result.
    `token` identifies this command and separates its failures from earlier ones. With `isolate` each job runs in a
    separate process. No job starts after `until`, in seconds of `time.time`; None means no limit.

    With `search` a sweeper such as Optuna chooses the jobs, and only validation scores are shown. `repeat_timing` is
    the time in seconds for timing each setting again after the jobs; 0 turns it off. `files` are the data files on the
    command line.
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


def run_job(sweep: Sweep, config: DictConfig, reporter: Reporter, announced: set[str]) -> float | None:
    """Train one job, or read the result of a finished one, and return its objective.

    `announced` are the printed lines on the data, which the jobs of one process print once.

    A job that fails or does not start returns None, which a search counts as a failed trial. An exception would make
    Hydra end the sweep without the other jobs and without the table.
    """
    overrides = list(HydraConfig.get().overrides.task)
    words = swept_words(overrides, sweep.constants)
    folder = sweep.folder / job_name(words)
    try:
        settings, _ = follow_table(Settings.parse(composed(config, overrides)))
        check_one_process(settings.plain["trainer"])
        folder = job_folder(folder, settings, sweep.token)
        result = _run(sweep, settings, overrides, words, folder, reporter, announced)
        return None if result is None else _objective(sweep, folder, result)
    except Interrupted as end:
        print(f"{folder.name}: {end}", file=sys.stderr, flush=True)
        raise SystemExit(end.exit_code) from None  # passes through Hydra, so that no further job starts
    except BrokenPipeError:
        raise SystemExit(unread()) from None
    except Exception as error:  # whatever a job raises, the other jobs continue
        failure = error.failure if isinstance(error, JobFailed) else Failure.of(error)
        reporter.failed(folder.name, record(failure, folder, words, sweep.token))
        return None


def _run(
    sweep: Sweep,
    settings: Settings,
    overrides: Sequence[str],
    words: Sequence[str],
    folder: Path,
    reporter: Reporter,
    announced: set[str],
) -> Mapping[str, Any] | None:
    """Return the result of a job, None if the time limit does not let it start."""
    describe(folder, words, settings.settled().plain, sweep.token)
    damage = damage_of_finished(folder)
    before = damage is None and is_finished(folder)
    if not before and sweep.until is not None and time.time() >= sweep.until:
        write_sealed(folder / LEFT, {"sweep": sweep.token})
        reporter.left(folder.name)
        return None
    for name in (FAILED, TRACEBACK, LEFT):
        (folder / name).unlink(missing_ok=True)
    if damage is not None:
        clear_damaged(folder, damage)
    if not before:
        reporter.starts(folder.name, HydraConfig.get().job.num + 1, again=(folder / CONFIG).is_file())
    argv = [sweep.script, *(word for word in overrides if not word.startswith("sweep."))]
    if sweep.isolate and not before:
        result = train_apart(settings.plain, folder, argv)
    else:
        reset_peak_memory(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        with typed_as(argv):
            _, result = train(settings, folder=folder, announced=announced)
    (folder / FAILED).unlink(missing_ok=True)  # a second process may have failed on this folder meanwhile
    reporter.finished(folder.name, result, before=before)
    return result


def _objective(sweep: Sweep, folder: Path, result: Mapping[str, Any]) -> float | None:
    value = look_up(result, sweep.objective)
    if value is None or math.isnan(value):  # JSON stores NaN as null
        print(f"{folder.name}: sweep.objective={sweep.objective}: is not a number here", file=sys.stderr, flush=True)
        return None
    return float(value)


@contextmanager
def typed_as(argv: list[str]) -> Iterator[None]:
    """Set `sys.argv` to another command, such as that of one job alone, which the result records."""
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
    """Return the names of the jobs that this command did not start before its time limit."""
    return marked(sweep.folder, LEFT, sweep.token)
