import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from benchmarks.accuracy import ensemble, recipes
from benchmarks.accuracy import fill as module
from benchmarks.accuracy.fill import Filling, fill, missing
from benchmarks.accuracy.recipes import Cell
from benchmarks.accuracy.record import add, read_record
from forecast.common.files import write_json
from forecast.runs.run import RESULT, Run
from forecast.training.sweep.sweep import JOBS_LEFT
from tests.benchmarks.accuracy.made import row
from tests.benchmarks.accuracy.test_record import RESULT as FINISHED
from tests.support.small import QUICK, SIMULATED, SMALL, snapshot

CELLS = [Cell("etth1", 96, name, "1", "main") for name in ("full", "linear", "mean")]


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Record the mechanisms and seeds of each sweep's jobs; `linear` fails, all others have the same result."""
    requested: list[list[str]] = []
    runs: dict[tuple[int, str, str], Run] = {}
    write_json(tmp_path / RESULT, FINISHED)

    def run(group: list[Cell], filling: Filling, minutes: float | None) -> int:
        jobs = [job for cell in group for job in cell.members or [cell]]
        requested.append([f"{job.attention} {job.seed}" for job in jobs])
        runs.update(
            {(job.horizon, job.attention, job.seed): Run(tmp_path) for job in jobs if job.attention != "linear"}
        )
        return int("linear 1" in requested[-1])

    monkeypatch.setattr(module, "_run", run)
    monkeypatch.setattr(module, "_finished", lambda sweep: runs)
    return requested


def test_a_failed_job_has_no_row_and_the_next_command_makes_only_what_is_missing(
    swept: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filling = Filling(tmp_path / "results.csv", tmp_path)
    assert fill(CELLS, filling) == 1
    assert [each["attention"] for each in read_record(filling.record)] == ["full", "mean"]
    printed = capsys.readouterr().out
    assert "etth1, 96, full, 1, main: test MSE 0.2500 MAE 0.3750; ridge MSE 0.3667 MAE 0.3910; 2,785 windows; 71 s" in (
        printed
    )
    assert missing(CELLS, filling.record) == [CELLS[1]]
    assert fill(CELLS, filling) == 1
    assert swept == [["full 1"], ["linear 1", "mean 1"], ["linear 1"]]


def test_after_the_time_limit_no_sweep_starts(
    swept: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 59.0, 61.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    assert fill([CELLS[0], CELLS[2]], Filling(tmp_path / "results.csv", tmp_path, minutes=1)) == JOBS_LEFT == 5
    assert swept == [["full 1"]]
    assert "time limit of 1 minutes reached" in capsys.readouterr().out


def test_an_average_uses_the_runs_of_its_seeds(
    swept: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    averaged: list[int] = []

    def score(runs: list[Run]) -> dict[str, Any]:
        averaged.append(len(runs))
        return FINISHED

    monkeypatch.setattr(ensemble, "score_runs", score)
    filling = Filling(tmp_path / "results.csv", tmp_path)
    add(filling.record, [row(0.3, seed="2")])
    assert fill([Cell("etth1", 96, "full", "1+2+3", "ensemble")], filling) == 0
    assert swept == [["full 1", "full 2", "full 3"]]
    assert averaged == [3]
    assert [each["seed"] for each in read_record(filling.record)] == ["2", "1+2+3"]


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_real_sweep_fills_the_record_and_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [word for word in (*SIMULATED, *SMALL["patch_informer"], *QUICK) if not word.startswith("horizon=")]
    tiny = replace(recipes.BY_NAME["main"], words=tuple(words), start="model=patch_informer")
    monkeypatch.setitem(recipes.BY_NAME, "main", tiny)
    cell = replace(CELLS[2], horizon=24)
    filling = Filling(tmp_path / "results.csv", tmp_path / "runs", threads=1)
    assert fill([cell], filling) == 0
    (first,) = read_record(filling.record)
    assert (first["attention"], first["status"]) == ("mean", "finished")
    (folder,) = (tmp_path / "runs" / "sweeps" / "main_etth1").glob("attention-mean*")
    before = snapshot(folder)
    filling.record.unlink()
    assert fill([cell], filling) == 0
    assert snapshot(folder) == before
    assert read_record(filling.record) == [first]


@pytest.fixture
def alarm() -> Iterator[None]:
    """Send this process an interrupt in a moment."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.7)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("alarm")
def test_an_interrupt_ends_the_sweep_once_it_has_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell script stands in for Python."""
    stand_in = tmp_path / "python"
    saving = f"trap 'sleep 0.3; echo whole > {tmp_path}/saved; exit 143' TERM; while true; do sleep 0.05; done"
    stand_in.write_text(f"#!/bin/sh\n{saving}\n")
    stand_in.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(stand_in))
    with pytest.raises(KeyboardInterrupt):
        fill(CELLS, Filling(tmp_path / "results.csv", tmp_path))
    assert (tmp_path / "saved").read_text() == "whole\n"
