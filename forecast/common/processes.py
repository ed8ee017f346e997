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
"""Output of a process that died of a memory limit in a library that raises no exception."""


@dataclass(frozen=True)
class Ended:
    """How a child process ended: exit code (minus the signal that killed it), reply (None if it had none), output."""

    code: int
    reply: Any
    printed: str

    @property
    def out_of_memory(self) -> bool:
        """Whether the process died for lack of memory."""
        return self.code == -signal.SIGKILL or any(words in self.printed for words in _OUT_OF_MEMORY)


class Child:
    """The function `function` (`forecast.plan.worker:answer`) in a new process: `request` and reply are JSON.

    The process has a group of its own, which a terminal's signals do not reach. It ends with this process, because its
    standard input closes then, and removes the folder `scratch`. `threads` None takes the environment's number.
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
        with self.process:
            self.process.kill()
            self.let_go()
        os.close(self._output)

    @property
    def printed(self) -> str:
        """Its output so far."""
        return os.pread(self._output, os.fstat(self._output).st_size, 0).decode(errors="replace").strip()

    @property
    def printed_at(self) -> float:
        """The time at which it last printed."""
        return os.fstat(self._output).st_mtime

    def let_go(self) -> None:
        """Close its standard input, which makes it end."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def wait(self, seconds: float | None = None) -> Ended:
        """Return how it ended; raise TimeoutError after `seconds`."""
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
    """Call a function in a new process and return how it ended; see `Child`, and `Child.wait` for the time."""
    with Child(function, request, threads=threads) as child:
        return child.wait(seconds)


def command(function: str) -> list[str]:
    """Return the command line of a child process."""
    return [sys.executable, "-P", "-c", "from forecast.common.processes import answer; answer()", function]


def environment(threads: int | None = None) -> dict[str, str]:
    """Return the environment of a process with this one's imports that computes with `threads`."""
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    return {**os.environ, "PYTHONPATH": paths, **({} if threads is None else {"OMP_NUM_THREADS": str(threads)})}


def answer() -> None:
    """Answer the request on standard input, as the new process of `Child`."""
    with os.fdopen(os.dup(1), "w") as reply:
        os.dup2(2, 1)  # what is printed on the way is no reply
        message = json.loads(sys.stdin.readline())
        end_with_the_starter(message["scratch"])
        content = pkgutil.resolve_name(sys.argv[1])(**message["request"])
        reply.write(json.dumps(content) + "\n")


def end_with_the_starter(scratch: str | None = None) -> None:
    """End this process when its standard input closes, and remove the folder `scratch`."""

    def wait() -> None:
        os.read(0, 1)  # not through a buffer, whose lock a process that ends could not have
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=wait, daemon=True, name="end-with-the-starter").start()


ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that ask a process to end: from a scheduler, a closing terminal, and SLURM before its limit."""

SIGNALS = (*ENDING, signal.SIGINT)


def is_heard(number: signal.Signals) -> bool:
    """Return whether a signal is not ignored, as SIGHUP is under `nohup`."""
    return signal.getsignal(number) is not signal.SIG_IGN


class StopRequest:
    """Notes the first of `SIGNALS` between `listen` and `forget` as `number`; a second one acts at once.

    `pass_on` is called at the first, to stop another process.
    """

    def __init__(self, pass_on: Callable[[], None] = lambda: None) -> None:
        self.number: int | None = None
        self.pass_on = pass_on
        self._before: dict[signal.Signals, Any] = {}

    def listen(self) -> None:
        """Install the signal handlers; only a process's main thread can."""
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
