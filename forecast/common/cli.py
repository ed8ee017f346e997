"""How a tool ends: one line on the error stream and an exit code for everything that is no bug."""

import errno
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from forecast.common.errors import (
    InputError,
    Interrupted,
    NotEnoughMemory,
    NotFiniteError,
    ParityError,
    ProcessFailed,
    first_line,
)
from forecast.common.out_of_memory import ran_out_of_memory
from forecast.common.printable import shown
from forecast.common.signals import ENDING, is_heard

NAMED = (InputError, NotFiniteError, NotEnoughMemory, ParityError, ProcessFailed)
"""Ends that say in their own words what happened, and have an exit code."""

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)


def finish(tool: Callable[[], None]) -> int:
    """Run `tool` and return its exit code: 0, 2 input, 3 not finite, 4 disk, 6 memory, 128 + the number of a signal.

    Anything else is a fault of the program and keeps its traceback.
    """
    for number in ENDING:
        if is_heard(number):
            signal.signal(number, _terminate)
    try:
        tool()
        sys.stdout.flush()
    except Interrupted as end:
        return _say(str(end), end.exit_code, word="stopped")
    except KeyboardInterrupt:
        return _say("interrupted", 130)
    except SystemExit as end:
        if isinstance(end.__context__, KeyboardInterrupt):  # Lightning makes exit code 1 of it
            return _say("interrupted", 130)
        if isinstance(end.__context__, BrokenPipeError):  # and rich one of a pipe
            return unread()
        raise
    except BrokenPipeError:
        return unread()
    except (*NAMED, OSError, MemoryError, RuntimeError) as error:
        if (known := explain(error)) is None:
            raise
        return _say(*known)
    return 0


def explain(error: Exception) -> tuple[str, int] | None:
    """Give the line and the exit code of what is nobody's bug, None for a fault of the program."""
    if isinstance(error, NAMED):
        return str(error), error.exit_code
    if ran_out_of_memory(error):
        told = f"not enough memory ({first_line(error)}): free some, or ask for less at once"
        return told, NotEnoughMemory.exit_code
    if isinstance(error, PermissionError):
        return f"{error.filename}: not permitted: choose a place you may read and write", 2
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        return f"{error.filename or 'disk'}: {error.strerror}: free some space and run again", 4
    return None


def unread() -> int:
    """Say that what read the output has gone, as `head` does, give the exit code, and write to nowhere from now on."""
    code = 128 + signal.SIGPIPE
    gone = [sys.stdout]
    try:
        _say("nobody reads the output any more", code, word="stopped")
    except BrokenPipeError:
        gone.append(sys.stderr)
    for stream in gone:
        with suppress(OSError, ValueError):  # a stream without a file
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def _terminate(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _say(message: str, code: int, word: str = "error") -> int:
    print(f"{word}: " + shown(" ".join(message.split())), file=sys.stderr)
    return code
