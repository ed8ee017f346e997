"""Worker processes of a run, which the leading process starts, monitors and ends."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from forecast.common.cli import explain
from forecast.common.errors import InputError, Interrupted, NotEnoughMemory, NotFiniteError, ProcessFailed
from forecast.common.group import ALONE, ON_THIS_MACHINE, Group
from forecast.common.place import Place, find_place, started_place
from forecast.common.processes import Child
from forecast.runs.settings import TrainerSettings

POLL_SECONDS = 0.5
"""Seconds between two checks that all workers are alive."""

GRACE_SECONDS = 10
"""Seconds for the leading process to notice a failed worker, and for a worker to end."""

KNOWN = (InputError.exit_code, NotFiniteError.exit_code, 4, NotEnoughMemory.exit_code)
"""Exit codes of a process that has printed a one-line error."""


@dataclass(frozen=True)
class Shutdown:
    """Sent to workers instead of work if there is no work or if the leading process has `failed`."""

    failed: bool


class Workers:
    """Worker processes of a run, which serve the leading process within the `with` block.

    They are children of this process unless a launcher such as torchrun started them. Their output is shown only if
    one of them fails.
    """

    def __init__(self) -> None:
        self.group = ALONE
        self._started = started_place(os.environ)
        self._children: dict[int, Child] = {}
        self._done = threading.Event()

    def __enter__(self) -> "Workers":
        if self._started is not None:
            assert self._started.rank == 0, "the workers call run_worker"
            self.group = Group(self._started)
            self.group.connect()  # the workers already wait for this connection
        return self

    def assemble(self, trainer: TrainerSettings) -> Group:
        """Return the process group that `trainer` requests; start the workers unless they already run."""
        place = find_place(self._started, *trainer.count_processes())
        if self._started is None and place.size > 1:
            self._start(place)
        return self.group

    def release(self) -> None:
        """Release the workers: their work is done, and later failures of a worker are ignored."""
        self.group.close()
        self._done.set()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if self._started is not None and not self.group.notified:
                self.group.hand_out(Shutdown(failed=error is not None))
            self.group.close()
        finally:
            self._end(error)

    def _start(self, place: Place) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="forecast-processes-"))
        place = replace(place, meeting=f"{ON_THIS_MACHINE}{self._folder / 'meeting'}")
        for rank in range(1, place.size):
            request = asdict(replace(place, rank=rank, local_rank=rank))
            self._children[rank] = Child("forecast.training.child:train_beside", request, scratch=self._folder)
        self.group = Group(place)
        threading.Thread(target=self._watch, daemon=True, name="watch-processes").start()

    def _end(self, error: BaseException | None) -> None:
        """End the workers; if one of them caused `error`, raise its failure."""
        if not self._children:
            return
        self._done.set()
        failure = None
        if isinstance(error, Exception) and not isinstance(error, Interrupted) and explain(error) is None:
            failure = self._wait_for_failure()
        for child in self._children.values():
            child.let_go()
        for child in self._children.values():
            with child, suppress(subprocess.TimeoutExpired):  # the end of this block kills it
                child.process.wait(GRACE_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)
        if failure is not None:
            raise failure from error

    def _wait_for_failure(self) -> ProcessFailed | None:
        """Return the failure of a worker within `GRACE_SECONDS`: the broken connection is noticed before it."""
        until = time.monotonic() + GRACE_SECONDS
        while (failure := self._failure()) is None and time.monotonic() < until:
            time.sleep(POLL_SECONDS / 5)
        return failure

    def _failure(self) -> ProcessFailed | None:
        ended = {rank: code for rank, child in self._children.items() if (code := child.process.poll())}
        if not ended:
            return None
        # others fail because the connection broke: the killed process, or the first to print, is the cause
        rank = min(ended, key=lambda number: (ended[number] > 0, self._children[number].printed_at))
        code, text = ended[rank], self._children[rank].printed
        who, last = f"process {rank} of {self.group.size}", text.splitlines()[-1] if text else "it left no message"
        if code not in KNOWN and text:
            print(f"{who}:\n{text}", file=sys.stderr)
        if code < 0 or code > 128:
            name = signal.Signals(-code if code < 0 else code - 128).name
            why = ", see above" if text else ": unless you sent this signal, memory may have run out"
            return ProcessFailed(f"{who}: was ended by {name}{why}", 1)
        if code not in KNOWN:
            last = f"{last}: a program error, see above"
        return ProcessFailed(f"{who}: {last.removeprefix(f'[rank{rank}]: ').removeprefix('error: ')}", code)

    def _watch(self) -> None:
        """End this process if a worker has failed and a library call waits for it forever."""
        while not self._done.wait(POLL_SECONDS):
            if not any(child.process.poll() for child in self._children.values()):
                continue
            if self._done.wait(GRACE_SECONDS):
                return
            failure = self._failure()
            assert failure is not None
            for child in self._children.values():
                child.process.kill()
            print(f"error: {failure}", file=sys.stderr, flush=True)
            shutil.rmtree(self._folder, ignore_errors=True)
            os._exit(failure.exit_code)
