"""Trainings in a child process: a job of a sweep, or a worker of a run with several processes.

Heavy imports are inside the functions, where a signal that arrives during them is handled.
"""

import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from forecast.common.cli import finish


def train_job(config: dict[str, Any], folder: str, argv: list[str]) -> dict[str, Any]:
    """Train a job of a sweep; return its failure or interruption, or an empty dict on success."""
    sys.argv = argv
    reply: dict[str, Any] = {}

    def job() -> None:
        from forecast.common.errors import Interrupted
        from forecast.training.sweep.isolated import Failure
        from forecast.training.train import train

        try:
            train(config, folder=Path(folder))
        except Interrupted as end:
            reply["interrupted"] = [str(end), end.exit_code - 128]
        except Exception as error:  # a failed job must not end the sweep
            reply["failure"] = asdict(Failure.of(error))

    if code := finish(job):
        sys.exit(code)
    return reply


def train_beside(**place: Any) -> None:
    """Run a worker of the leading process, and exit as a command does."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the leading process decides when to stop

    def work() -> None:
        from forecast.common.place import Place
        from forecast.training.train import run_worker

        run_worker(Place(**place))

    sys.exit(finish(work))
