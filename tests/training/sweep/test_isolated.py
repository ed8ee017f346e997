"""Jobs in separate processes: small programs replace the training, except in the sweep at the end."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forecast.common import processes
from forecast.common.errors import Interrupted
from forecast.common.processes import environment
from forecast.training.sweep import job
from forecast.training.sweep.isolated import JobFailed, marked, train_apart
from tests.conftest import LIGHTNING
from tests.support.sweeps import command, read

pytestmark = [pytest.mark.filterwarnings(text) for text in LIGHTNING]

BEGINS = "import json, os, pathlib, signal, sys, time\nwork = json.loads(sys.stdin.readline())['request']\n"
FAILURE = {"error": "no such file", "kind": "InputError", "exit_code": 2, "traceback": None}

Runs = Callable[[str], dict[str, Any]]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Return a function that trains in a child process, which runs a small program instead of the training."""

    def run(program: str) -> dict[str, Any]:
        monkeypatch.setattr(processes, "command", lambda _: [sys.executable, "-S", "-c", BEGINS + program])
        config = {"seed": 3, "training": {"progress": True, "max_steps": 5}}
        return train_apart(config, tmp_path, ["train.py", "seed=3"])

    return run


def test_an_isolated_job_trains_without_a_progress_bar_and_returns_its_result(runs: Runs) -> None:
    result = runs("pathlib.Path(work['folder'], 'result.json').write_text(json.dumps(work))")
    assert result["config"] == {"seed": 3, "training": {"progress": False, "max_steps": 5}}
    assert result["argv"] == ["train.py", "seed=3"]


def test_the_failure_that_a_job_reports_is_raised(runs: Runs) -> None:
    with pytest.raises(JobFailed) as raised:
        runs(f"print(json.dumps({{'failure': json.loads({json.dumps(FAILURE)!r})}}))")
    assert vars(raised.value.failure) == FAILURE


def test_a_killed_job_does_not_end_the_sweep(runs: Runs) -> None:
    with pytest.raises(
        JobFailed, match="was ended by SIGKILL: unless you sent this signal, memory may have run out"
    ) as raised:
        runs("os.kill(os.getpid(), signal.SIGKILL)")
    assert (raised.value.failure.exit_code, raised.value.failure.traceback) == (1, None)


def test_the_output_of_a_job_that_dies_without_a_report_is_its_traceback(runs: Runs) -> None:
    with pytest.raises(JobFailed, match="its process ended with exit code 7") as raised:
        runs("print('odd', file=sys.stderr); sys.exit(7)")
    assert raised.value.failure.traceback == "odd"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on_and_the_job_saves_its_step_before_the_sweep_ends(
    runs: Runs, tmp_path: Path, number: int
) -> None:
    program = f"""
def save(*_):
    pathlib.Path(work['folder'], 'saved').touch()
    print(json.dumps({{'interrupted': ['step 5 is saved', 15]}}))
    sys.exit()
signal.signal(signal.SIGTERM, save)
os.kill(os.getppid(), {int(number)})
time.sleep(30)
"""
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match="step 5 is saved") as raised:
        runs(program)
    assert raised.value.exit_code == 128 + number
    assert (tmp_path / "saved").exists()
    assert signal.getsignal(number) is before


def test_a_second_signal_does_not_wait_for_the_job(runs: Runs) -> None:
    program = "signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getppid(), signal.SIGINT))\n"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # an earlier test may have changed it
    try:
        with pytest.raises(KeyboardInterrupt):
            runs(f"{program}os.kill(os.getppid(), signal.SIGINT)\ntime.sleep(30)")
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_signal_at_the_end_of_a_job_still_ends_the_sweep(runs: Runs) -> None:
    with pytest.raises(SystemExit) as ended:
        runs("signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); os.kill(os.getppid(), 2); time.sleep(30)")
    assert ended.value.code == 130


def test_a_terminal_signal_does_not_reach_the_job(runs: Runs) -> None:
    result = runs("pathlib.Path(work['folder'], 'result.json').write_text(json.dumps({'group': os.getpgid(0)}))")
    assert result["group"] != os.getpgid(0)


def test_a_job_ends_with_the_process_that_started_it() -> None:
    program = "from forecast.common.processes import end_with_the_starter as end; import time; end(); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, env=environment())
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(20) == 0


@pytest.mark.exhaustive
def test_an_isolated_job_has_the_scores_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def observed(config: Any, folder: Path, argv: Any) -> dict[str, Any]:
        started.append(folder.parent.name)
        return train_apart(config, folder, argv)

    monkeypatch.setattr(job, "train_apart", observed)
    words = ["attention=linear", "seed=2", "~callbacks.figures"]
    apart, together = (
        command(tmp_path, *words, f"sweep.name={name}", f"sweep.isolate={isolate}")
        for name, isolate in (("apart", "true"), ("together", "false"))
    )
    assert (apart.code, apart.errors, together.code) == (0, [], 0)
    assert started == ["apart"]
    alone, here = (read(tmp_path / "sweeps" / name / "job" / "result.json") for name in ("apart", "together"))
    for key in ("validation", "test", "baselines", "device"):
        assert alone[key] == here[key]
    assert alone["command"].startswith("python train.py ")
    assert "attention=linear" in alone["command"]
    assert "sweep." not in alone["command"]


@pytest.mark.exhaustive
@pytest.mark.slow
def test_an_isolated_job_that_fails_does_not_end_the_sweep(tmp_path: Path) -> None:
    ended = command(tmp_path, "attention=linear", "context_length=9000,48", "sweep.name=apart", "sweep.isolate=true")
    assert ended.code == 1
    (line,) = ended.errors
    assert line.startswith("error: context_length-9000: context_length 9000 + horizon 12")
    failed = read(tmp_path / "sweeps" / "apart" / "context_length-9000" / "failed.json")
    assert (failed["kind"], failed["exit_code"]) == ("InputError", 2)
    assert (tmp_path / "sweeps" / "apart" / "context_length-48" / "result.json").is_file()


def test_a_damaged_mark_in_another_job_is_passed_over(tmp_path: Path) -> None:
    for name, text in {"a": '{"sweep": "mine"}', "b": '{"sweep": "other"}', "c": "{", "d": "[]", "e": "{}"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "left.json").write_text(text)
    assert marked(tmp_path, "left.json", "mine") == ["a"]
