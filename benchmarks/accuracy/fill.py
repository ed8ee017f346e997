"""Fill the record: one sweep per group of missing rows; its finished jobs become rows."""

import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.accuracy.recipes import AS_PUBLISHED, REGULAR_FILE, Cell, sweep_name, sweep_words, sweeps
from benchmarks.accuracy.record import Record, add, key_of, read_record, row_of
from benchmarks.accuracy.regular import write_regular
from benchmarks.published.tasks import data_folder
from forecast.common.files import read_json
from forecast.common.processes import environment
from forecast.runs.read import read_jobs
from forecast.runs.run import FAILED, RESULT, Run
from forecast.training.sweep.sweep import JOBS_LEFT

Place = tuple[int, str, str]
"""The horizon, mechanism and seed of a job."""


@dataclass(frozen=True)
class Filling:
    """The record's file, the folder of the runs, the threads of each run, and the time limit in minutes."""

    record: Path
    folder: Path
    threads: int | None = None
    minutes: float | None = None


def missing(cells: Sequence[Cell], record: Path) -> list[Cell]:
    """Return the cells without a row in the record."""
    known = {key_of(row) for row in read_record(record)}
    return [cell for cell in cells if cell.key not in known]


def fill(cells: Sequence[Cell], filling: Filling) -> int:
    """Run the missing rows of `cells` in order; return 0, 1 if a job failed, or `JOBS_LEFT` at the time limit.

    A job that is finished in the folder of its sweep is not trained again. However a sweep ends, its finished jobs
    become rows of the record.
    """
    started, failed = time.monotonic(), False
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
            print(f"time limit of {filling.minutes:g} minutes reached: run the same command again to continue")
            return JOBS_LEFT
        failed = failed or code != 0
    return int(failed)


def _run(group: list[Cell], filling: Filling, minutes: float | None) -> int:
    """Run the sweep of a group and return its exit code; on an interrupt, end it after it has saved its step."""
    if group[0].dataset == AS_PUBLISHED and not Path(REGULAR_FILE).is_file():
        write_regular(data_folder() / "weather.csv.gz", Path(REGULAR_FILE))
    fixed = ["sweep.isolate=true", "sweep.repeat_timing=0", f'output_dir="{filling.folder}"']
    words = [*sweep_words(group), *fixed, *([] if minutes is None else [f"sweep.minutes={minutes:.4f}"])]
    print(shlex.join(["python", "train.py", "-m", *words]), flush=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "forecast.training", "-m", *words],
        env=environment(filling.threads),
        start_new_session=True,  # the terminal's Ctrl-C must not reach it beside the signal below: a second one kills
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
    """Yield the row of each cell whose runs are finished in the sweep's folder."""
    from benchmarks.accuracy.ensemble import score_runs  # imports Lightning

    runs = _finished(folder / "sweeps" / sweep_name(group))
    for cell in group:
        members = [runs.get((member.horizon, member.attention, member.seed)) for member in cell.members or [cell]]
        finished = [run for run in members if run is not None]
        if len(finished) < len(members):
            continue
        yield row_of(cell, score_runs(finished) if cell.members else read_json(finished[0].path / RESULT))


def _finished(sweep: Path) -> dict[Place, Run]:
    """Return the finished runs of a sweep; skip folders in which a job of this sweep failed."""
    runs = {}
    jobs = read_jobs(sweep)
    for folder in map(Path, jobs[jobs["of"].notna()]["folder"]):
        if not (folder / FAILED).is_file():
            result = read_json(folder / RESULT)
            config = result["config"]
            runs[config["horizon"], config["attention"]["name"], str(result["seed"])] = Run(folder)
    return runs


def _scores(row: Record) -> str:
    model, ridge = (
        f"MSE {float(row[f'{name}_mse']):.4f} MAE {float(row[f'{name}_mae']):.4f}" for name in ("test", "linear")
    )
    return f"test {model}; ridge {ridge}; {int(row['windows']):,} windows; {float(row['seconds']):,.0f} s of training"
