"""Signals that ask a training to stop: noted at once, acted on where the state is whole."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

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
        """Give the signals back to whoever had them."""
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
