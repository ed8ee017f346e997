"""Why a job of a sweep failed: told at once in one line, and kept in its folder."""

import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from forecast.common.cli import explain
from forecast.common.files import read_json, replacing, write_sealed
from forecast.runs.run import FAILED, TRACEBACK


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
        """Give what is told of an exception."""
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
    """Give the names of the jobs of the sweep in `folder` in which the command `token` has left the file `name`."""
    found = [
        path.parent.name
        for path in folder.glob(f"*/{name}")
        if (facts := read_json(path)) is not None and facts["sweep"] == token
    ]
    return sorted(found)
