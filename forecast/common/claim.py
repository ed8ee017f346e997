"""One process at a time in a run folder."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forecast.common.errors import InputError


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process is in such a block with the same folder, and keep others waiting until its end."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold `folder` until the block or the process ends, however it ends; nothing is left in the folder.

    Raises
    ------
    InputError
        If another process holds it.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{folder}: another process is training there: wait for it, or begin another run"
            ) from None
        yield
    finally:
        os.close(handle)
