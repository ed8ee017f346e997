"""A trial in a process of its own: what it held is gone with it, and it may run out of memory by itself."""

import json
import signal
import subprocess
import sys

import torch

from forecast.benchmark.search import MEMORY, TIME, Trial
from forecast.benchmark.trial import Ask
from forecast.common.child_environment import child_environment

STARTING = 120.0
"""Seconds that a process may take before its step begins: imports and building the model."""

_OUT_OF_MEMORY = (
    "bad_alloc",
    "MemoryError",
    "Cannot allocate memory",
    "can't allocate memory",
    "Thread creation failed",
)
"""What a process says that died of the limit in a library that knows no better."""


def try_in_child(ask: Ask, limit: float) -> Trial:
    """Make a step in a new process.

    Parameters
    ----------
    ask : Ask
        What is tried.
    limit : float
        Seconds that the step may take.

    Raises
    ------
    RuntimeError
        If the process failed for anything but memory or time, with what it said.
    """
    look_back = ask.task.context_length
    try:
        ended = run_module("forecast.benchmark.trial", ask.to_json(), limit + STARTING)
    except subprocess.TimeoutExpired:
        return Trial(look_back, why=f"{TIME}: the step took more than {limit:,.0f} s")
    if ended.returncode == 0:
        return Trial(**json.loads(ended.stdout.splitlines()[-1]))
    if died_of_memory(ended):
        return Trial(look_back, why=f"{MEMORY}: the process had no more")
    raise RuntimeError(f"look-back {look_back:,} of {ask.variant.label} ended with {ended.returncode}: {ended.stderr}")


def run_module(module: str, argument: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run `python -m module argument`, of this very package and with as many threads as this process computes with.

    Raises
    ------
    subprocess.TimeoutExpired
        If it took longer than `seconds`; it is stopped then.
    """
    command = [sys.executable, "-m", module, argument]
    environment = child_environment(torch.get_num_threads())
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=seconds)


def died_of_memory(ended: subprocess.CompletedProcess[str]) -> bool:
    """Tell whether a process ended since it had no memory left, whoever in it noticed."""
    return ended.returncode == -signal.SIGKILL or any(words in ended.stderr for words in _OUT_OF_MEMORY)
