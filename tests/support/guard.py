"""Monitor a command with Python's audit events: imports, executed code, files, processes and connections."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

from benchmarks.chaos.operations import WRITES, is_within

TOKEN = "chaos_canary"
"""Identifier in every payload, which marks code that is not the program's."""

CHANGES = {
    "os.mkdir": (0,), "os.remove": (0,), "os.rmdir": (0,), "os.rename": (0, 1), "os.link": (1,), "os.symlink": (1,),
    "os.truncate": (0,), "os.chmod": (0,), "os.chown": (0,), "os.utime": (0,),
}  # fmt: skip
"""Events that change the file system, with the positions of their path arguments."""

PROCESSES = (
    *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "subprocess.Popen", "pty.spawn"),
    *("os.startfile", "webbrowser.open", "ctypes.dlopen"),
)
CONNECTIONS = (
    *("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "urllib.Request"),
    *("http.client.connect", "ftplib.connect", "smtplib.connect"),
)

HARMLESS = ("/dev/null", "/dev/tty", "/proc/self/")


@dataclass(frozen=True)
class Watch:
    """Rules of the guard of one command.

    Attributes
    ----------
    root
        Folder of the attack; writes outside it are also prevented.
    writable
        Folders and files below `root` that the command may change.
    private
        Folders that it must not read.
    modules
        Modules that it must not import, since a file names them.
    programs
        Programs that it may start.
    """

    root: Path
    writable: tuple[Path, ...] = ()
    private: tuple[Path, ...] = ()
    modules: frozenset[str] = frozenset()
    programs: tuple[str, ...] = ("git", "uname", "ldconfig", "gcc", "cc", "ld", "objdump", "lscpu")

    def begin(self, events: int) -> None:
        """Install the guard in this process permanently; it writes events to the descriptor `events`."""
        sys.dont_write_bytecode = True  # a module that the command imports first would be compiled into its folder
        sys.addaudithook(_Guard(self, events))


@dataclass
class _Guard:
    watch: Watch
    events: int
    busy: bool = False
    written: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.handlers: dict[str, Callable[[str, tuple[Any, ...]], None]] = {
            "import": self._import,
            "exec": self._exec,
            "compile": self._compile,
            "open": self._open,
            "pickle.find_class": self._pickled,
            **dict.fromkeys(CHANGES, self._change),
            **dict.fromkeys(PROCESSES, self._process),
            **dict.fromkeys(CONNECTIONS, self._connection),
        }

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        handler = self.handlers.get(event)
        if handler is None or self.busy:
            return
        self.busy = True
        try:
            handler(event, arguments)
        finally:
            self.busy = False

    def _report(self, event: str, about: object) -> None:
        line = json.dumps({"event": event, "about": str(about)[:300]})
        if line not in self.written:
            self.written.add(line)
            os.write(self.events, (line + "\n").encode())

    def _import(self, event: str, arguments: tuple[Any, ...]) -> None:
        name = str(arguments[0])
        if any(name == module or name.startswith(f"{module}.") for module in self.watch.modules):
            self._report(event, name)

    def _exec(self, event: str, arguments: tuple[Any, ...]) -> None:
        code = arguments[0]
        if isinstance(code, CodeType) and (TOKEN in code.co_names + code.co_varnames or self._is_own(code.co_filename)):
            self._report(event, code.co_filename)

    def _compile(self, event: str, arguments: tuple[Any, ...]) -> None:
        source = arguments[0]
        text = source.decode(errors="replace") if isinstance(source, bytes) else source
        if isinstance(text, str) and TOKEN in text:
            self._report(event, text)

    def _open(self, event: str, arguments: tuple[Any, ...]) -> None:
        path, mode, flags = arguments
        if not isinstance(path, str | bytes | os.PathLike):
            return
        place = os.fsdecode(path)
        writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool(int(flags or 0) & WRITES)
        if writes:
            self._check_write(event, place)
        elif any(is_within(place, str(folder)) for folder in self.watch.private):
            self._report("read", place)

    def _change(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.mkdir" and os.path.isdir(arguments[0]):
            return  # the folder exists
        for path in (arguments[place] for place in CHANGES[event]):
            if isinstance(path, str | bytes | os.PathLike):
                self._check_write(event, os.fsdecode(path))

    def _check_write(self, event: str, path: str) -> None:
        if path.startswith(HARMLESS) or any(is_within(path, str(place)) for place in self.watch.writable):
            return
        self._report(event, path)
        if not is_within(path, str(self.watch.root)):
            raise PermissionError(1, "prevented by the guard of this test", path)

    def _process(self, event: str, arguments: tuple[Any, ...]) -> None:
        words = str(arguments[0] if arguments else "")
        if event == "ctypes.dlopen":
            if arguments[0] is None or "/" not in words:  # a system library
                return
            if not is_within(words, str(self.watch.root)):
                return
        elif event in ("subprocess.Popen", "os.posix_spawn", "os.exec") and Path(words).name in self.watch.programs:
            return
        self._report(event, arguments)

    def _connection(self, event: str, arguments: tuple[Any, ...]) -> None:
        self._report(event, arguments[1:] or arguments)

    def _pickled(self, event: str, arguments: tuple[Any, ...]) -> None:
        self._report(event, ".".join(map(str, arguments)))

    def _is_own(self, file_name: str) -> bool:
        return os.path.isabs(file_name) and is_within(file_name, str(self.watch.root))
