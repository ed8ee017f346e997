"""Child processes of this program, their environment and their signals."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any


def python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs `module` in a new process of this interpreter."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment for one that is to import what this one would, and `more`."""
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    return {**os.environ, "PYTHONPATH": paths, **more}


def end_with_the_starter(clean_up: Callable[[], None] = lambda: None) -> None:
    """End this process, whatever it does, when its standard input closes: who started it has gone, however it went."""

    def wait() -> None:
        os.read(0, 1)  # not through a buffer, whose lock a process that ends could not have
        clean_up()
        os._exit(0)

    threading.Thread(target=wait, daemon=True, name="end-with-the-starter").start()


def child_environment(threads: int | None = None) -> dict[str, str]:
    """Return a Python process this very package and `threads` to compute with, as many as it likes if None."""
    paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    own = {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    return {**os.environ, **own, **({} if threads is None else {"OMP_NUM_THREADS": str(threads)})}


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
