"""Commands of the program side by side, each on its own core; an error or a signal ends them all."""

import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from forecast.common.errors import InputError
from forecast.common.processes import environment


class Commands:
    """Commands that several threads run; `stop` ends those that run and refuses further ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def run(self, words: Sequence[str], threads: int | None = None) -> None:
        """Run `python` with these words and wait; raise InputError if it fails or was stopped."""
        with self._lock:
            if self._stopped:
                raise InputError("stopped: run the same command again to continue")
            process = subprocess.Popen(
                [sys.executable, *words],
                env=environment(threads),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                process_group=0,  # the keys of the terminal reach it through `stop` only: a second signal would kill
            )
            self._running.add(process)
        _, errors = process.communicate()
        with self._lock:
            self._running.discard(process)
        if process.returncode != 0:
            command = shlex.join(["python", *words])
            raise InputError(f"{command} ended with exit code {process.returncode}:\n{errors[-2000:]}")

    def stop(self) -> None:
        """End the commands that run, by the signal on which a training keeps its state."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.terminate()


def in_lanes(lanes: Sequence[Callable[[Commands], None]]) -> None:
    """Call each lane in a thread of its own; the first error, or a signal, ends the commands of all lanes."""
    commands = Commands()
    with ThreadPoolExecutor(len(lanes)) as pool:
        try:
            futures = [pool.submit(lane, commands) for lane in lanes]
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        except BaseException:
            commands.stop()
            raise
        if any(future.exception() for future in done):
            commands.stop()
    for future in sorted(futures, key=lambda future: future not in done):  # the first error, not those of the ended
        future.result()
