"""How a command ends: its exit code, its last line, and the advice when memory runs out."""

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from forecast.common.errors import (
    InputError,
    Interrupted,
    NotEnoughMemory,
    NotFiniteError,
    ParityError,
    ProcessFailed,
    first_line,
)
from forecast.common.files import look_up
from forecast.common.processes import ENDING, is_heard
from forecast.common.text import shown

SAID = (
    *("can't allocate memory", "Cannot allocate memory", "not enough memory", "out of memory", "bad_alloc"),
    *("Failed to allocate", "can't start new thread"),
)
"""Words of out-of-memory errors that have no type of their own, from the CPU's and CUDA's allocators among others."""

SMALLER = (
    *("training.batch_size", "training.evaluation_batch_size", "context_length", "horizon", "model.d_model"),
    *("model.d_ff", "model.encoder_layers", "model.decoder_layers"),
)
"""Training options that memory grows with; those that cost the least accuracy come first."""


def ran_out_of_memory(error: BaseException) -> bool:
    """Return whether the machine, or a limit of this process, had no memory left."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and any(words in str(error) for words in SAID)


@contextmanager
def naming_what_to_make_smaller(config: Mapping[str, Any]) -> Iterator[None]:
    """Turn a library's out-of-memory error into `NotEnoughMemory` that names the training options to reduce."""
    try:
        yield
    except (MemoryError, OSError, RuntimeError) as error:
        if isinstance(error, NotEnoughMemory) or not ran_out_of_memory(error):
            raise
        raise NotEnoughMemory(f"not enough memory ({first_line(error)}): {_cure(config)}") from None


def _cure(config: Mapping[str, Any]) -> str:
    options = [f"{key}={value}" for key in SMALLER if (value := look_up(config, key)) is not None]
    told = f"make one of these smaller: {', '.join(options)}"
    if (length := look_up(config, "model.patch_length")) is not None:
        told += f"; or model.patch_length={length} larger"
    if not look_up(config, "training.activation_checkpointing"):
        told += "; or give training.activation_checkpointing=true"
    return told


NAMED = (InputError, NotFiniteError, NotEnoughMemory, ParityError, ProcessFailed)
"""Errors with their own message and exit code."""

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)

NO_PLACE = (errno.ENAMETOOLONG, errno.ELOOP, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
"""Error numbers for a path that is not the kind of file the program reads or writes there."""


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
    """Return the line and the exit code of an error that is no bug, None for a fault of the program."""
    if isinstance(error, NAMED):
        return str(error), error.exit_code
    if ran_out_of_memory(error):
        told = f"not enough memory ({first_line(error)}): free some, or ask for less at once"
        return told, NotEnoughMemory.exit_code
    if isinstance(error, PermissionError):
        return f"{error.filename}: not permitted: choose a place you may read and write", 2
    if isinstance(error, OSError) and error.errno in NO_PLACE and error.filename is not None:
        place = str(error.filename2 or error.filename)
        return f"{place[:200]}: {error.strerror}: rename it or take it away", 2
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        return f"{error.filename or 'disk'}: {error.strerror}: free some space and run again", 4
    return None


def unread() -> int:
    """Report that the reader of the output is gone (as with `head`), discard further output, return the exit code."""
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
