import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from benchmarks.accuracy.child import TrainingFailed, train_in_child
from tests.conftest import LIGHTNING, TinyRun
from tests.support.small import QUICK, SMALL, snapshot

pytestmark = [pytest.mark.filterwarnings(text) for text in LIGHTNING]


@pytest.mark.slow
def test_a_run_that_is_there_is_taken_as_it_is(tiny_run: TinyRun, tmp_path: Path) -> None:
    folder = tmp_path / "of the record"
    folder.symlink_to(tiny_run.path.parents[1])
    before = snapshot(tiny_run.path)
    run = train_in_child(["model=patch_informer", *SMALL["patch_informer"], *QUICK, *tiny_run.words], folder, threads=1)
    assert run.path.parent == folder / "hours"
    assert run.path.samefile(tiny_run.path)
    assert snapshot(tiny_run.path) == before


def stand_in(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a shell script stand in for Python."""
    file = folder / "python"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(file))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "echo a warning >&2; echo 'error: horizon 0: must be at least 1' >&2; exit 2",
            "horizon 0: must be at least 1",
        ),
        ("exit 4", "ended with exit code 4"),
        ("kill -KILL $$", "ended with exit code -9"),
    ],
)
def test_a_failure_is_the_last_line_that_the_training_said(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, script, monkeypatch)
    with pytest.raises(TrainingFailed) as failure:
        train_in_child([], tmp_path)
    assert str(failure.value) == said


@pytest.fixture
def alarm() -> Iterator[None]:
    """Send this process an interrupt in a moment."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.7)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("alarm")
def test_an_interrupt_ends_the_training_once_it_has_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saving = f"trap 'sleep 0.3; echo whole > {tmp_path}/saved; exit 143' TERM; while true; do sleep 0.05; done"
    stand_in(tmp_path, saving, monkeypatch)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        train_in_child([], tmp_path)
    assert (tmp_path / "saved").read_text() == "whole\n"
    assert time.monotonic() - started < 10
