"""Command lines: types of options; the end of a command: exit code, last line, and advice when memory runs out."""

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

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

Number = TypeVar("Number", int, float)

OUT_OF_MEMORY = (
    *("can't allocate memory", "Cannot allocate memory", "not enough memory", "out of memory", "bad_alloc"),
    *("Failed to allocate", "can't start new thread"),
)
"""Phrases in out-of-memory errors that have no exception type, from the CPU and CUDA allocators among others."""

TO_REDUCE = (
    *("training.batch_size", "training.evaluation_batch_size", "context_length", "horizon", "model.d_model"),
    *("model.d_ff", "model.encoder_layers", "model.decoder_layers"),
)
"""Training options that increase memory use, in order of increasing effect on accuracy."""


def ran_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that the machine or the process is out of memory."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and any(words in str(error) for words in OUT_OF_MEMORY)


@contextmanager
def naming_what_to_make_smaller(config: Mapping[str, Any]) -> Iterator[None]:
    """Turn a library's out-of-memory error into `NotEnoughMemory` that names the training options to reduce."""
    try:
        yield
    except (MemoryError, OSError, RuntimeError) as error:
        if isinstance(error, NotEnoughMemory) or not ran_out_of_memory(error):
            raise
        raise NotEnoughMemory(f"not enough memory ({first_line(error)}): {what_to_make_smaller(config)}") from None


def what_to_make_smaller(config: Mapping[str, Any]) -> str:
    """Return the training options that need less memory if reduced, as advice."""
    options = [f"{key}={value}" for key in TO_REDUCE if (value := look_up(config, key)) is not None]
    advice = f"reduce one of {', '.join(options)}"
    if (length := look_up(config, "model.patch_length")) is not None:
        advice += f"; or increase model.patch_length={length}"
    if not look_up(config, "training.activation_checkpointing"):
        advice += "; or set training.activation_checkpointing=true"
    return advice


NAMED = (InputError, NotFiniteError, NotEnoughMemory, ParityError, ProcessFailed)
"""Errors with a message for the user and an exit code."""

FREE_SPACE = "free some disk space and run again"

DISK = {
    errno.ENOSPC: FREE_SPACE,
    errno.EDQUOT: FREE_SPACE,
    errno.EIO: "check the disk, or choose another place",
    errno.EROFS: "choose a place that can be written",
    errno.EFBIG: "raise the limit of a file's size, or choose another place",
}
"""What to do about an error of the disk, by its number."""

NO_PLACE = (errno.ENAMETOOLONG, errno.ELOOP, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
"""Error numbers of a path that cannot be used as the expected file or folder."""


def finish(tool: Callable[[], None]) -> int:
    """Run `tool` and return its exit code: 0, 2 input, 3 not finite, 4 disk, 6 memory, 128 + signal number.

    Any other error is a bug and keeps its traceback.
    """
    for number in ENDING:
        if is_heard(number):
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        tool()
        if sys.stdout is not None:  # None if it was closed before the start
            sys.stdout.flush()
    except Interrupted as end:
        return _print_end(str(end), end.exit_code, word="stopped")
    except KeyboardInterrupt:
        return _print_end("interrupted", 130)
    except SystemExit as end:
        if isinstance(end.__context__, KeyboardInterrupt):  # Lightning turns it into exit code 1
            return _print_end("interrupted", 130)
        if isinstance(end.__context__, BrokenPipeError):  # rich does the same with a closed pipe
            return unread()
        raise
    except BrokenPipeError:
        return unread()
    except (*NAMED, OSError, MemoryError, RuntimeError) as error:
        if (known := explain(error)) is None:
            raise
        return _print_end(*known)
    return 0


def explain(error: Exception) -> tuple[str, int] | None:
    """Return the message and the exit code of an error, None if it is a bug."""
    if isinstance(error, NAMED):
        return str(error), error.exit_code
    if ran_out_of_memory(error):
        message = f"not enough memory ({first_line(error)}): free memory or reduce the request"
        return message, NotEnoughMemory.exit_code
    if isinstance(error, PermissionError):
        return f"{error.filename}: permission denied: choose a path that you may read and write", 2
    if isinstance(error, OSError) and error.errno in NO_PLACE and error.filename is not None:
        place = str(error.filename2 or error.filename)
        return f"{place[:200]}: {error.strerror}: rename or remove it", 2
    if isinstance(error, OSError) and error.errno in DISK:
        return f"{error.filename or 'disk'}: {error.strerror}: {DISK[error.errno]}", 4
    return None


def unread() -> int:
    """Report a closed output pipe (as with `head`), discard further output and return the exit code."""
    code = 128 + signal.SIGPIPE
    closed = [sys.stdout]
    try:
        _print_end("output pipe closed", code, word="stopped")
    except BrokenPipeError:
        closed.append(sys.stderr)
    for stream in closed:
        with suppress(OSError, ValueError):  # a stream without a file
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def _print_end(message: str, code: int, word: str = "error") -> int:
    print(f"{word}: " + shown(" ".join(message.split())), file=sys.stderr)
    return code


def _reader(kind: Callable[[str], Number], name: str, holds: Callable[[Number], bool]) -> Callable[[str], Number]:
    """Return a type of an option for argparse, which refuses a number outside its range; `name` is in its messages."""

    def read(text: str) -> Number:
        if not holds(value := kind(text)):
            raise ValueError
        return value

    read.__name__ = name
    return read


positive = _reader(int, "integer of at least 1", lambda value: value >= 1)
seconds = _reader(float, "number of seconds", lambda value: value >= 0)
minutes = _reader(float, "number of minutes above 0", lambda value: 0 < value < float("inf"))
gibibytes = _reader(float, "number of GiB above 0", lambda value: 0 < value < float("inf"))
