"""Errors that are not bugs, each with its exit code."""

import re

from forecast.common.text import shortened, shown

LONGEST = 2**15
"""Largest number of characters of a message, enough for the names of a thousand columns."""

LONG_WORD = 1000
"""Largest number of characters without a blank or comma in it."""


class InputError(ValueError):
    """Invalid input. The message is one line: the problem, where it is, and what to do.

    A message quotes files of others: it has no control characters but line ends, which `finish` joins, and very long
    words lose their middle.
    """

    exit_code = 2
    words: tuple[str, ...] = ()
    """Options of a training that accept the input as it is, as `data.missing=mask`."""

    def __init__(self, message: str = "") -> None:
        words = re.sub(rf"[^\s,]{{{LONG_WORD},}}", lambda word: shortened(word[0], LONG_WORD), message)
        super().__init__(shown(shortened(words, LONGEST), kept="\n"))


class NotFiniteError(ArithmeticError):
    """A loss or a gradient is NaN or infinite; raised before the weights are touched."""

    exit_code = 3


class NotEnoughMemory(MemoryError):
    """The request needs more memory than is available; the message says what to reduce."""

    exit_code = 6


class Interrupted(Exception):
    """A signal ended the training between two steps; its state is saved."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class ParityError(ArithmeticError):
    """The forecast of an exported model differs from the run's; the model is not written."""

    exit_code = 1


class ProcessFailed(Exception):
    """Another process of the same run failed; the message says which one and why."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def first_line(error: BaseException) -> str:
    """Return the first line of an error, at most 200 characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:200]


def signal_behind(error: BaseException, before: BaseException | None = None) -> KeyboardInterrupt | SystemExit | None:
    """Return the signal's exception in the chain of `error` up to `before`, None if there is none.

    An interrupted library may fail during its clean-up and raise that error instead.
    """
    seen: list[BaseException] = []
    end: BaseException | None = error
    while end is not None and end is not before and end not in seen:
        if isinstance(end, (KeyboardInterrupt, SystemExit)):
            return end
        seen.append(end)
        end = end.__cause__ or end.__context__
    return None
