"""How a tool ends: one line on the error stream and an exit code for everything that is no bug."""

import errno
import signal
import sys
from collections.abc import Callable
from types import FrameType

from forecast.errors import InputError, Interrupted, NotFiniteError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)


def finish(tool: Callable[[], None]) -> int:
    """Run `tool` and give its exit code: 0, 2 input, 3 not finite, 4 disk, 130 and 143 signals.

    Anything else is a fault of the program and keeps its traceback.
    """
    signal.signal(signal.SIGTERM, _terminate)
    try:
        tool()
    except (InputError, NotFiniteError) as error:
        return _say(str(error), error.exit_code)
    except Interrupted as end:
        return _say(str(end), end.exit_code, word="stopped")
    except KeyboardInterrupt:
        return _say("interrupted", 130)
    except SystemExit as end:
        if isinstance(end.__context__, KeyboardInterrupt):  # Lightning makes exit code 1 of it
            return _say("interrupted", 130)
        raise
    except PermissionError as error:
        return _say(f"{error.filename}: not permitted: choose a place you may read and write", 2)
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        return _say(f"{error.filename or 'disk'}: {error.strerror}: free some space and run again", 4)
    return 0


def _terminate(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _say(message: str, code: int, word: str = "error") -> int:
    print(f"{word}: " + " ".join(message.split()), file=sys.stderr)
    return code
