"""The guard detects every effect that a file from an unknown source must not have."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.guard import TOKEN, Watch


def seen(tmp_path: Path, act: Callable[[], object], **more: object) -> list[str]:
    """Return the events that the guard reports while a fork of this process calls `act`."""
    watch = Watch(tmp_path, writable=(tmp_path / "out",), private=(tmp_path / "private",), **more)  # type: ignore[arg-type]
    (tmp_path / "out").mkdir()
    events = tmp_path / "events"
    handle = os.open(events, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    child = os.fork()
    if not child:
        try:
            os.chdir(tmp_path)
            sys.path.insert(0, str(tmp_path))
            watch.begin(handle)
            act()
        except BaseException:
            os._exit(1)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(handle)
    return [json.loads(line)["event"] for line in events.read_text().splitlines()]


def connect() -> None:
    import socket

    socket.create_connection(("127.0.0.1", 9), timeout=1)


def unpickle() -> None:
    import pickle

    pickle.loads(b"cos\ngetpid\n.")


def write(name: str) -> Callable[[], object]:
    return lambda: Path(name).write_text("x")


ACTS: dict[str, tuple[Callable[[], object], str]] = {
    "a module that a file names": (lambda: __import__("this"), "import"),
    "a module of the folder": (lambda: __import__("payload"), "exec"),
    "code of a file": (lambda: exec(f"{TOKEN} = 1"), "compile"),
    "a shell": (lambda: os.system("true"), "os.system"),
    "a connection": (connect, "socket.connect"),
    "a pickle": (unpickle, "pickle.find_class"),
    "a file beside": (write("beside"), "open"),
    "a file above": (write("../above"), "open"),
    "a new folder": (lambda: os.mkdir("made"), "os.mkdir"),
    "a removed file": (lambda: os.remove("payload.py"), "os.remove"),
    "a file moved out": (lambda: os.rename("payload.py", "out/x"), "os.rename"),
    "a private file": (lambda: Path("private/secret").read_text(), "read"),
    "a file through a link": (write("out/link/x"), "open"),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "payload.py").write_text("x = 1")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "secret").write_text("x")
    return tmp_path


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("name", ACTS)
def test_the_guard_detects(name: str, place: Path) -> None:
    act, event = ACTS[name]

    def prepared() -> object:
        if "link" in name:
            os.symlink("..", "out/link")
        sys.modules.pop("this", None)
        return act()

    assert event in seen(place, prepared, modules=frozenset({"this"}))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_the_guard_is_silent_if_a_command_writes_only_its_own_files(place: Path) -> None:
    def act() -> None:
        write("out/x")()
        Path("payload.py").read_text()
        os.rename("out/x", "out/y")
        exec("x = 1")

    assert seen(place, act) == []


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_write_outside_the_trial_is_prevented(place: Path) -> None:
    inner = place / "inner"
    inner.mkdir()
    watched = seen(inner, write("../above"))
    assert watched == ["open"]
    assert not (place / "above").exists()
