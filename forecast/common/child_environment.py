"""What a process of this program's own is started with."""

import os
from pathlib import Path

import forecast


def child_environment(threads: int | None = None) -> dict[str, str]:
    """Give a Python process this very package and `threads` to compute with, as many as it likes if None."""
    paths = [str(Path(forecast.__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    own = {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    return {**os.environ, **own, **({} if threads is None else {"OMP_NUM_THREADS": str(threads)})}
