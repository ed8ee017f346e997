"""A command that a benchmark runs saves its state before it ends."""

import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from benchmarks.processes import run_to_its_end
from forecast.common.errors import Interrupted


def test_a_signal_lets_a_command_save_before_it_ends(tmp_path: Path) -> None:
    """The command takes longer to save than Python waits for a child after Ctrl-C."""
    program = (
        "import signal, sys, time\n"
        "def save(*_): time.sleep(0.6); open('saved', 'w').close(); sys.exit(143)\n"
        "signal.signal(signal.SIGTERM, save)\nopen('ready', 'w').close()\ntime.sleep(60)"
    )

    def interrupt() -> None:
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(Interrupted, match="run the same command again") as caught:
        run_to_its_end([sys.executable, "-c", program], cwd=tmp_path)
    thread.join()
    assert caught.value.exit_code == 130
    assert (tmp_path / "saved").exists()
    assert run_to_its_end([sys.executable, "-c", "raise SystemExit(3)"]) == 3
