"""Filling the record: a sweep for each group of missing rows, and the rows of its finished jobs."""

import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.accuracy.recipes import Cell, sweep_name, sweep_words, sweeps
from benchmarks.accuracy.record import Record, add, key_of, read_record, row_of
from forecast.common.files import read_json
from forecast.common.processes import environment
from forecast.runs.read import read_jobs
from forecast.runs.run import FAILED, RESULT, Run

JOBS_LEFT = 5
"""Exit code of a sweep whose minutes were over before its last job."""

Place = tuple[int, str, str]
"""The horizon, mechanism and seed of a job."""


@dataclass(frozen=True)
class Filling:
    """The record's file, the folder of the runs, the threads of each run, and the minutes for new ones."""

    record: Path
    folder: Path
    threads: int | None = None
    minutes: float | None = None


def missing(cells: Sequence[Cell], record: Path) -> list[Cell]:
    """Return the cells that the record has no row of."""
    there = {key_of(row) for row in read_record(record)}
    return [cell for cell in cells if cell.key not in there]


def fill(cells: Sequence[Cell], filling: Filling) -> bool:
    """Make the missing rows of `cells`, in their order, and return whether every sweep did all of its jobs.

    A job that is finished in the folder of its sweep is not trained again. However a sweep ends, its finished jobs are
    rows of the record.
    """
    started, whole = time.monotonic(), True
    for group in sweeps(missing(cells, filling.record)):
        left = None if filling.minutes is None else filling.minutes - (time.monotonic() - started) / 60
        code = JOBS_LEFT
        if left is None or left > 0:
            try:
                code = _run(group, filling, left)
            finally:
                for row in add(filling.record, list(_rows(group, filling.folder))):
                    print(f"{filling.record}: {', '.join(key_of(row))}: {_scores(row)}", flush=True)
        if code == JOBS_LEFT:
            print(f"{filling.minutes:g} minutes are over: the same command goes on with what is missing")
            break
        whole = whole and code == 0
    return whole


def _run(group: list[Cell], filling: Filling, minutes: float | None) -> int:
    """Run the sweep of a group and return its exit code; one that is to end here has saved its step before."""
    own = ["sweep.isolate=true", "sweep.repeat_timing=0", f'output_dir="{filling.folder}"']
    words = [*sweep_words(group), *own, *([] if minutes is None else [f"sweep.minutes={minutes:.4f}"])]
    print(shlex.join(["python", "train.py", "-m", *words]), flush=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "forecast.training", "-m", *words],
        env=environment(filling.threads),
        start_new_session=True,  # Ctrl-C of the terminal would come beside the signal sent below: a second one kills
    )
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    finally:
        process.kill()  # after a second signal


def _rows(group: list[Cell], folder: Path) -> Iterator[Record]:
    """Yield the rows of those cells, or of the runs that are averaged, that are finished in the sweep's folder."""
    from benchmarks.accuracy.ensemble import score_ensemble  # which imports Lightning

    runs = _finished(folder / "sweeps" / sweep_name(group))
    for cell in group:
        members = [runs.get((each.horizon, each.attention, each.seed)) for each in cell.members or [cell]]
        found = [run for run in members if run is not None]
        if len(found) < len(members):
            continue
        yield row_of(cell, score_ensemble(found) if cell.members else read_json(found[0].path / RESULT))


def _finished(sweep: Path) -> dict[Place, Run]:
    """Return the finished runs of a sweep; a folder in which a job of this sweep failed holds another run."""
    runs = {}
    jobs = read_jobs(sweep)
    for folder in map(Path, jobs[jobs["of"].notna()]["folder"]):
        if not (folder / FAILED).is_file():
            result = read_json(folder / RESULT)
            config = result["config"]
            runs[config["horizon"], config["attention"]["name"], str(result["seed"])] = Run(folder)
    return runs


def _scores(row: Record) -> str:
    ours, ridge = (
        f"MSE {float(row[f'{name}_mse']):.4f} MAE {float(row[f'{name}_mae']):.4f}" for name in ("test", "linear")
    )
    return f"test {ours}; ridge {ridge}; {int(row['windows']):,} windows; {float(row['seconds']):,.0f} s of training"
