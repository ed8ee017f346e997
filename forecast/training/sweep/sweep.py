"""Run a sweep: check its settings, run its jobs in one folder, then print and write a table and a report."""

import os
import secrets
import shlex
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Override
from omegaconf import DictConfig

from forecast.common.configuration import COMPLAINTS, one_line
from forecast.common.errors import InputError, Interrupted, first_line
from forecast.common.place import started_place
from forecast.report.__main__ import report_sweep
from forecast.runs.settings import Settings, follow_table
from forecast.runs.summary import writes_board
from forecast.training.start import signal_of
from forecast.training.start_from import composed
from forecast.training.sweep.ensemble import finish_ensemble
from forecast.training.sweep.job import Sweep, failures, left, run_job
from forecast.training.sweep.overrides import (
    canonical,
    count_jobs,
    for_multirun,
    for_ray,
    is_grid,
    parse,
    put_overrides,
    sweep_name,
    without_hydra,
)
from forecast.training.sweep.reporters import OF_A_SEARCH, SHOWN, LineReporter, LiveTable, Reporter
from forecast.training.sweep.settings import check_words, read_sweep
from forecast.training.sweep.table import report
from forecast.training.sweep.turns import time_sweep

RECORD = "multirun.yaml"
"""File that Hydra writes about a sweep."""

JOBS_LEFT = 5
"""Exit code of a sweep that reached its time limit before it started all jobs, if no job failed."""


def run_sweep(
    arguments: Namespace,
    config: DictConfig,
    call: Callable[[Callable[[DictConfig], Any]], None],
    *,
    ensemble: Sequence[int] = (),
) -> None:
    """Run the jobs of the command line, then print and write the table and the report of all jobs in the folder.

    `config` is composed from `arguments`, each swept override at its first value. `call` lets Hydra call a function
    with each job's configuration; the jobs may run in other processes. `InputError` is raised before the first job.
    The exit code is 1 if a job failed, else 5 if the time limit `sweep.minutes` left jobs not started. An
    `ensemble` of these seeds has no report, but the scores of the mean forecast once all of its members are trained.
    """
    sweep, display = _prepare(arguments, config)
    absent = [place for place in (sweep.folder, *sweep.folder.parents) if not place.exists()]
    announced: set[str] = set()
    try:
        with display as reporter:
            call(lambda config: run_job(sweep, config, reporter, announced))
    except InputError:
        _remove_empty(absent)
        raise
    except (KeyboardInterrupt, SystemExit) as end:
        report(sweep.folder, search=sweep.search)
        if (number := signal_of(end)) is None:
            raise
        raise Interrupted("run the same command again to continue", number) from None
    except ValueError as error:  # Optuna raises one if no trial has an objective; each job has printed why
        if not sweep.search:
            raise
        if not failures(sweep) and not left(sweep):
            report(sweep.folder, search=True)
            raise InputError(f"hydra/sweeper: {first_line(error)}") from None
    except BaseException:
        report(sweep.folder, search=sweep.search)
        raise
    report(sweep.folder, search=sweep.search)
    jobs = left(sweep)
    if ensemble:
        if not jobs and not failures(sweep):
            first = Settings.parse(composed(without_hydra(config), ()))
            finish_ensemble(sweep.folder, follow_table(first)[0], ensemble)
    elif not sweep.search:
        _time_and_report(sweep, again=bool(jobs), board=writes_board(config.get("logger") or {}))
    if jobs:
        reached = f"time limit sweep.minutes reached, {len(jobs)} job{'s' * (len(jobs) > 1)} not started"
        print(f"stopped: {reached}: run the same command again to continue", file=sys.stderr, flush=True)
    if failures(sweep):
        sys.exit(1)
    if jobs:
        sys.exit(JOBS_LEFT)


def _time_and_report(sweep: Sweep, *, again: bool, board: bool) -> None:
    """Time the settings in turn, unless the command must be run `again` for missing jobs, and write the report.

    `board` tells whether the jobs wrote files for TensorBoard.
    """
    try:
        if not again:
            time_sweep(sweep.folder, sweep.repeat_timing, sweep.files)
    except KeyboardInterrupt as end:
        number = signal_of(end)
        assert number is not None
        done = "no job is left to start" if failures(sweep) else "all jobs are done"
        raise Interrupted(f"{done}: run the same command again to time them in turn", number) from None
    finally:
        report_sweep(sweep.folder)
        if board:
            print(f"TensorBoard: tensorboard --logdir {shlex.quote(str(sweep.folder))}", flush=True)


def _prepare(arguments: Namespace, config: DictConfig) -> tuple[Sweep, AbstractContextManager[Reporter]]:
    """Return the sweep and its display, after checking what all jobs share; choose a name if there is none."""
    if (place := started_place(os.environ)) is not None:
        raise InputError(
            f"-m: {place.size} processes were started, and each would run the whole sweep: start one; for parallel "
            "jobs use hydra/launcher=joblib, or hydra/launcher=submitit_slurm for a GPU per job"
        )
    try:
        words = list(arguments.overrides)
        check_words(parse(words))
        settings = read_sweep(config)
        name = settings.name
        if name is None:
            name = sweep_name(words)
            words.append(f"sweep.name={name}")
        words = [*for_multirun(arguments, words), *for_ray(config)]
        put_overrides(arguments, words)  # Hydra composes each job from the command line
        config.sweep.name = name
        folder = Path(str(config.hydra.sweep.dir))
        jobs = count_jobs(config, words)
    except COMPLAINTS as error:
        raise InputError(one_line(error, arguments.overrides)) from None
    if (file := next((place for place in (folder, *folder.parents) if place.is_file()), None)) is not None:
        raise InputError(f"output_dir={config.output_dir}: {file} is a file: choose another folder")
    last = {override.get_key_element(): override for override in parse(words)}  # the last one wins in Hydra
    listed = config.hydra.sweeper.get("params") or {}  # lists of the experiment, which one value may replace
    sweep = Sweep(
        folder=folder,
        objective=settings.objective,
        constants=frozenset(
            canonical(override)
            for override in last.values()
            if not override.is_sweep_override() and override.get_key_element() not in listed
        ),
        script=sys.argv[0],
        token=secrets.token_hex(8),
        isolate=settings.isolate,
        until=None if settings.minutes is None else time.time() + 60 * settings.minutes,
        search=not is_grid(config),
        repeat_timing=settings.repeat_timing,
        files=_files(last.get("data.path")),
    )
    # a live table, if stdout is a terminal and the jobs are quiet: one after another, in processes of their own
    in_turn = str(config.hydra.launcher.get("_target_", "")).endswith(".BasicLauncher")
    live = in_turn and settings.isolate and sys.stdout.isatty()
    shown = OF_A_SEARCH if sweep.search else SHOWN
    return sweep, LiveTable(name, jobs, shown=shown) if live else nullcontext(LineReporter(shown))


def _files(path: Override | None) -> frozenset[str]:
    """Return the data files that an override of `data.path` names."""
    if path is None:
        return frozenset()
    return frozenset(map(str, path.sweep_iterator() if path.is_sweep_override() else [path.value()]))


def _remove_empty(places: list[Path]) -> None:
    """Remove the empty folders of a sweep that Hydra could not compose."""
    if places and {path.name for path in places[0].glob("*")} <= {RECORD}:
        (places[0] / RECORD).unlink(missing_ok=True)
    for place in places:
        with suppress(OSError):
            place.rmdir()
