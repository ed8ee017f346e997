"""Fixtures of the tests of trainings."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forecast.common.processes import SIGNALS
from forecast.training import command_line
from tests.support.small import quick


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """Return the configuration of a run of 12 steps into an empty folder."""
    return quick(tmp_path / "outputs")


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    """Yield a function that runs `python train.py <words>` in this process: exit code, output, errors."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["train.py", *words])
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        captured = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, captured.out, captured.err

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)
