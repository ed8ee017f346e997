"""The scene of an attack: a malicious run folder, private files that it must not reach, and tools to forge it."""

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
"""Environment variable that no file may read."""

EVIL = "outputs/evil"
"""Path of the malicious run folder, relative to the working directory of the command."""

MODULES = ("payload", "outputs", "evil_module")
"""Names under which the payload could be imported."""


@dataclass
class Scene:
    """Folders and tools of one attack.

    Attributes
    ----------
    folder
        Folder of the trial; the command may change only its own output in it, and nothing outside.
    work
        Working directory of the command.
    run
        The malicious run folder.
    port
        Port of a local server that counts requests.
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
        """Private folder of the user, which no command may read or write."""
        return self.folder / "outside"

    @property
    def mark(self) -> Path:
        """File that a payload creates when it runs."""
        return self.folder / "PWNED"

    def choose(self, *values: Any) -> Any:
        """Return one of the values."""
        return self.random.choice(values)

    def url(self, scheme: str = "http") -> str:
        """Return an address of the server that counts requests."""
        return f"{scheme}://127.0.0.1:{self.port}/table.csv"

    def escape(self, name: str = "ESCAPED") -> str:
        """Return a path outside the run folder, relative or absolute."""
        up = "/".join([".."] * self.random.randint(1, 5))
        return str(self.choose(f"{up}/{name}", str(self.outside / name), f"x/{up}/{name}"))

    def read(self, name: str) -> Any:
        """Return the content of a JSON file of the run folder."""
        return json.loads((self.run / name).read_text(encoding="utf-8"))

    def edit(self, name: str, path: Sequence[str | int], value: Any) -> None:
        """Set a value in a JSON file of the run folder; create missing parents."""
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
        """Write modules beside the run that mark their execution."""
        body = "class X:\n    def __init__(self, *_, **__): pass\n"
        source = f"{TOKEN} = 1\nopen({str(self.mark)!r}, 'a').close()\n{body}"
        for place in (self.run / "payload.py", self.work / "payload.py", self.work / "evil_module.py"):
            place.write_text(source)
        package = self.work / "evil_package"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").write_text(source)
        self.modules.add("evil_package")


def forge(run: Path) -> None:
    """Write the correct sizes, hashes and digests to a run folder, as an attacker would."""
    for name in ("config.json", "result.json", "job.json"):
        seal_text(run / name)
    manifest = run / "manifest.json"
    if not _is_plain(manifest):  # opening a pipe would block
        return
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
        names = [name for name in content["files"] if "/" not in name and _is_plain(run / name)]
        for name in names:
            raw = (run / name).read_bytes()
            content["files"][name] = {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
        manifest.write_text(json.dumps(content, indent=2))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        pass  # an invalid manifest is an attack too
    seal_text(manifest)


def seal_text(path: Path) -> None:
    """Write the correct digest to a JSON file that has one."""
    if not _is_plain(path):
        return
    head, key, tail = path.read_bytes().rpartition(b'"digest": "')
    if key:
        blank = head + key + b"0" * 64 + tail[64:]
        path.write_bytes(head + key + hashlib.sha256(blank).hexdigest().encode() + tail[64:])


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def set_up(place: Place, finished: bool, port: int) -> Scene:
    """Make the folder of a trial: the user's files and a run folder from an unknown source."""
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
        (stopped,) = (path for path in (place.fixtures.unfinished / "outputs").glob("*/*") if path.is_dir())
        shutil.copytree(stopped, run)
    for name in ("home", "tmp"):
        (place.folder / name).mkdir()
    secret = f"sesame{place.random.getrandbits(64):x}"
    return Scene(place.folder, work, run, place.random, finished, port, secret)


def into_sweep(scene: Scene, place: Place) -> None:
    """Move the malicious run to the first job of a sweep, beside a run of the user."""
    folder = scene.work / SWEEP
    shutil.copytree(place.fixtures.finished / SWEEP, folder, symlinks=True)
    target = folder / "attention-full"
    shutil.rmtree(target)
    shutil.move(scene.run, target)
    scene.run = target


def snapshot(folder: Path, without: Sequence[Path]) -> dict[str, str]:
    """Return the hash or the type of every path below `folder`, except those below `without`."""
    contents: dict[str, str] = {}
    for parent, folders, files in os.walk(folder):
        here = Path(parent)
        folders[:] = [name for name in folders if here / name not in without]
        for name in (*folders, *files):
            path = here / name
            if path in without:
                continue
            if path.is_symlink():
                contents[str(path)] = f"link to {path.readlink()}"
            elif path.is_file():
                contents[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                contents[str(path)] = "folder" if path.is_dir() else "special"
    return contents


class Server:
    """Server in a separate process that replies with a table and counts requests."""

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
        """Stop the server and return the number of requests."""
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
