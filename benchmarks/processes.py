"""Commands that a benchmark runs, and that save their state when it is stopped."""

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from forecast.common.errors import Interrupted
from forecast.common.processes import GLANCE, StopRequest


def run_to_its_end(command: Sequence[str], **options: Any) -> int:
    """Run a command that saves its state when it is stopped, and return its exit code.

    The first signal is passed on as SIGTERM. Once the command has ended, `Interrupted` is raised. `options` are for
    `subprocess.Popen`.
    """
    started: list[subprocess.Popen[Any]] = []

    def pass_on() -> None:
        for process in started:
            process.terminate()

    stop = StopRequest(pass_on)
    stop.listen()
    code = None
    try:
        process = subprocess.Popen(command, process_group=0, **options)
        started.append(process)
        if stop.number is not None:  # while it started
            process.terminate()
        while code is None:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(GLANCE)
    except BaseException:  # a second signal
        for process in started:
            process.kill()
        raise
    finally:
        stop.forget()
    if stop.number is not None:
        raise Interrupted("run the same command again to continue", stop.number)
    return code
