"""Functions in child processes: their replies, their output and their exit codes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from forecast.common.cli import explain
from forecast.common.processes import Child, Ended, environment, run_python

HERE = "tests.common.test_processes"


def echo(**request: Any) -> dict[str, Any]:
    print("a line that is no reply")
    os.write(1, b'{"neither": "is this"}\n')
    return {**request, "threads": os.environ.get("OMP_NUM_THREADS"), "group": os.getpgid(0)}


def fail(words: str) -> None:
    raise RuntimeError(words)


def leave(code: int) -> None:
    os._exit(code)


def end_by(number: int) -> None:
    os.kill(os.getpid(), number)


def sleep(seconds: float = 60.0, note: str = "", end: str = "") -> None:
    if note:
        Path(note).touch()
    time.sleep(seconds)
    if end:
        Path(end).touch()


def start_another(note: str) -> None:
    """Start a child, and die without a word to it."""
    scratch = Path(note).parent / "scratch"
    scratch.mkdir()
    child = Child(f"{HERE}:sleep", {"note": note}, scratch=scratch)
    while not Path(note).exists():
        time.sleep(0.01)
    print(child.process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_function_gets_its_arguments_and_its_output_is_not_a_reply() -> None:
    ended = run_python(f"{HERE}:echo", {"number": 0.1, "words": ["ä", None]}, threads=3)
    assert ended.code == 0
    group = ended.reply.pop("group")
    assert ended.reply == {"number": 0.1, "words": ["ä", None], "threads": "3"}
    assert sorted(ended.printed.splitlines()) == ["a line that is no reply", '{"neither": "is this"}']
    assert group != os.getpgid(0)


def test_a_large_request_and_a_large_reply_arrive() -> None:
    words = ["x" * 2**20]
    assert run_python(f"{HERE}:echo", {"words": words}).reply["words"] == words


def test_a_fault_leaves_its_traceback_and_no_reply() -> None:
    ended = run_python(f"{HERE}:fail", {"words": "shapes differ"})
    assert (ended.code, ended.reply) == (1, None)
    assert ended.printed.splitlines()[-1] == "RuntimeError: shapes differ"
    assert not ended.out_of_memory


@pytest.mark.parametrize(("function", "given", "code"), [("leave", {"code": 7}, 7), ("end_by", {"number": 15}, -15)])
def test_a_silent_end_is_reported_by_its_exit_code(function: str, given: dict[str, int], code: int) -> None:
    assert run_python(f"{HERE}:{function}", given) == Ended(code, None, "")


@pytest.mark.parametrize(
    ("code", "printed", "expected"),
    [
        (-9, "", True),
        (-6, "terminate called after throwing an instance of 'std::bad_alloc'", True),
        (1, "MemoryError", True),
        (1, "libgomp: Thread creation failed: Resource temporarily unavailable", True),
        (1, "ImportError: no module", False),
    ],
)
def test_a_process_ended_by_a_memory_limit_is_recognised(code: int, printed: str, expected: bool) -> None:
    assert Ended(code, None, printed).out_of_memory is expected


def test_a_process_that_runs_too_long_is_stopped(tmp_path: Path) -> None:
    end = tmp_path / "end"
    with pytest.raises(TimeoutError):
        run_python(f"{HERE}:sleep", {"end": str(end)}, seconds=0.1)
    assert not end.exists()


def test_a_process_ends_when_its_input_closes() -> None:
    with Child(f"{HERE}:sleep", {}) as child:
        child.let_go()
        assert child.wait(20) == Ended(0, None, "")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it looks for a process in /proc")
def test_no_process_outlives_the_one_that_started_it_and_its_folder_goes_too(tmp_path: Path) -> None:
    program = f"from {HERE} import start_another as start; start({str(tmp_path / 'note')!r})"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment())
    assert ended.returncode == -signal.SIGKILL
    until = time.monotonic() + 20
    while (tmp_path / "scratch").exists() or Path(f"/proc/{int(ended.stdout)}").exists():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_without_a_temporary_folder_the_disk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.TemporaryFile", none)
    with pytest.raises(OSError, match="no temporary folder") as caught:
        Child(f"{HERE}:echo", {})
    known = explain(caught.value)
    assert known is not None
    assert known[1] == 4
