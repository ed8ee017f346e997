"""Run a job of a sweep in a separate process, and describe its failures."""

import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from forecast.common.cli import explain
from forecast.common.errors import InputError, Interrupted, ProcessFailed
from forecast.common.files import read_json, replacing, write_sealed
from forecast.common.processes import SIGNALS, Child, Ended, StopRequest
from forecast.runs.run import FAILED, RESULT, TRACEBACK


@dataclass(frozen=True)
class Failure:
    """A failure as plain values, since it may come from another process.

    `kind` is the name of the exception class. `exit_code` is the code of the same failure in a single run. Only a
    program error has a `traceback`.
    """

    error: str
    kind: str
    exit_code: int
    traceback: str | None = None

    @classmethod
    def of(cls, error: Exception) -> "Failure":
        """Return the failure that describes an exception."""
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
    """Print the error line, write `failed.json` and any traceback, and return the line.

    `words` are the overrides of the job, `token` identifies the command.
    """
    line = failure.error
    if failure.traceback is not None:
        line = f"{line}, a program error: see {folder / TRACEBACK}"
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
    """Return the sorted names of the jobs in `folder` in which the command `token` wrote the file `name`."""
    return sorted(path.parent.name for path in folder.glob(f"*/{name}") if _wrote(path, token))


def _wrote(path: Path, token: str) -> bool:
    """Return whether the command `token` wrote this file; a damaged file is not its own."""
    try:
        facts = read_json(path)
    except InputError:
        return False
    return isinstance(facts, dict) and facts.get("sweep") == token


def train_apart(config: Mapping[str, Any], folder: Path, argv: Sequence[str]) -> dict[str, Any]:
    """Train in a new process without a progress bar, and return the content of `result.json`.

    `argv` is the command line in the result. The first stop signal is passed on, and the job saves its step. A second
    signal acts at once. The job also ends if this process ends.
    """
    quiet = {**config, "training": {**config["training"], "progress": False}}
    request = {"config": quiet, "folder": str(folder), "argv": [*argv]}
    with Child("forecast.training.child:train_job", request, threads=torch.get_num_threads()) as child:
        stop = StopRequest(child.process.terminate)
        try:
            stop.listen()
            ended = child.wait()
        finally:
            stop.forget()
    _check(ended, stop.number)
    result: dict[str, Any] = read_json(folder / RESULT)
    return result


def _check(ended: Ended, number: int | None) -> None:
    """Raise the exception that matches how the job ended; do nothing on success."""
    reply = ended.reply or {}
    if "interrupted" in reply:
        line, job_number = reply["interrupted"]
        raise Interrupted(line, job_number if number is None else number)
    if number is None and ended.code - 128 in SIGNALS:
        number = ended.code - 128  # only the job received the signal
    if number is not None:
        raise SystemExit(128 + number)
    if "failure" in reply:
        raise JobFailed(Failure(**reply["failure"]))
    if ended.code < 0:
        name = signal.Signals(-ended.code).name
        error = f"its process was ended by {name}: unless you sent this signal, memory may have run out"
        raise JobFailed(Failure(error, ProcessFailed.__name__, 1))
    if ended.code > 0:
        error = f"its process ended with exit code {ended.code}"
        raise JobFailed(Failure(error, ProcessFailed.__name__, 1, ended.printed))
