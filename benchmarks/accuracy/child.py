"""A training of the record in a process of its own, as a person would start it."""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from forecast.common.processes import environment
from forecast.runs.run import Run

RUN_FOLDER = "run folder: "
"""What the line begins with that names the folder, at the end of what a training prints."""


class TrainingFailed(Exception):
    """A training ended without a result; the message is its own last line."""


def train_in_child(words: Sequence[str], folder: Path, threads: int | None = None) -> Run:
    """Train as `python train.py <words>` does, into `folder`, and give the run.

    A run of that configuration that is there is gone on with or, finished, taken as it is. Where this process is
    asked to end, the training is asked too, and has saved its step when the exception goes on.

    Raises
    ------
    TrainingFailed
        If it ended with another exit code than 0.
    """
    own = [f'output_dir="{folder}"', "resume=auto", "training.progress=false"]
    process = subprocess.Popen(
        [sys.executable, "-m", "forecast.training", *words, *own],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(threads),
        start_new_session=True,  # the terminal's Ctrl-C would come beside the signal sent below, and a second one kills
    )
    try:
        printed, complaints = process.communicate()
    except BaseException:
        process.terminate()
        process.communicate()
        raise
    finally:
        process.kill()  # where a second signal did not wait for the save
    if process.returncode:
        lines = complaints.strip().splitlines() or [f"ended with exit code {process.returncode}"]
        raise TrainingFailed(lines[-1].removeprefix("error: "))
    (said,) = (line for line in printed.splitlines() if line.startswith(RUN_FOLDER))
    return Run(Path(shlex.split(said.removeprefix(RUN_FOLDER))[0]))
