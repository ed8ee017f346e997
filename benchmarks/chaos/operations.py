"""Count the operations of a command that change files, and act at one of them."""

import mmap
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

OPERATIONS = ("open", "os.mkdir", "os.rename", "os.remove", "os.truncate")
"""Events that change files, at which a command can be killed or a disk can fail."""

COUNTER = struct.Struct("q")


def is_within(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or below it, after resolving links."""
    whole = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))
    return whole == folder or whole.startswith(f"{folder}{os.sep}") or os.path.realpath(path) == folder


@dataclass
class Operations:
    """Audit hook that counts the operations of a command that change files, and acts at one of them.

    Attributes
    ----------
    act
        Function called before the operation `at`; it may raise.
    at
        Number of the operation, from 1; None: only count.
    below
        Folder whose files count.
    counter
        Shared memory for the count.
    lasting
        Whether to act at every later operation too.
    """

    below: Path
    at: int | None
    act: Callable[[str, str], object] = lambda *_: None
    counter: mmap.mmap | None = None
    lasting: bool = False
    count: int = 0
    busy: bool = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Handle one audit event."""
        if event not in OPERATIONS or self.busy or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        path = os.fsdecode(arguments[0])
        if event == "open":
            _, mode, flags = arguments
            if not (set(mode) & set("wax+") if isinstance(mode, str) else int(flags or 0) & WRITES):
                return
        self.busy = True
        try:
            if not is_within(path, str(self.below)):
                return
            self.count += 1
            if self.counter is not None:
                self.counter[:] = COUNTER.pack(self.count)
            if self.count == self.at or (self.lasting and self.at is not None and self.count > self.at):
                self.act(event, path)
        finally:
            self.busy = False
