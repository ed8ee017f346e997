"""Child processes that answer one request, and the signals that ask a process to end."""

import json
import os
import pkgutil
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

GLANCE = 0.5
"""Seconds of one wait for a reply: a signal that comes just before an endless wait would not be seen in it."""

_OUT_OF_MEMORY = (
    *("bad_alloc", "MemoryError", "Cannot allocate memory", "can't allocate memory", "Thread creation failed"),
)
"""What a process prints that died of a memory limit in a library that raises no exception."""


@dataclass(frozen=True)
class Ended:
    """How a child process ended.

    Attributes
    ----------
    code
        The exit code; minus the number of the signal that killed it.
    reply
        What its function returned, None if it did not get that far.
    printed
        All that it printed.
    """

    code: int
    reply: Any
    printed: str

    @property
    def out_of_memory(self) -> bool:
        """Whether the process died because it had no more memory."""
        return self.code == -signal.SIGKILL or any(words in self.printed for words in _OUT_OF_MEMORY)


class Child:
    """A function of this package in a new process: JSON in, JSON out.

    The process is in a group of its own, which the signals of a terminal do not reach. It ends when this process
    does, however that ends: its standard input closes then.

    Parameters
    ----------
    function
        Its name, such as `forecast.plan.worker:answer`. What it returns is the reply.
    request
        Its keyword arguments, plain values.
    threads
        Threads that it computes with; None for as many as the environment says.
    scratch
        A folder that the child removes if this process dies.
    """

    def __init__(
        self, function: str, request: Mapping[str, Any], *, threads: int | None = None, scratch: Path | None = None
    ) -> None:
        with tempfile.TemporaryFile() as file:
            self._output = os.dup(file.fileno())
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
        except BrokenPipeError:  # it has ended already, and its exit code says how
            self.let_go()

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the process if it still runs."""
        with self.process:
            self.process.kill()
            self.let_go()
        os.close(self._output)

    @property
    def printed(self) -> str:
        """All that it has printed."""
        return os.pread(self._output, os.fstat(self._output).st_size, 0).decode(errors="replace").strip()

    @property
    def printed_at(self) -> float:
        """The time at which it last printed."""
        return os.fstat(self._output).st_mtime

    def let_go(self) -> None:
        """Close its standard input, upon which it ends."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def wait(self, seconds: float | None = None) -> Ended:
        """Return how it ended; raise TimeoutError if it takes more than `seconds`."""
        assert self.process.stdout is not None
        until = None if seconds is None else time.monotonic() + seconds
        while not select.select([self.process.stdout], [], [], GLANCE)[0]:
            if until is not None and time.monotonic() >= until:
                raise TimeoutError
        reply = self.process.stdout.read()
        code = self.process.wait()
        whole = reply.endswith(b"\n")  # one that was killed while it wrote has not replied
        return Ended(code, json.loads(reply) if whole else None, self.printed)


def run_python(
    function: str, request: Mapping[str, Any], *, threads: int | None = None, seconds: float | None = None
) -> Ended:
    """Call a function in a new process and return how that ended; see `Child`, and `Child.wait` for the time."""
    with Child(function, request, threads=threads) as child:
        return child.wait(seconds)


def command(function: str) -> list[str]:
    """Return the command line of a child process."""
    return [sys.executable, "-P", "-c", "from forecast.common.processes import answer; answer()", function]


def environment(threads: int | None = None) -> dict[str, str]:
    """Return the environment of a process that imports what this one would and computes with `threads`."""
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    return {**os.environ, "PYTHONPATH": paths, **({} if threads is None else {"OMP_NUM_THREADS": str(threads)})}


def answer() -> None:
    """Answer the request on standard input: what `Child` runs in the new process."""
    with os.fdopen(os.dup(1), "w") as reply:
        os.dup2(2, 1)  # what is printed on the way is no reply
        message = json.loads(sys.stdin.readline())
        end_with_the_starter(message["scratch"])
        content = pkgutil.resolve_name(sys.argv[1])(**message["request"])
        reply.write(json.dumps(content) + "\n")


def end_with_the_starter(scratch: str | None = None) -> None:
    """End this process, whatever it does, when its standard input closes; remove the folder `scratch` then."""

    def wait() -> None:
        os.read(0, 1)  # not through a buffer, whose lock a process that ends could not have
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=wait, daemon=True, name="end-with-the-starter").start()


ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that ask a process to end: a scheduler, a terminal that closes, and what SLURM sends before its limit."""

SIGNALS = (*ENDING, signal.SIGINT)


def is_heard(number: signal.Signals) -> bool:
    """Say whether a signal is not ignored, as `nohup` has a process ignore SIGHUP."""
    return signal.getsignal(number) is not signal.SIG_IGN


class StopRequest:
    """Notes the first of `SIGNALS` between `listen` and `forget`; a second one acts at once.

    What listens reads `number` at the boundaries of its steps.

    Parameters
    ----------
    pass_on
        Called at the first, where another process is the one that has to stop.
    """

    def __init__(self, pass_on: Callable[[], None] = lambda: None) -> None:
        self.number: int | None = None
        self.pass_on = pass_on
        self._before: dict[signal.Signals, Any] = {}

    def listen(self) -> None:
        """Take the signals over; only a process's main thread can."""
        if threading.current_thread() is threading.main_thread() and not self._before:
            self._before = {each: signal.signal(each, self._note) for each in SIGNALS if is_heard(each)}

    def forget(self) -> None:
        """Restore the previous signal handlers."""
        for each, handler in self._before.items():
            signal.signal(each, handler)
        self._before = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number is None:
            self.number = number
            self.pass_on()
            return
        self.forget()
        signal.raise_signal(number)
