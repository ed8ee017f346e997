"""Asks a process of its own about a mechanism."""

import subprocess

from forecast.benchmark.child import STARTING, died_of_memory, run_module
from forecast.benchmark.search import MEMORY, TIME
from forecast.plan.answer import Answer, Ask


def ask_child(ask: Ask, label: str, limit: float) -> Answer:
    """Have a new process do what is asked.

    Parameters
    ----------
    label : str
        The mechanism's, for a message.
    limit : float
        Seconds that it may take beside those of its start.

    Raises
    ------
    RuntimeError
        If the process failed for anything but memory or time, with what it said.
    """
    try:
        ended = run_module("forecast.plan.worker", ask.to_json(), limit + STARTING)
    except subprocess.TimeoutExpired:
        return Answer(f"{TIME}: took more than {limit:,.0f} s: raise --limit")
    if ended.returncode == 0:
        return Answer.from_json(ended.stdout.splitlines()[-1])
    if died_of_memory(ended):
        return Answer(f"{MEMORY}: the process had no more")
    raise RuntimeError(f"{label} ended with {ended.returncode}: {ended.stderr}")
