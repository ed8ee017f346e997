"""A job of a sweep in a process of its own: what it held is gone with it, and it may run out of memory by itself."""

import json
import select
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import torch

from forecast.common.errors import Interrupted, ProcessFailed
from forecast.common.files import read_json
from forecast.common.processes import environment, python
from forecast.common.signals import SIGNALS, StopRequest
from forecast.runs.run import RESULT
from forecast.training.sweep.failure import Failure, JobFailed

CHILD = python("forecast.training.sweep.child")
"""The command of the process; it reads one line of JSON, and writes one where the job did not finish."""

GLANCE = 0.5
"""Seconds of a wait for the job: a signal that comes just before a wait without end would not be seen in it."""


def train_apart(config: Mapping[str, Any], folder: Path, argv: Sequence[str]) -> dict[str, Any]:
    """Train in a new process, without its own progress bar, and give the content of the run's `result.json`.

    A signal that asks this process to stop is passed on, once, and the job saves its step; a second one acts at
    once. The job also ends when this process does, however that goes.

    Parameters
    ----------
    config
        Plain values, the configuration.
    folder
        Of the run.
    argv
        The command line that the result is to name.

    Raises
    ------
    JobFailed
        With what the job says, or what its end says.
    Interrupted, SystemExit
        If a signal ended it.
    """
    quiet = {**config, "training": {**config["training"], "progress": False}}
    work = json.dumps({"config": quiet, "folder": str(folder), "argv": [*argv]})
    with tempfile.TemporaryFile() as said, _start(said) as process:
        stop = StopRequest(process.terminate)
        try:
            stop.listen()
            told = _hand_over(work, process)
            code = process.wait()
        finally:
            stop.forget()
            process.kill()  # where a second signal came; of what has ended nothing
        said.seek(0)
        _end(code, json.loads(told or "{}"), stop.number, said.read().decode(errors="replace").strip())
    result: dict[str, Any] = read_json(folder / RESULT)
    return result


def _start(said: IO[bytes]) -> "subprocess.Popen[bytes]":
    """Start the process in a group of its own, which the terminal's signals do not reach, with as many threads."""
    return subprocess.Popen(
        CHILD,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=said,
        env=environment(OMP_NUM_THREADS=str(torch.get_num_threads())),
        process_group=0,
    )


def _hand_over(work: str, process: "subprocess.Popen[bytes]") -> bytes:
    """Give the job its work, and give what it tells when it ends; its input stays open until then."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(work.encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:  # it is gone already, and its exit code says how
        with suppress(BrokenPipeError):
            process.stdin.close()
        return b""
    while not select.select([process.stdout], [], [], GLANCE)[0]:
        pass
    return process.stdout.read()


def _end(code: int, told: Mapping[str, Any], number: int | None, said: str) -> None:
    """Raise what the job's end comes to, if that is not a result."""
    if number is None and code - 128 in SIGNALS:
        number = code - 128  # sent to the job alone
    if number is not None:
        if "interrupted" in told:
            raise Interrupted(told["interrupted"], number)
        raise SystemExit(128 + number)
    if code == 0:
        return
    if "failure" in told:
        raise JobFailed(Failure(**told["failure"]))
    if code < 0:
        error = f"its process was ended by {signal.Signals(-code).name}: if nobody sent it, the memory may have run out"
        raise JobFailed(Failure(error, ProcessFailed.__name__, 1))
    raise JobFailed(Failure(f"its process ended with exit code {code}", ProcessFailed.__name__, 1, said))
