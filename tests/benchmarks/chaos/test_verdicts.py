"""The verdicts of the campaign: each can pass and fail."""

import random
from pathlib import Path

import pytest

from benchmarks.chaos.command import Ended
from benchmarks.chaos.corruptions import DAMAGES, Reader, judged
from benchmarks.chaos.interruptions import Interrupted, made_twice, wrong_end
from benchmarks.chaos.trial import complaint

SIGUSR1, SIGTERM, SIGKILL = 10, 15, 9
TRACEBACK = "Traceback (most recent call last):\n  x\nKeyError: 'x'\n"


def ended(code: int = 0, out: str = "", error: str = "", *, late: bool = False) -> Ended:
    return Ended(["train"], code, out, error, 1.0, 1.0, 0, late)


@pytest.mark.parametrize(
    ("end", "word"),
    [
        (ended(1, error=TRACEBACK), "traceback"),
        (ended(0, error=TRACEBACK), "traceback"),
        (ended(-9, late=True), "endless"),
        (ended(-11), "signal 11"),
        (ended(1, error="error: x"), "exit code 1"),
        (ended(2, error=""), "not in one line"),
        (ended(2, error="error: x\nerror: y"), "not in one line"),
        (ended(2, error="error: x\nmore"), "not in one line"),
    ],
)
def test_a_bad_end_is_described(end: Ended, word: str) -> None:
    assert word in str(complaint(end))


@pytest.mark.parametrize("code", [2, 3, 4, 6])
def test_a_one_line_error_is_a_good_end(code: int) -> None:
    assert complaint(ended(code, error="error: the file is empty")) is None
    assert complaint(ended(0, out="done")) is None


def test_damage_without_a_message_is_silent() -> None:
    path = Path("outputs/run/result.json")
    wrong, _ = judged(ended(0, "a table"), path, None, lambda: False)
    assert str(wrong).startswith("silent")
    assert judged(ended(0, "a table"), path, None, lambda: True) == (None, "equal")
    assert judged(ended(2, error=f"error: {path}: its hash differs"), path, None, lambda: False) == (None, "refused")
    wrong, _ = judged(ended(2, error="error: something"), path, None, lambda: False)
    assert "names no file" in str(wrong)


def test_a_skipped_run_must_be_named() -> None:
    path, reader = Path("outputs/run/result.json"), Reader([], lambda *_: None, may_skip=True)
    assert judged(ended(0, "run: left out: damaged"), path, reader, lambda: False) == (None, "reported")
    wrong, _ = judged(ended(0, "a report"), path, reader, lambda: False)
    assert str(wrong).startswith("silent")


@pytest.mark.parametrize("damage", dict.fromkeys(DAMAGES), ids=lambda damage: damage.__name__)
def test_damage_changes_the_file(damage: object, tmp_path: Path) -> None:
    for seed in range(20):
        path = tmp_path / f"{seed}.json"
        path.write_text('{"a": 12, "b": [3.5]}')
        before = path.read_bytes()
        damage(path, random.Random(seed))  # type: ignore[operator]
        assert not path.exists() or path.read_bytes() != before


def test_each_signal_has_its_exit_code() -> None:
    assert wrong_end(ended(-SIGKILL), SIGKILL) is None
    assert wrong_end(ended(143, "training: 5 steps"), SIGTERM) is None
    assert wrong_end(ended(-SIGUSR1, "training: 5 steps"), SIGUSR1) is not None  # nothing was saved
    assert wrong_end(ended(0), SIGKILL) is not None


def test_a_job_that_is_trained_twice_is_detected() -> None:
    once = Interrupted(ends=[ended(-9, "job-1 starts"), ended(0, "job-2 starts")], finished=[{"job-1"}, {"job-1"}])
    assert made_twice(once) is None
    twice = Interrupted(ends=[ended(-9, "job-1 starts"), ended(0, "job-1 starts")], finished=[{"job-1"}, {"job-1"}])
    assert "job-1" in str(made_twice(twice))
