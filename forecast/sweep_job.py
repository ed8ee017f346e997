"""One job of a sweep: a run in a folder of its own, whose failure is told at once and stops no other job."""

import math
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from forecast.cli import explain
from forecast.configuration import plain_values
from forecast.errors import Interrupted
from forecast.files import read_json, replacing, write_json
from forecast.memory import reset_peak_memory
from forecast.nested import look_up
from forecast.run import CONFIG, MANIFEST
from forecast.sweep_folder import job_folder
from forecast.sweep_names import canonical, in_order, is_seed, job_name, parse, swept_words
from forecast.trainer_settings import check_one_process
from forecast.training import train

JOB, FAILED, TRACEBACK = "job.json", "failed.json", "traceback.txt"
"""What a sweep leaves in a job's folder beside the run: its words, and why it failed if it did."""


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
    """

    folder: Path
    objective: str
    constants: frozenset[str]
    script: str
    token: str


def run_job(sweep: Sweep, config: DictConfig) -> float:
    """Train one job, or take its result where it is finished, and give its objective.

    A job that failed gives NaN, which a search takes for a failed trial; an exception would have Hydra end
    the multirun, without its table and, in an exit, without the other jobs.
    """
    overrides = list(HydraConfig.get().overrides.task)
    words = swept_words(overrides, sweep.constants)
    folder = sweep.folder / job_name(words)
    try:
        plain = plain_values(config)
        check_one_process(plain["trainer"])
        folder = job_folder(folder, plain)
        return _run(sweep, plain, overrides, words, folder)
    except Interrupted as end:
        print(f"{folder.name}: {end}", file=sys.stderr, flush=True)
        raise SystemExit(end.exit_code) from None  # passes through Hydra, so that no further job starts
    except Exception as error:  # the one boundary that takes everything: the other jobs have to go on
        _record_failure(sweep, error, words, folder)
        return math.nan


def _run(
    sweep: Sweep, config: Mapping[str, Any], overrides: Sequence[str], words: Sequence[str], folder: Path
) -> float:
    for name in (FAILED, TRACEBACK):
        (folder / name).unlink(missing_ok=True)
    _describe(folder, words)
    if not (folder / MANIFEST).is_file():
        verb = "goes on" if (folder / CONFIG).is_file() else "starts"
        print(f"job {HydraConfig.get().job.num + 1}: {folder.name} {verb}", flush=True)
    reset_peak_memory(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    with _typed_alone(sweep.script, overrides):
        _, result = train(config, folder=folder)
    (folder / FAILED).unlink(missing_ok=True)  # of a second process that wanted this folder meanwhile
    value = look_up(result, sweep.objective)
    number = math.nan if value is None else float(value)  # a result that was read has null for NaN
    if math.isnan(number):
        print(f"{folder.name}: sweep.objective={sweep.objective}: is no number here", file=sys.stderr, flush=True)
    return number


def _describe(folder: Path, words: Sequence[str]) -> None:
    """Note what makes this job another than the rest of its sweep; the table has its rows from it.

    What the job was asked for with before is kept, and what these words say beyond it is added.
    """
    folder.mkdir(parents=True, exist_ok=True)
    before = read_json(folder / JOB)
    known = parse(before["overrides"]) if before else []
    keys = {override.get_key_element() for override in known}
    new = [override for override in parse(words) if override.get_key_element() not in keys]
    if before is None or new:
        every = in_order([*known, *new])
        configuration = [canonical(override) for override in every if not is_seed(override)]
        write_json(folder / JOB, {"overrides": [*map(canonical, every)], "configuration": configuration})


@contextmanager
def _typed_alone(script: str, overrides: Sequence[str]) -> Iterator[None]:
    """Have the result name the command that gives this job alone, in whatever process it runs."""
    before = sys.argv
    sys.argv = [script, *(word for word in overrides if not word.startswith("sweep."))]
    try:
        yield
    finally:
        sys.argv = before


def _record_failure(sweep: Sweep, error: Exception, words: Sequence[str], folder: Path) -> None:
    known = explain(error)
    line, code = known or (f"{type(error).__name__}: {error}, a fault of the program: see {folder / TRACEBACK}", 1)
    line = " ".join(line.split())
    print(f"error: {folder.name}: {line}", file=sys.stderr, flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    if known is None:
        with replacing(folder / TRACEBACK) as file:
            file.write("".join(traceback.format_exception(error)).encode())
    facts = {"error": line, "kind": type(error).__name__, "exit_code": code, "overrides": words}
    write_json(folder / FAILED, {**facts, "sweep": sweep.token})


def failures(sweep: Sweep) -> list[str]:
    """Give the names of the jobs that failed under this very command."""
    found = [
        path.parent.name
        for path in sweep.folder.glob(f"*/{FAILED}")
        if (facts := read_json(path)) is not None and facts["sweep"] == sweep.token
    ]
    return sorted(found)
