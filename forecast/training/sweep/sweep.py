"""The frame around the jobs of a multirun: one folder for all, checks before the first, a table after the last."""

import os
import secrets
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Override
from omegaconf import DictConfig

from forecast.common.configuration import COMPLAINTS, one_line
from forecast.common.errors import InputError, Interrupted
from forecast.common.place import started_place
from forecast.report.__main__ import report_sweep
from forecast.training.start import signal_of
from forecast.training.sweep.job import Sweep, Teller, failures, left, run_job
from forecast.training.sweep.overrides import canonical, count_jobs, for_multirun, parse, put_overrides, sweep_name
from forecast.training.sweep.reporters import OF_A_SEARCH, SHOWN, Board, Lines
from forecast.training.sweep.search import report_search
from forecast.training.sweep.settings import check_words, read_sweep
from forecast.training.sweep.table import report
from forecast.training.sweep.turns import time_sweep

RECORD = "multirun.yaml"
"""Hydra's own record of a sweep."""

JOBS_LEFT = 5
"""Exit code of a sweep that reached its time limit with jobs not begun, and none failed."""


def run_sweep(arguments: Namespace, config: DictConfig, call: Callable[[Callable[[DictConfig], Any]], None]) -> None:
    """Run the jobs of the command line, then print and write table and report over all jobs in the folder.

    `config` is composed from `arguments`, each swept word at its first value. `call` has Hydra call a function with
    each job's configuration; the jobs may run in other processes. An `InputError` comes before the first job. The exit
    code is 1 if a job failed, else 5 if `sweep.minutes` were over before the last had begun.
    """
    sweep, telling = _prepare(arguments, config)
    tell = report_search if sweep.search else report
    absent = [place for place in (sweep.folder, *sweep.folder.parents) if not place.exists()]
    try:
        with telling as teller:
            call(lambda config: run_job(sweep, config, teller))
    except InputError:
        _remove_empty(absent)
        raise
    except (KeyboardInterrupt, SystemExit) as end:
        tell(sweep.folder)
        if (number := signal_of(end)) is None:
            raise
        raise Interrupted("the same command goes on with what is missing", number) from None
    except BaseException:
        tell(sweep.folder)
        raise
    tell(sweep.folder)
    jobs = left(sweep)
    if not sweep.search:
        _time_and_report(sweep, again=bool(jobs))
    if jobs:
        told = f"sweep.minutes are over, jobs that have not begun: {len(jobs)}"
        print(f"stopped: {told}: the same command goes on with them", file=sys.stderr, flush=True)
    if failures(sweep):
        sys.exit(1)
    if jobs:
        sys.exit(JOBS_LEFT)


def _time_and_report(sweep: Sweep, *, again: bool) -> None:
    """Time the settings in turn, unless the command has to be run again anyway, and write the report."""
    try:
        if not again:
            time_sweep(sweep.folder, sweep.repeat_timing, sweep.files)
    except KeyboardInterrupt as end:
        number = signal_of(end)
        assert number is not None
        raise Interrupted("all jobs are done: the same command times them in turn", number) from None
    finally:
        report_sweep(sweep.folder)


def _prepare(arguments: Namespace, config: DictConfig) -> tuple[Sweep, AbstractContextManager[Teller]]:
    """Check what all jobs share, and name a sweep that has no name."""
    if (place := started_place(os.environ)) is not None:
        raise InputError(
            f"-m: {place.size} processes were started, and each would run the whole sweep: start one, and give jobs "
            "side by side with hydra/launcher=joblib, or a GPU each with hydra/launcher=submitit_slurm"
        )
    try:
        words = list(arguments.overrides)
        check_words(parse(words))
        settings = read_sweep(config)
        name = settings.name
        if name is None:
            name = sweep_name(words)
            words.append(f"sweep.name={name}")
        words = for_multirun(arguments, words)
        put_overrides(arguments, words)  # Hydra composes each job from the command line
        config.sweep.name = name
        folder = Path(str(config.hydra.sweep.dir))
        jobs = count_jobs(config, words)
    except COMPLAINTS as error:
        raise InputError(one_line(error)) from None
    if (file := next((place for place in (folder, *folder.parents) if place.is_file()), None)) is not None:
        raise InputError(f"output_dir={config.output_dir}: {file} is a file: choose another folder")
    last = {override.get_key_element(): override for override in parse(words)}.values()  # as Hydra takes them
    sweep = Sweep(
        folder=folder,
        objective=settings.objective,
        constants=frozenset(canonical(override) for override in last if not override.is_sweep_override()),
        script=sys.argv[0],
        token=secrets.token_hex(8),
        isolate=settings.isolate,
        until=None if settings.minutes is None else time.time() + 60 * settings.minutes,
        search=settings.search,
        repeat_timing=settings.repeat_timing,
        files=_files(last),
    )
    board = _one_after_another(config) and settings.isolate
    return sweep, _telling(name, jobs, board, OF_A_SEARCH if sweep.search else SHOWN)


def _files(overrides: Iterable[Override]) -> frozenset[str]:
    """Return the data files that the command line names."""
    named: list[str] = []
    for override in overrides:
        if override.get_key_element() == "data.path":
            swept = override.is_sweep_override()
            named += map(str, override.sweep_iterator() if swept else [override.value()])
    return frozenset(named)


def _one_after_another(config: DictConfig) -> bool:
    """Return whether this process itself runs the jobs, with Hydra's own launcher."""
    return str(config.hydra.launcher.get("_target_", "")).endswith(".BasicLauncher")


def _telling(name: str, jobs: int | None, quiet: bool, shown: Sequence[str]) -> AbstractContextManager[Teller]:
    """Return the display of the jobs: a table if they print nothing themselves and there is a terminal, else lines."""
    return Board(name, jobs, shown=shown) if quiet and sys.stdout.isatty() else nullcontext(Lines(shown))


def _remove_empty(places: list[Path]) -> None:
    """Remove the folders that Hydra made for a sweep that it could not compose."""
    if places and {path.name for path in places[0].glob("*")} <= {RECORD}:
        (places[0] / RECORD).unlink(missing_ok=True)
    for place in places:
        with suppress(OSError):
            place.rmdir()
