import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from benchmarks.published.lanes import Commands, in_lanes
from forecast.common.errors import InputError

WAITS = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path(sys.argv[1]).write_text("saved"), sys.exit(143)))
pathlib.Path(sys.argv[1]).write_text("begun")
time.sleep(60)
"""
"""A program that writes to a file when SIGTERM ends it, as a training keeps its state."""


def test_a_failed_command_ends_the_commands_of_the_other_lanes(tmp_path: Path) -> None:
    file = tmp_path / "state"

    def fails(commands: Commands) -> None:
        while not file.is_file() or file.read_text() != "begun":
            time.sleep(0.01)
        commands.run(["-c", "import sys; sys.exit('it is wrong')"])

    def waits(commands: Commands) -> None:
        commands.run(["-c", WAITS, str(file)])
        commands.run(["-c", "raise SystemExit('never')"])

    with pytest.raises(InputError, match=r"ended with exit code 1:\nit is wrong"):
        in_lanes([waits, fails])
    assert file.read_text() == "saved"


def test_a_signal_ends_all_commands_and_no_further_one_starts(tmp_path: Path) -> None:
    files = [tmp_path / str(number) for number in range(2)]
    ended: list[str] = []

    def lane(file: Path, commands: Commands) -> None:
        for _ in range(2):
            try:
                commands.run(["-c", WAITS, str(file)])
            except InputError as error:
                ended.append(str(error))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def send() -> None:
        while not all(file.is_file() and file.read_text() for file in files):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, interrupt)
    threading.Thread(target=send, daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            in_lanes([partial(lane, file) for file in files])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert [file.read_text() for file in files] == ["saved", "saved"]
    assert [sum(words in error for error in ended) for words in ("exit code 143", "stopped: run")] == [2, 2]


def test_commands_that_end_well_return(tmp_path: Path) -> None:
    file = tmp_path / "done"
    in_lanes([lambda commands: commands.run(["-c", f"open({str(file)!r}, 'w').write('yes')"], 1)])
    assert file.read_text() == "yes"
