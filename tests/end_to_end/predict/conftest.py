"""Fixtures of the tests of forecasts."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kept import kept_run
from tests.support.known import train_known


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture(scope="session")
def known_run() -> Path:
    """Train a few steps on a table with every role, and return the run folder."""
    return kept_run("known", lambda folder: train_known(folder, "model.linear_path=ridge"))[0].path
