"""Progress of a measurement when the error stream is a pipe."""

import io
import re
import time

import pytest
from rich.console import Console

from forecast.common import progress as module
from forecast.common.progress import progress


def piped() -> Console:
    return Console(file=io.StringIO(), force_terminal=False, width=20)


def lines(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_piped_progress_prints_an_opening_and_then_occasional_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    console, now = piped(), [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    with progress(12, quiet=False, opening="a long line that says what comes", console=console) as (say, advance):
        for number in range(6):
            say(f"case {number}")
            now[0] += 4
            advance(2)
    assert lines(console) == [
        "a long line that says what comes",
        "0 of 12, 0 ms: case 0",
        "6 of 12, 12 s: case 3",
    ]


def test_progress_of_another_process_is_repeated_with_the_remaining_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BEAT", 0.02)
    console = piped()
    with progress(3, quiet=False, elsewhere=True, console=console) as (say, advance):
        say("full: measure")
        time.sleep(0.1)
        advance(1)
        time.sleep(0.1)
    assert len(lines(console)) >= 4
    assert "; about " not in lines(console)[0]
    assert re.match(r"1 of 3, 0\.[2-9] s: full: measure; about [01]\.", lines(console)[-1])


def test_quiet_progress_prints_nothing() -> None:
    console = piped()
    with progress(3, quiet=True, opening="what comes", elsewhere=True, console=console) as (say, advance):
        say("case")
        advance(1)
    assert lines(console) == []
