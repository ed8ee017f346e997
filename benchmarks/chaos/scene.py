"""The place of an attack: a stranger's run folder, what it must not reach, and the tools of who made it."""

import hashlib
import json
import os
import random
import shutil
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.chaos.fixtures import RUN, SWEEP, put_table
from benchmarks.chaos.guard import TOKEN
from benchmarks.chaos.trial import Place

SECRET = "CHAOS_SECRET"
"""An environment variable that no file may read."""

EVIL = "outputs/evil"
"""Where the stranger's run folder is unpacked, from the current folder of the command."""

MODULES = ("payload", "outputs", "evil_module")
"""The modules of the payload, by each name under which a path of imports would find it."""


@dataclass
class Scene:
    """One attack while it is made.

    Attributes
    ----------
    folder
        Of the trial: nothing outside it may be touched, and nothing in it but what the command is asked to write.
    work
        The current folder of the command.
    run
        The stranger's run folder.
    port
        Of a server on this machine that counts who asks it.
    modules
        Modules that the attack names.
    """

    folder: Path
    work: Path
    run: Path
    random: random.Random
    finished: bool
    port: int
    secret: str
    modules: set[str] = field(default_factory=lambda: set(MODULES))

    @property
    def outside(self) -> Path:
        """A folder of the user's that no command may read or write."""
        return self.folder / "outside"

    @property
    def mark(self) -> Path:
        """The file that a payload makes once it runs."""
        return self.folder / "PWNED"

    def choose(self, *values: Any) -> Any:
        """Return one of the values."""
        return self.random.choice(values)

    def url(self, scheme: str = "http") -> str:
        """Return an address of the counting server."""
        return f"{scheme}://127.0.0.1:{self.port}/table.csv"

    def escape(self, name: str = "ESCAPED") -> str:
        """Return a path that leaves the run folder: upwards, or absolute."""
        up = "/".join([".."] * self.random.randint(1, 5))
        return str(self.choose(f"{up}/{name}", str(self.outside / name), f"x/{up}/{name}"))

    def read(self, name: str) -> Any:
        """Return the content of a JSON file of the run folder."""
        return json.loads((self.run / name).read_text(encoding="utf-8"))

    def edit(self, name: str, path: Sequence[str | int], value: Any) -> None:
        """Put a value into a JSON file of the run folder, making what is missing on the way."""
        content = self.read(name)
        node = content
        for key in path[:-1]:
            if isinstance(node, dict) and not isinstance(node.get(key), dict | list):
                node[key] = {}
            node = node[key]
        node[path[-1]] = value
        self.write(name, json.dumps(content, indent=2))

    def write(self, name: str, content: str | bytes) -> None:
        """Replace a file of the run folder."""
        raw = content.encode("utf-8", errors="surrogatepass") if isinstance(content, str) else content
        (self.run / name).write_bytes(raw)

    def plant(self) -> None:
        """Put modules beside the run that mark their execution, and name the attack's modules."""
        made = "class X:\n    def __init__(self, *_, **__): pass\n"
        source = f"{TOKEN} = 1\nopen({str(self.mark)!r}, 'a').close()\n{made}"
        for place in (self.run / "payload.py", self.work / "payload.py", self.work / "evil_module.py"):
            place.write_text(source)
        package = self.work / "evil_package"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").write_text(source)
        self.modules.add("evil_package")


def forge(run: Path) -> None:
    """Put the right sizes, hashes and digests into a run folder, as its maker would."""
    for name in ("config.json", "result.json", "job.json"):
        seal_text(run / name)
    manifest = run / "manifest.json"
    if not _is_plain(manifest):  # a pipe would be waited for
        return
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
        names = [name for name in content["files"] if "/" not in name and _is_plain(run / name)]
        for name in names:
            raw = (run / name).read_bytes()
            content["files"][name] = {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
        manifest.write_text(json.dumps(content, indent=2))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        pass  # a manifest that is no manifest is an attack by itself
    seal_text(manifest)


def seal_text(path: Path) -> None:
    """Put the right digest into the text of a JSON file, where it has one."""
    if not _is_plain(path):
        return
    head, key, tail = path.read_bytes().rpartition(b'"digest": "')
    if key:
        blank = head + key + b"0" * 64 + tail[64:]
        path.write_bytes(head + key + hashlib.sha256(blank).hexdigest().encode() + tail[64:])


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def set_up(place: Place, finished: bool, port: int) -> Scene:
    """Make the folder of a trial: a user's own place, and a run folder that has come from elsewhere."""
    work = place.folder / "one" / "two" / "three" / "work"
    work.mkdir(parents=True)
    (work / "out").mkdir()
    outside = place.folder / "outside"
    outside.mkdir()
    put_table(place.fixtures.table, work)
    shutil.copy(place.fixtures.table, outside / "secret.csv")
    (outside / "step-000000001.ckpt").write_text("the user's own")
    (outside / ".own.tmp").write_text("the user's own")
    run = work / EVIL
    if finished:
        shutil.copytree(place.fixtures.finished / RUN, run)
    else:
        (stopped,) = (each for each in (place.fixtures.unfinished / "outputs").glob("*/*") if each.is_dir())
        shutil.copytree(stopped, run)
    for name in ("home", "tmp"):
        (place.folder / name).mkdir()
    secret = f"sesame{place.random.getrandbits(64):x}"
    return Scene(place.folder, work, run, place.random, finished, port, secret)


def into_sweep(scene: Scene, place: Place) -> None:
    """Move the stranger's run to where a sweep looks for its first job, beside the user's own."""
    folder = scene.work / SWEEP
    shutil.copytree(place.fixtures.finished / SWEEP, folder, symlinks=True)
    target = folder / "attention-full"
    shutil.rmtree(target)
    shutil.move(scene.run, target)
    scene.run = target


def snapshot(folder: Path, without: Sequence[Path]) -> dict[str, str]:
    """Return every path below `folder` with what it is, but for those below `without`."""
    found: dict[str, str] = {}
    for parent, folders, files in os.walk(folder):
        here = Path(parent)
        folders[:] = [name for name in folders if here / name not in without]
        for name in (*folders, *files):
            path = here / name
            if path in without:
                continue
            if path.is_symlink():
                found[str(path)] = f"link to {path.readlink()}"
            elif path.is_file():
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                found[str(path)] = "folder" if path.is_dir() else "special"
    return found


class Server:
    """A server in a process of its own that answers with a table and counts the requests."""

    def __init__(self, log: Path, body: bytes) -> None:
        self.log = log
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listening.getsockname()[1])
        starter = os.getpid()
        self.process = os.fork()
        if not self.process:
            try:
                self._serve(body, starter)
            finally:
                os._exit(0)

    def requests(self) -> int:
        """Stop, and return how many asked."""
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        self.listening.close()
        return len(self.log.read_text().splitlines()) if self.log.is_file() else 0

    def _serve(self, body: bytes, starter: int) -> None:
        self.listening.settimeout(1)
        while os.getppid() == starter:
            try:
                connection, _ = self.listening.accept()
            except TimeoutError:
                continue
            with self.log.open("a") as file:
                file.write("asked\n")
            with connection:
                connection.settimeout(1)
                try:
                    connection.recv(4096)
                    head = f"HTTP/1.0 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
                    connection.sendall(head.encode() + body)
                except OSError:
                    continue


Attack = Callable[[Scene], str]
