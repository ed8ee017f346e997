"""Child processes that answer one request, and the signals that end a process."""

import json
import os
import pkgutil
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from forecast.common.files import no_temporary_folder

GLANCE = 0.5
"""Seconds of one wait for a reply: a signal just before an unlimited wait would go unnoticed."""

_OUT_OF_MEMORY = (
    *("bad_alloc", "MemoryError", "Cannot allocate memory", "can't allocate memory", "Thread creation failed"),
    *("memory allocation of", "malloc of size", "capacity overflow"),
)
"""Output of a process that a memory limit ended in a library without exceptions."""


@dataclass(frozen=True)
class Ended:
    """The end of a child process: exit code (minus the signal number if killed), reply or None, output."""

    code: int
    reply: Any
    printed: str

    @property
    def out_of_memory(self) -> bool:
        """Whether the process ended because it ran out of memory."""
        return self.code == -signal.SIGKILL or any(words in self.printed for words in _OUT_OF_MEMORY)


class Child:
    """A call of `function` (`forecast.plan.worker:answer`) in a new process; `request` and reply are JSON.

    The process has a separate process group, which signals of the terminal do not reach. It ends when this process
    ends, since its standard input closes, and then removes the folder `scratch`. `threads` is the number of CPU
    threads; None: that of the environment.
    """

    def __init__(
        self, function: str, request: Mapping[str, Any], *, threads: int | None = None, scratch: Path | None = None
    ) -> None:
        try:
            with tempfile.TemporaryFile() as file:
                self._output = os.dup(file.fileno())
        except FileNotFoundError:  # from Python's search for a place that can be written
            raise no_temporary_folder() from None
        self.process = subprocess.Popen(
            command(function),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._output,
            env=environment(threads),
            process_group=0,
        )
        assert self.process.stdin is not None
        message = {"request": dict(request), "scratch": None if scratch is None else str(scratch)}
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:  # it has ended; its exit code says why
            self.let_go()

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        with self.process:
            self.process.kill()
            self.let_go()
        os.close(self._output)

    @property
    def printed(self) -> str:
        """The output of the process so far."""
        return os.pread(self._output, os.fstat(self._output).st_size, 0).decode(errors="replace").strip()

    @property
    def printed_at(self) -> float:
        """The time of the last output."""
        return os.fstat(self._output).st_mtime

    def let_go(self) -> None:
        """Close the standard input of the process, which ends it."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def wait(self, seconds: float | None = None) -> Ended:
        """Wait for the end of the process and return it; raise TimeoutError after `seconds`."""
        assert self.process.stdout is not None
        until = None if seconds is None else time.monotonic() + seconds
        while not select.select([self.process.stdout], [], [], GLANCE)[0]:
            if until is not None and time.monotonic() >= until:
                raise TimeoutError
        reply = self.process.stdout.read()
        code = self.process.wait()
        complete = reply.endswith(b"\n")  # not if the process was killed while writing
        return Ended(code, json.loads(reply) if complete else None, self.printed)


def run_python(
    function: str, request: Mapping[str, Any], *, threads: int | None = None, seconds: float | None = None
) -> Ended:
    """Call a function in a new process, wait at most `seconds` and return its end; see `Child`."""
    with Child(function, request, threads=threads) as child:
        return child.wait(seconds)


def limit_memory(limit: int) -> None:
    """Limit the bytes that this process can allocate, on Linux; memory-mapped files do not count."""
    if sys.platform == "linux":
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def command(function: str) -> list[str]:
    """Return the command line of a child process."""
    return [sys.executable, "-P", "-c", "from forecast.common.processes import answer; answer()", function]


def environment(threads: int | None = None) -> dict[str, str]:
    """Return the environment of a child process with the import path of this one and `threads` CPU threads."""
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    return {**os.environ, "PYTHONPATH": paths, **({} if threads is None else {"OMP_NUM_THREADS": str(threads)})}


def answer() -> None:
    """Answer the request on standard input; runs in the process of `Child`."""
    with os.fdopen(os.dup(1), "w") as reply:
        os.dup2(2, 1)  # printed text is not part of the reply
        message = json.loads(sys.stdin.readline())
        end_with_the_starter(message["scratch"])
        content = pkgutil.resolve_name(sys.argv[1])(**message["request"])
        reply.write(json.dumps(content) + "\n")


def end_with_the_starter(scratch: str | None = None) -> None:
    """End this process when its standard input closes, and remove the folder `scratch`."""

    def wait() -> None:
        os.read(0, 1)  # unbuffered: an ending process could not take the lock of a buffer
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=wait, daemon=True, name="end-with-the-starter").start()


ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that end a process: from a scheduler, a closing terminal, and SLURM before its time limit."""

SIGNALS = (*ENDING, signal.SIGINT)


def is_heard(number: signal.Signals) -> bool:
    """Return whether a signal is not ignored, as SIGHUP is under `nohup`."""
    return signal.getsignal(number) is not signal.SIG_IGN


class StopRequest:
    """A handler that stores the first signal in `number`; a second signal takes effect at once.

    It is active between `listen` and `forget`. The first signal calls `pass_on`, which stops another process.
    """

    def __init__(self, pass_on: Callable[[], None] = lambda: None) -> None:
        self.number: int | None = None
        self.pass_on = pass_on
        self._before: dict[signal.Signals, Any] = {}

    def listen(self) -> None:
        """Install the signal handlers, in the main thread only."""
        if threading.current_thread() is threading.main_thread() and not self._before:
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS if is_heard(number)}

    def forget(self) -> None:
        """Restore the previous signal handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number is None:
            self.number = number
            self.pass_on()
            return
        self.forget()
        signal.raise_signal(number)
