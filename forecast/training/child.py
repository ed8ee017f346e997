"""Trainings in a process of their own: a job of a sweep, and another process of a run.

Heavy imports are in the functions, since a signal may come before they are done.
"""

import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from forecast.common.cli import finish


def train_job(config: dict[str, Any], folder: str, argv: list[str]) -> dict[str, Any]:
    """Train a job of a sweep; return its failure or interruption, nothing if it has a result."""
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
        except Exception as error:  # the boundary of a job, as where it runs in the sweep's own process
            reply["failure"] = asdict(Failure.of(error))

    if code := finish(job):
        sys.exit(code)
    return reply


def train_beside(**place: Any) -> None:
    """Train beside the leading process of a run, and exit as a command does."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the process that leads decides

    def work() -> None:
        from forecast.common.place import Place
        from forecast.training.train import run_worker

        run_worker(Place(**place))

    sys.exit(finish(work))
