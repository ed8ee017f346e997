"""A job of a sweep in a process of its own, and how it may fail."""

import json
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch

from forecast.common.cli import explain
from forecast.common.errors import Interrupted, ProcessFailed
from forecast.common.files import read_json, replacing, write_sealed
from forecast.common.processes import SIGNALS, StopRequest, environment, python
from forecast.runs.run import FAILED, RESULT, TRACEBACK


@dataclass(frozen=True)
class Failure:
    """What is told of a failure; plain values, since it may come from another process.

    Parameters
    ----------
    error
        What is wrong.
    kind
        The name of the exception's class.
    exit_code
        With which a run alone would have ended.
    traceback
        Of a fault of the program, None for what is nobody's bug.
    """

    error: str
    kind: str
    exit_code: int
    traceback: str | None = None

    @classmethod
    def of(cls, error: Exception) -> "Failure":
        """Return what is told of an exception."""
        kind = type(error).__name__
        if (known := explain(error)) is not None:
            return cls(known[0], kind, known[1])
        return cls(f"{kind}: {error}", kind, 1, "".join(traceback.format_exception(error)))


class JobFailed(Exception):
    """A job failed in another process."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error)
        self.failure = failure


def record(failure: Failure, folder: Path, words: Sequence[str], token: str) -> str:
    """Print the line and write `failed.json`, with a traceback beside it for a fault; give the line.

    Parameters
    ----------
    words
        The overrides of the job.
    token
        Of the command under which it failed.
    """
    line = failure.error
    if failure.traceback is not None:
        line = f"{line}, a fault of the program: see {folder / TRACEBACK}"
    line = " ".join(line.split())
    print(f"error: {folder.name}: {line}", file=sys.stderr, flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    if failure.traceback is not None:
        with replacing(folder / TRACEBACK) as file:
            file.write(failure.traceback.encode())
    facts = {"error": line, "kind": failure.kind, "exit_code": failure.exit_code, "overrides": words}
    write_sealed(folder / FAILED, {**facts, "sweep": token})
    return line


def marked(folder: Path, name: str, token: str) -> list[str]:
    """Return the names of the jobs of the sweep in `folder` in which the command `token` has left the file `name`."""
    found = [
        path.parent.name
        for path in folder.glob(f"*/{name}")
        if (facts := read_json(path)) is not None and facts["sweep"] == token
    ]
    return sorted(found)


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
    """Return the job its work, and give what it tells when it ends; its input stays open until then."""
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
