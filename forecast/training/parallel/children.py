"""The other processes of a run on this machine: started, watched and ended by the one that leads."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from forecast.common.cli import explain
from forecast.common.errors import InputError, Interrupted, NotEnoughMemory, NotFiniteError, ProcessFailed
from forecast.common.group import ON_THIS_MACHINE
from forecast.common.processes import environment, python

LOOK_EVERY = 0.5
"""Seconds between two looks at whether all are alive."""

PATIENCE = 10
"""Seconds that the leading process has to notice by itself that another one failed, and a child to end."""


KNOWN = (InputError.exit_code, NotFiniteError.exit_code, 4, NotEnoughMemory.exit_code)
"""Exit codes of a process that has said in one line why it ended."""


class Children:
    """Processes 1 to `size` - 1 of a run, each a `python -m forecast.training.follow`.

    They share the terminal's signals and leave them to the one that leads. Each holds the reading end of a
    pipe, which tells it by its closing that the leading process has gone, however it went. What they print
    goes to files that are shown only if one fails.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.folder = Path(tempfile.mkdtemp(prefix="forecast-processes-"))
        self.done = threading.Event()
        self._processes = {rank: self._start(rank) for rank in range(1, size)}
        threading.Thread(target=self._watch, daemon=True, name="watch-processes").start()

    @property
    def meeting(self) -> str:
        """The address at which they and the leading process find each other."""
        return f"{ON_THIS_MACHINE}{self.folder / 'meeting'}"

    def end(self, error: BaseException | None) -> None:
        """End them all; where one of them is why `error` was raised here, raise what that one says.

        Raises
        ------
        ProcessFailed
            If one of them failed first.
        """
        self.done.set()
        failure = None
        if isinstance(error, Exception) and not isinstance(error, Interrupted) and explain(error) is None:
            failure = self._wait_for_failure()
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes.values():
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        if failure is not None:
            raise failure from error

    def _start(self, rank: int) -> "subprocess.Popen[bytes]":
        command = python("forecast.training.follow", str(rank), str(self.size), self.meeting)
        with self._log(rank).open("wb") as log:
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment())

    def _log(self, rank: int) -> Path:
        return self.folder / f"{rank}.txt"

    def _wait_for_failure(self) -> ProcessFailed | None:
        """Return why a child failed, if one has or does so in a moment: a broken connection is noticed first."""
        until = time.monotonic() + PATIENCE
        while (failure := self._failure()) is None and time.monotonic() < until:
            time.sleep(LOOK_EVERY / 5)
        return failure

    def _failure(self) -> ProcessFailed | None:
        ended = [rank for rank, process in self._processes.items() if process.poll()]
        if not ended:
            return None
        # the others fail of the broken connection: what was killed, or wrote first, is the cause
        rank = min(ended, key=lambda each: (self._processes[each].returncode > 0, self._log(each).stat().st_mtime))
        code, text = self._processes[rank].returncode, self._log(rank).read_text(errors="replace").strip()
        who, last = f"process {rank} of {self.size}", text.splitlines()[-1] if text else "it left no message"
        if code not in KNOWN and text:
            print(f"{who}:\n{text}", file=sys.stderr)
        if code < 0 or code > 128:
            name = signal.Signals(-code if code < 0 else code - 128).name
            why = ", see above" if text else ": if nobody sent it, the memory may have run out"
            return ProcessFailed(f"{who}: was ended by {name}{why}", 1)
        if code not in KNOWN:
            last = f"{last}: a fault of the program, see above"
        return ProcessFailed(f"{who}: {last.removeprefix(f'[rank{rank}]: ').removeprefix('error: ')}", code)

    def _watch(self) -> None:
        """End this process where another has failed and it waits for that one, deep in a library, for ever."""
        while not self.done.wait(LOOK_EVERY):
            if not any(process.poll() for process in self._processes.values()):
                continue
            if self.done.wait(PATIENCE):
                return
            failure = self._failure()
            assert failure is not None
            for process in self._processes.values():
                process.kill()
            print(f"error: {failure}", file=sys.stderr, flush=True)
            os._exit(failure.exit_code)
